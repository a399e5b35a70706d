"""``python seeds/refresh.py``: a new list is complete and in place, or the old one is untouched."""

import gzip
import http.server
import io
import os
import socket
import sys
import threading
import zipfile
from pathlib import Path

import pytest
import warm
from text_tables import cases, each

SCRIPT = Path(__file__).parents[3] / "seeds" / "refresh.py"
ROWS = b"1,first.example\r\n2,SECOND.example\r\n3,third.example\r\n4,beyond.example\r\n"
WANTED = b"1,first.example\n2,second.example\n3,third.example\n"


def zipped(**files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


LIST = zipped(**{"top-1m.csv": ROWS})
# What the server says by path: status, length, body.
ANSWERS = {
    "/list.zip": (200, len(LIST), LIST),
    "/gone": (404, 0, b""),
    "/cut": (200, len(LIST), LIST[:50]),
}


def refresh(out, *arguments):
    # A proxy of this machine has no way to its loopback servers.
    environment = {name: v for name, v in os.environ.items() if not name.lower().endswith("_proxy")}
    command = [sys.executable, SCRIPT, "--out", out, "--count", "3", *map(str, arguments)]
    return warm.run(command, env=environment)


@pytest.fixture
def out(tmp_path):
    """A list of yesterday in a directory of its own."""
    path = tmp_path / "lists" / "top.csv"
    path.parent.mkdir()
    path.write_bytes(b"old")
    return path


@pytest.fixture
def server():
    """The URL of a loopback server."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, length, body = ANSWERS[self.path]
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def assert_untouched(out, run, why):
    assert run.returncode == 1
    assert run.stderr == f"{out} was not changed: {why}\n"
    assert run.stdout == ""
    assert out.read_bytes() == b"old"
    assert list(out.parent.iterdir()) == [out]


@each("content", ROWS, gzip.compress(ROWS, mtime=0), LIST, ids=["plain", "gzip", "zip"])
def test_local_list_of_any_form_replaces_the_old_one(tmp_path, out, content):
    source = tmp_path / "source"
    source.write_bytes(content)
    run = refresh(out, "--from", source)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith(f"{out}: 3 domains from {source}\n")
    assert out.read_bytes() == WANTED
    assert list(out.parent.iterdir()) == [out]


@each("content why",
        (b"", "the list has 0 rows instead of 3"),
        (ROWS[:35], "the list has 2 rows instead of 3"),
        (b"1,a.example\n3,c.example\n", "line 2 is not '2,domain': b'3,c.example\\n'"),
        (b"<html>no list</html>", "line 1 is not '1,domain': b'<html>no list</html>'"),
        (gzip.compress(ROWS, mtime=0)[:-9],
         "Compressed file ended before the end-of-stream marker was reached"),
        (zipped(a=ROWS, b=ROWS), "{source} holds 2 files instead of one list"),
        (zipped(a=ROWS)[:-9], "File is not a zip file"))  # fmt: skip
def test_unfit_list_is_refused(tmp_path, out, content, why):
    source = tmp_path / "source"
    source.write_bytes(content)
    assert_untouched(out, refresh(out, "--from", source), why.format(source=source))


@cases(
    "words why",
    """
        --from missing           | [Errno 2] No such file or directory: 'missing'
        --url file:///etc/passwd | file:///etc/passwd is no http or https URL
        --url {url}/gone         | {url}/gone answered 404 Not Found
        --url {url}/cut          | the download of {url}/cut broke off
    """,
)
def test_place_without_a_list_leaves_the_old_one(out, server, words, why):
    run = refresh(out, *words.format(url=server).split())
    assert_untouched(out, run, why.format(url=server))


def test_directory_that_does_not_exist_is_named(tmp_path):
    run = refresh(tmp_path / "none" / "top.csv")
    assert run.returncode == 1
    assert run.stderr.endswith(f"{tmp_path / 'none'} is not a directory\n")


def test_download_replaces_the_old_list(out, server):
    run = refresh(out, "--url", f"{server}/list.zip")
    assert (run.returncode, run.stderr) == (0, "")
    assert out.read_bytes() == WANTED
    assert list(out.parent.iterdir()) == [out]


def test_machine_without_a_way_to_the_list_leaves_the_old_list(out):
    with socket.socket() as deaf:  # bound, so that nobody else answers, but not listening
        deaf.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/list.zip"
        run = refresh(out, "--url", url)
    assert_untouched(out, run, f"cannot download {url}: [Errno 111] Connection refused")
