"""A real S3-compatible server on loopback (localbucket)."""

import contextlib
import re

import localbucket
from http_site import serving


def s3_options(port):
    """The address of the server and a login, as OUTPUT_STORE_OPTIONS."""
    return {
        "endpoint": f"http://127.0.0.1:{port}",
        "access_key_id": "me",
        "secret_access_key": "secret",
        "region": "us-east-1",
    }


def s3_environment(port):
    """The same in the environment of a process."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "me",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


@contextlib.contextmanager
def s3_server(root):
    """Serves the directory *root*, which has a directory for each bucket. Deletions of several
    objects, which localbucket lacks and obstore makes, are added. A listing reads one directory and
    not the whole bucket."""

    class Handler(localbucket.S3Handler):
        data_root = root

        def _list_entries(self, bucket_dir, prefix, delimiter, marker, *paging):
            folder = prefix[: prefix.rfind("/") + 1]
            assert marker.startswith(folder) or not marker
            contents, prefixes, truncated, last = super()._list_entries(
                bucket_dir / folder,
                prefix.removeprefix(folder),
                delimiter,
                marker.removeprefix(folder),
                *paging,
            )
            return (
                [(folder + key, path) for key, path in contents],
                [folder + common for common in prefixes],
                truncated,
                last[:2] + folder + last[2:],
            )

        def _post_request(self, bucket, key):
            if "delete" not in self.query:
                super()._post_request(bucket, key)
                return
            keys = re.findall(r"<Key>(.*?)</Key>", self._read_body().decode())
            for one in keys:
                (root / bucket / one).unlink(missing_ok=True)
            deleted = "".join(f"<Deleted><Key>{one}</Key></Deleted>" for one in keys)
            self._send(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

    server = localbucket.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with serving(server):
        yield server
