"""Two rounds of a crawl with every kind of record, replayed by pywb and by ReplayWeb.page."""

import gzip
import json
import socketserver
import threading
import zipfile
from collections import Counter, defaultdict

import pytest
import warm
from crawling import crawl_of_urls, finish
from http_site import HttpSite, serving
from pywb_server import pywb_of
from replayweb import replayweb_of
from warc_checks import complaints, dangling, records

from webcrawl.jobs.wacz.result import warc_files

pytestmark = pytest.mark.long

MAX_BYTES = 20_000
TWIN = b"<title>Twins</title><p>a document under two URLs"
LOADED = "loaded by a script"
SCRIPT = b"""
fetch('/data.json').then(answer => answer.json())
  .then(data => { document.getElementById('text').textContent = data.text })
"""
#: What each path is answered with in the first round; the second one has another /changes.
SENT = {
    "/robots.txt": (404, {}, b"none"),
    "/gzip": (200, {"Content-Encoding": "gzip"}, gzip.compress(b"<p>pressed")),
    "/chunked": (200, {"Transfer-Encoding": "chunked"}, b"<p>in chunks" * 100),
    "/moved": (302, {"Location": "/one"}, b"<p>gone to one"),
    "/one": (200, {}, TWIN),
    "/two": (200, {}, TWIN),
    "/three": (200, {}, TWIN),
    "/same": (200, {}, b"<p>a page without validators"),
    "/changes": (200, {}, b"<p>as it was"),
    "/none": (404, {}, b"<title>not here</title>"),
    "/cut": (200, {"Transfer-Encoding": "chunked"}, b"<p>" + b"a long page " * 3000),
    "/app": (200, {}, b"<p id=text>shell</p><script src=/app.js></script>"),
    "/app.js": (200, {"Content-Type": "text/javascript"}, SCRIPT),
    "/data.json": (
        *(200, {"Content-Type": "application/json"}),
        json.dumps({"text": LOADED}).encode(),
    ),
}
GOPHER = b"a file from gopher\r\n"


class _Gopher(socketserver.StreamRequestHandler):
    """Answers each selector with a file."""

    def handle(self):
        self.rfile.readline()
        self.wfile.write(GOPHER)


