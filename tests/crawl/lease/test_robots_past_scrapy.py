"""robots.txt past Scrapy: when that way is taken, and that the Page of it is the same."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
from types import SimpleNamespace

import pytest
from fetching import CHUNKED, handler_with
from loopback import raw_server
from scrapy import Request, signals
from scrapy.core.downloader.handlers import DownloadHandlers
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.extensions.corestats import CoreStats
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from webcrawl import settings
from webcrawl.crawl.engine._fast_path import robots_past_scrapy
from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.crawl.lease.lease_requests import ROBOTS_MAX_BYTES
from webcrawl.crawl.lease.page_builder import page_of
from webcrawl.frontier import Entry, Lease
from webcrawl.hosts.robots.lookup import _is_half
from webcrawl.net.dns.resolver import resolver_of
from webcrawl.net.http.decoding import ContentDecodingMiddleware
from webcrawl.net.http.request import SameRequests, wire_request
from webcrawl.net.outcomes import outcome_of
from webcrawl.spiders.web import WebSpider

OURS = {name: value for name, value in vars(settings).items() if name.isupper()}
URL = "https://a.test/robots.txt"
RULES = b"User-agent: *\r\nDisallow: /x\r\n"
CODED = gzip.compress(RULES * 100)
CODING = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"
TYPE = b"Content-Type: text/plain; charset=utf-8\r\n"


@contextlib.asynccontextmanager
async def engine_with(**given):
    """As much of Scrapy's engine as is looked at."""
    handlers = dict.fromkeys(("http", "https"), OURS["DOWNLOAD_HANDLERS_BASE"]["http"])
    handlers |= given.get("DOWNLOAD_HANDLERS", {})  # of Scrapy's tests others are the default
    crawler = get_crawler(WebSpider, OURS | given | {"DOWNLOAD_HANDLERS": handlers})
    middleware = DownloaderMiddlewareManager.from_crawler(crawler)
    handlers = DownloadHandlers(crawler)
    yield SimpleNamespace(
        settings=crawler.settings,
        signals=crawler.signals,
        stats=crawler.stats,
        downloader=SimpleNamespace(middleware=middleware, handlers=handlers),
    )
    await handlers._close()
    await resolver_of(crawler).close()


def way_of(engine):
    return robots_past_scrapy(engine, Request("http://robots.invalid/robots.txt"))


@pytest.mark.parametrize(
    ("given", "passes"),
    [
        ({}, True),
        ({"COOKIES_ENABLED": True}, False),
        ({"HTTPPROXY_ENABLED": True}, False),
        ({"LOG_FORMATTER": "scrapy.logformatter.LogFormatter"}, False),
    ],
)
async def test_it_passes_by_the_web_spider_s_middlewares_and_no_others(given, passes):
    async with engine_with(**given) as engine:
        assert (way_of(engine) is not None) == passes


@pytest.mark.parametrize(
    "signal",
    [
        signals.request_reached_downloader,
        signals.headers_received,
        signals.bytes_received,
        signals.response_downloaded,
        signals.request_left_downloader,
        signals.response_received,
    ],
)
async def test_it_does_not_while_a_listener_would_notice(signal):
    def listener():
        pass

    async with engine_with() as engine:
        stats = CoreStats(engine.stats)
        engine.signals.connect(stats.response_received, signals.response_received)
        way = way_of(engine)
        assert way.begin(URL)
        engine.signals.connect(listener, signal)
        assert way.begin(URL) is None
        engine.signals.disconnect(listener, signal)
        assert way.begin(URL)


class Handler:
    """A user's own."""

    @classmethod
    def from_crawler(cls, crawler):
        return cls()

    async def download_request(self, request):
        return Response(request.url)

    async def close(self):
        pass


async def test_it_does_not_where_a_user_has_a_handler_and_where_a_url_has_credentials():
    async with engine_with(DOWNLOAD_HANDLERS={"http": f"{__name__}.Handler"}) as engine:
        way = way_of(engine)
        assert way.begin("http://a.test/robots.txt") is None
        assert way.begin(URL)
        assert way.begin("https://me:secret@a.test/robots.txt") is None
        assert way.begin("https://a b.test/robots.txt") is None


