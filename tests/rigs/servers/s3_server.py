"""A real S3-compatible server on loopback (localbucket), and fsspec's s3:// by obstore.

s3fs, which fsspec takes for s3:// otherwise, wants an older python-dateutil than the tests.
"""

import contextlib
import os
import re
import sys

import fsspec
import localbucket
from http_site import serving
from obstore.fsspec import FsspecStore


class S3(FsspecStore):
    """``s3://`` for fsspec."""

    protocol = "s3"


class KnownS3:
    """Extension: fsspec opens ``s3://`` in this process. It keeps threads and descriptors."""

    @classmethod
    def from_crawler(cls, crawler):
        fsspec.register_implementation("s3", S3, clobber=True)
        return cls()


def s3_options(port):
    """What fsspec is to be given: this client's names for a server's address and a login."""
    return {
        "endpoint": f"http://127.0.0.1:{port}",
        "access_key_id": "me",
        "secret_access_key": "secret",
        "region": "us-east-1",
        "client_options": {"allow_http": True},
    }


def s3_environment(port):
    """The same in the environment of a process, which finds these modules, too."""
    return {
        "PYTHONPATH": os.pathsep.join(map(str, sys.path)),
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "me",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }


@contextlib.contextmanager
def s3_server(root):
    """Serves the directory *root*, which has a directory for each bucket. Deletions of several
    objects, which localbucket lacks and obstore makes, are added."""

    class Handler(localbucket.S3Handler):
        data_root = root

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