@pytest.fixture(scope="module")
def crawled(tmp_path_factory):
    """The package, and what was sent for each URL, by round."""
    directory = tmp_path_factory.mktemp("crawl")
    sent = defaultdict(list)
    asked = defaultdict(int)

    def answer(request):
        path = request.path
        asked[path] += 1
        status, headers, body = SENT.get(path, (404, {}, b""))
        if path == "/changes" and asked[path] > 1:
            body = b"<p>as it is"
        if path == "/":
            links = [*(SENT.keys() - {"/app.js", "/data.json"}), gopher_url]
            body = "".join(f"<a href='{one}'>{one}</a>" for one in links).encode()
            status = 200
        tag = {} if path in {"/same", "/changes", "/moved", "/none"} else {"ETag": '"1"'}
        if tag and request.headers["If-None-Match"]:
            sent[path].append((304, body))
            return 304, tag, b""
        sent[path].append((status, body))
        return status, headers | tag, body

    gopher = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Gopher)
    gopher_url = f"gopher://127.0.0.1:{gopher.server_address[1]}/0/file"
    with gopher, serving(HttpSite(answer)) as site:
        thread = threading.Thread(target=gopher.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        command = crawl_of_urls(
            directory,
            f"{site.url}/",
            POLITENESS_MIN_DELAY=0.01,
            POLITENESS_DELAY_FACTOR=0,
            PAGE_MAX_BYTES=MAX_BYTES,
            GOPHER_PORTS=gopher.server_address[1],
            RENDER="all",
            WARC_TEXT=1,
        )
        finish(command)
        assert warm.scrapy("frontier", directory / "job", "--refetch", "all").returncode == 0
        finish(command)
        gopher.shutdown()
        thread.join()
    made = warm.scrapy("wacz", directory / "job", "-o", directory / "crawl.wacz")
    assert made.returncode == 0, made.stderr
    return directory, site.url, sent


def captures(directory):
    """URL, timestamp, type and status of each line of the index."""
    with zipfile.ZipFile(directory / "crawl.wacz") as archive:
        index = gzip.decompress(archive.read("indexes/index.cdx.gz")).decode()
    for line in index.splitlines():
        _, timestamp, members = line.split(" ", 2)
        found = json.loads(members)
        yield found["url"], timestamp, found.get("mime", ""), found.get("status", "")


def expected(directory, url, sent):
    """Path, timestamp, status and body of each capture of the site at *url*."""
    rounds = Counter()
    for target, timestamp, *_ in captures(directory):
        path = target.removeprefix(url)
        if path in sent:
            _, body = sent[path][rounds[path]]
            status, _ = sent[path][0]
            rounds[path] += 1
            yield path, timestamp, status, body[:MAX_BYTES]
    # A visit that found nothing new is a capture, too, unless the record with the page is unknown.
    rounds["/cut"] += sum(status == 304 for status, _ in sent["/cut"])
    assert {path: len(answers) for path, answers in sent.items()} == rounds


def test_pywb_replays_every_kind(crawled, tmp_path):
    directory, url, sent = crawled
    (gopher,) = {one for one, *_ in captures(directory) if one.startswith("gopher:")}
    with pywb_of(tmp_path, directory / "crawl.wacz") as pywb:
        for path, timestamp, *answer in expected(directory, url, sent):
            status, _, body = pywb.replay(f"{url}{path}", timestamp)
            assert [status, body] == answer, path
        assert pywb.replay(gopher, "2026")[::2] == (200, GOPHER)


def test_replaywebpage_replays_every_kind(crawled):
    directory, url, sent = crawled
    (gopher,) = {one for one, *_ in captures(directory) if one.startswith("gopher:")}
    visits = {}
    with replayweb_of(directory / "crawl.wacz") as replayweb:
        for path, timestamp, status, body in expected(directory, url, sent):
            visits[path] = timestamp
            if path != "/moved":
                found, _, shown = replayweb.replay(f"{url}{path}", timestamp)
                plain = gzip.decompress(body) if path == "/gzip" else body
                assert (found, shown) == (status, plain), path
        assert replayweb.replay(gopher, "2026")[::2] == (200, GOPHER)
        # The last capture of each, in its user interface.
        for path, text in {
            "/one": "a document under two URLs",
            "/two": "a document under two URLs",
            "/gzip": "pressed",
            "/changes": "as it is",
            "/app": LOADED,
        }.items():
            assert replayweb.shown(f"{url}{path}", visits[path]) == text, path
        moved = replayweb.shown(f"{url}/moved", visits["/moved"], target=f"{url}/one")
        assert moved == "a document under two URLs"


def test_the_crawl_has_every_kind_of_record(crawled):
    directory, url, sent = crawled
    paths = warc_files([directory / "job"])
    stored = [one for path in paths for one in records(path)]
    kinds = {(one.kind, one.status_line[9:12] if one.kind != "request" else "") for one in stored}
    assert kinds >= {
        *(("response", status) for status in ("200", "302", "404")),
        *(("revisit", status) for status in ("200", "")),
        *((kind, "") for kind in ("warcinfo", "request", "metadata", "conversion", "resource")),
    }
    assert "length" in {
        one.headers.get("WARC-Truncated") for one in stored if one.kind == "response"
    }
    types = {one.headers["Content-Type"] for one in stored if one.kind == "conversion"}
    assert types == {"text/html; charset=utf-8", "text/plain"}
    alone = [
        one.headers["WARC-Target-URI"].removeprefix(url)
        for one in stored
        if one.kind == "metadata" and "WARC-Concurrent-To" not in one.headers
    ]
    # Its body was cut, so that it is not known whether another one has the same bytes.
    assert alone == ["/cut"] * (304 in dict(sent["/cut"]))
    assert sum(304 in dict(answers) for answers in sent.values()) > 5
    assert dangling(paths) == []
    assert [complaints(path) for path in paths] == [{}] * len(paths)