@pytest.mark.parametrize("url", ["http://B.test:8080/robots.txt", "https://[::1]/r?x=%20"])
def test_its_request_is_the_same(url):
    fields = {"A": ["1", "2"], "User-Agent": "me"}
    same = SameRequests(wire_request(Request("http://a.test/", headers=fields)))
    theirs = wire_request(Request(url, headers=fields, meta={"verbatim_url": True}))
    assert same.to(url) == theirs


def fetch_of_robots():
    entry = Entry("http://a.test/x", "a.test", depth=2, rank=7, via="http://b.test/")
    return Fetch(lease=Lease(entry, 1, 0.0), release=lambda _: None, robots_url=URL)


async def past_scrapy(handler, url):
    sent = SameRequests(wire_request(Request("http://x.test/"))).to(url)
    fetch = fetch_of_robots()
    response = await handler.fetch_robots(sent, url, max_bytes=ROBOTS_MAX_BYTES)
    return response, page_of(response, fetch)


async def by_scrapy(handler, url):
    fetch = fetch_of_robots()
    meta = {"download_maxsize": ROBOTS_MAX_BYTES, "fetch": fetch}
    request = Request(url, meta=meta)
    response = await handler.download_request(request)
    middleware = ContentDecodingMiddleware(max_bytes=ROBOTS_MAX_BYTES)
    response = middleware.process_response(request, response)
    response.request = request
    return response, page_of(response, fetch)


def facts(response, page):
    assert isinstance(response, Response)
    # Where it is handed over it gets the kind and the page before.
    page = dataclasses.replace(page, fetched_at=0.0, kind="", via="")
    of_response = (response.url, response.status, response.body, response.headers, response.flags)
    return of_response, _is_half(response), dataclasses.asdict(page)


ANSWERS = {
    "a file": b"HTTP/1.1 200 Very Well\r\n"
    + TYPE
    + b"Content-Length: %d\r\n\r\n" % len(RULES)
    + RULES,
    "none": b"HTTP/1.0 404 \xe9\r\nX: 1\r\nx: 2\r\n\r\n",
    "a redirect": b"HTTP/1.1 301 Moved\r\nLocation: //c.test/y\r\nContent-Length: 0\r\n\r\n",
    "coded": CODING + TYPE + b"\r\n" + CODED,
    "coded, not whole": CODING + b"\r\n" + CODED[:-20],
    "not coded at all": CODING + b"\r\n" + RULES,
    "too large": b"HTTP/1.1 200 OK\r\n\r\n" + RULES * 20_000,
    "in chunks": CHUNKED + b"5\r\nhello\r\n0\r\n\r\n",
    "in chunks, not whole": CHUNKED + b"5\r\nhello\r\n",
    "not whole": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
    "no HTTP": b"no HTTP at all\r\n\r\n",
    "half a header": b"HTTP/1.1 200 OK\r\n",
}


@pytest.mark.parametrize("on_dataloss", [True, False], ids=["fails", "flags"])
@pytest.mark.parametrize("says", ANSWERS.values(), ids=ANSWERS)
async def test_its_page_is_the_same_and_so_are_its_failures(says, on_dataloss):
    async def talk(reader, writer):
        await server.head(reader)
        writer.write(says)
        await writer.drain()

    found = []
    async with raw_server(talk) as server:
        url = f"http://127.0.0.1:{server.port}/robots.txt"
        for way in (past_scrapy, by_scrapy):
            async with handler_with(DOWNLOAD_FAIL_ON_DATALOSS=on_dataloss) as handler:
                try:
                    found.append(facts(*await way(handler, url)))
                except Exception as error:  # noqa: BLE001  # the same of both
                    found.append((outcome_of(error), str(error)))
    assert found[0] == found[1]


async def test_half_a_robots_txt_whose_time_is_up_is_no_answer():
    async def talk(reader, writer):
        await server.head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n" + RULES)
        await reader.read()

    async with raw_server(talk) as server, handler_with(DOWNLOAD_TIMEOUT=0.3) as handler:
        url = f"http://127.0.0.1:{server.port}/robots.txt"
        with pytest.raises(Exception, match=f"{url}: not done within 0.3 seconds") as error:
            await past_scrapy(handler, url)
    assert outcome_of(error.value) == "timeout"
