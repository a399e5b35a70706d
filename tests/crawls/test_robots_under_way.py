"""Fetches of robots.txt: what is asked, what stops them, and what middlewares make of them."""

import gzip
import json
import signal
import threading
import time

import warc_checks
from crawling import crawl_of_urls, finish, output_of, run_crawl, start_crawl, stats_of
from http_site import HttpSite, serving
from patience import LIMIT_SECS
from text_tables import cases, each

HOSTS, WORKERS = 8, 3


@each("fast", True, long=(False,))
def test_robots_txt_holds_a_worker_and_is_broken_off_when_the_crawl_is_stopped(tmp_path, fast):
    released = threading.Event()

    def answer(_):
        released.wait(LIMIT_SECS)
        return 404, {}, b""

    with serving(HttpSite(answer, "0.0.0.0")) as site:  # all of 127.0.0.0/8
        urls = [f"http://127.0.0.{n + 1}:{site.server_port}/" for n in range(HOSTS)]
        settings = {"CONCURRENT_REQUESTS": WORKERS, "SHUTDOWN_GRACE_SECS": 0.1}
        settings |= {"FAST_PATH_ENABLED": fast, "DOWNLOAD_TIMEOUT": 30}
        crawl = start_crawl(crawl_of_urls(tmp_path, *urls, **settings))
        while len(site.asked) < WORKERS:
            time.sleep(0.01)
        time.sleep(0.2)
        crawl.send_signal(signal.SIGTERM)
        output = output_of(crawl)
        released.set()
    assert "Traceback" not in output
    assert site.asked == ["/robots.txt"] * WORKERS
    stats = stats_of(tmp_path / "job")
    assert (stats["frontier/waiting"], stats["frontier/leased"]) == (HOSTS, 0)
    assert not [name for name in stats if name.startswith("robots/http")]


MARKING = """
class Middleware:
    def process_request(self, request):
        request.headers["Marked"] = "by a user's own"
"""


@cases(
    "middlewares fast",
    """
        {}                           | True
        {"marking.Middleware": 100}  | False
    """,
    long="""
        {}                           | False
        {"marking.Middleware": 100}  | True
    """,
)
def test_robots_txt_is_asked_for_as_pages_are_and_read_decoded(
    user_module, tmp_path, fast, middlewares
):
    user_module("marking", MARKING)
    asked, rules = {}, gzip.compress(b"User-agent: *\nDisallow: /denied")

    def answer(handler):
        asked[handler.path] = dict(handler.headers)
        if handler.path == "/robots.txt":
            return 200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, rules
        return 200, {}, b"<a href=/denied>never</a><a href=/allowed>then</a>"

    with serving(HttpSite(answer)) as site:
        settings = {"DOWNLOADER_MIDDLEWARES": json.dumps(middlewares), "FAST_PATH_ENABLED": fast}
        finish(crawl_of_urls(tmp_path, f"{site.url}/", **settings))
    assert site.asked == ["/robots.txt", "/", "/allowed"]
    assert asked["/robots.txt"] == asked["/"]
    assert asked["/"]["User-Agent"].startswith("webcrawl")
    assert asked["/"].get("Marked") == ("by a user's own" if middlewares else None)
    (file,) = (tmp_path / "job/warc").glob("*.warc.gz")
    first = next(one for one in warc_checks.records(file) if one.kind == "response")
    assert first.headers["WARC-Target-URI"] == f"{site.url}/robots.txt"
    assert first.body.endswith(rules)
    stats = stats_of(tmp_path / "job")
    assert stats["downloader/response_count"] == stats["response_received_count"] == 3


ANSWERING = """
from scrapy import Request
from scrapy.http import Response

class Middleware:
    def process_request(self, request):
        if "127.0.0.1" not in request.url or not request.url.endswith("/robots.txt"):
            return None
        other = Request(request.url.replace("127.0.0.1", "127.0.0.2"))
        if REPLACES:
            return other
        return Response(request.url, body=b"User-agent: *\\nDisallow: /denied", request=other)
"""


@cases(
    "replaces fast asked",
    """
        False | True  | ["/", "/allowed"]
        True  | False | []
    """,
    long="""
        False | False | ["/", "/allowed"]
        True  | True  | []
    """,
)
def test_no_page_comes_of_what_a_middleware_makes_of_robots_txt(
    user_module, tmp_path, fast, replaces, asked
):
    user_module("answering", f"REPLACES = {replaces}\n{ANSWERING}")
    page = (200, {}, b"<a href=/denied>never</a><a href=/allowed>then</a>")
    with serving(HttpSite(lambda _: page, "0.0.0.0")) as site:
        settings = {"DOWNLOADER_MIDDLEWARES": '{"answering.Middleware": 100}'}
        url = f"http://127.0.0.1:{site.server_port}/"
        done = run_crawl(crawl_of_urls(tmp_path, url, FAST_PATH_ENABLED=fast, **settings))
    assert "Traceback" not in done.stdout, done.stdout
    assert site.asked == asked
    stats = stats_of(tmp_path / "job")
    assert stats.get("item_scraped_count", 0) == bool(asked)  # the second page is the same
    assert not [name for name in stats if name.startswith("critical/")]
