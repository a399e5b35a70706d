"""A real S3-compatible server on loopback (localbucket), and fsspec's s3:// by obstore.

s3fs, which fsspec takes for s3:// otherwise, wants an older python-dateutil than the tests.
"""

from __future__ import annotations

import contextlib

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


@contextlib.contextmanager
def s3_server(root):
    """Serves the directory *root*, which has a directory for each bucket."""

    class Handler(localbucket.S3Handler):
        data_root = root

    server = localbucket.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with serving(server):
        yield server
