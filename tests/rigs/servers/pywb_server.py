"""A real pywb on loopback, which replays WACZ files; in an environment of its own (`make test`)."""

import contextlib
import gzip
import http.client
import socket
import subprocess
import time
import zipfile
from pathlib import Path

import psutil
from redis_server import free_port

ROOT = Path(__file__).resolve().parents[3]
#: Its pins of redis and pyOpenSSL are other ones than ours.
BIN = ROOT / ".venv-pywb/bin"


class Pywb:
    """Asks a running pywb for what the collection *name* has."""

    def __init__(self, port, name):
        self._port = port
        self._name = name

    def page(self, url):
        """Where a browser shows the last capture of *url*, in a frame."""
        return f"http://127.0.0.1:{self._port}/{self._name}/{url}"

    def replay(self, url, timestamp):
        """Status, headers and the very bytes of the capture of *url* next to *timestamp*."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self._port)) as connection:
            connection.request(
                "GET",
                f"/{self._name}/{timestamp}id_/{url}",
                headers={"Accept-Encoding": "gzip, br"},  # or pywb decodes what is stored
            )
            answer = connection.getresponse()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, headers, answer.read()


@contextlib.contextmanager
def pywb_of(directory, *packages):
    """A pywb in *directory* of what is in *packages*, their indexes, too: what ``wb-manager add
    --unpack-wacz`` makes of them takes two more processes."""
    assert BIN.is_dir(), "make test makes .venv-pywb"
    collection = directory / "collections/crawl"
    (collection / "indexes").mkdir(parents=True)
    for package in packages:
        with zipfile.ZipFile(package) as archive:
            for name in archive.namelist():
                if name.startswith("archive/"):
                    archive.extract(name, collection)
            index = gzip.decompress(archive.read("indexes/index.cdx.gz"))
        (collection / f"indexes/{package.stem}.cdxj").write_bytes(index)
    port = free_port()
    log = directory / "pywb.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [BIN / "wayback", "-b", "127.0.0.1", "-p", str(port)],
            cwd=directory,
            stdout=output,
            stderr=output,
        )
    try:
        while not _listens(port):
            assert process.poll() is None, log.read_text()
            time.sleep(0.02)
        yield Pywb(port, "crawl")
    finally:
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
        process.kill()
        process.wait()


def _listens(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
