"""The download handler: what a response carries, its bounds, and Scrapy's side."""

import asyncio
import gzip
import ipaddress
import random

import pytest
from fetching import (
    CHUNKED,
    OK,
    answer_to,
    handler_with,
    outcome_for,
    served,
)
from loopback import (
    each_loop,  # noqa: F401  runs every test twice
    head,
    name_server,
    pieces,
    raw_server,
    untrusted,
    zone,
)
from patience import LIMIT_SECS
from scrapy import Request, signals
from scrapy.exceptions import StopDownload
from scrapy.http import HtmlResponse
from scrapy.responsetypes import responsetypes
from scrapy.utils.test import get_crawler
from text_tables import cases, each

from webcrawl.net.dns.resolver import resolver_of
from webcrawl.net.http import answer, exchange
from webcrawl.net.http.request import wire_request
from webcrawl.net.outcomes import HeaderTooLargeError

# --- what a response carries -----------------------------------------------------------------


def test_a_response_carries_what_was_on_the_wire():
    response = answer_to(
        b"HTTP/1.1 200 Very Well\r\nx-one: 1\r\nContent-Type: text/html; charset=utf-8\r\n"
        b"X-Two: \xe9\r\nX-One: 2\r\nContent-Length: 5\r\n\r\nhello"
    )
    assert isinstance(response, HtmlResponse)
    assert (response.status, response.body, response.flags) == (200, b"hello", [])
    assert response.protocol == "HTTP/1.1"
    assert response.ip_address == ipaddress.ip_address("127.0.0.1")
    assert response.headers.getlist("X-One") == [b"1", b"2"]
    assert response.headers[b"x-two"] == b"\xe9"
    assert response.meta["wire_headers"] == (
        (b"x-one", b"1"),
        (b"Content-Type", b"text/html; charset=utf-8"),
        (b"X-Two", b"\xe9"),
        (b"X-One", b"2"),
        (b"Content-Length", b"5"),
    )
    assert response.meta["wire_reason"] == "Very Well"
    assert response.meta["wire_address"] == "127.0.0.1"
    assert 0 < response.meta["download_latency"] <= response.meta["download_seconds"]


def test_headers_are_those_that_scrapy_would_make():
    response = answer_to(OK.replace(b"\r\n\r\n", b"\r\nset-cookie: a\r\nSET-COOKIE: b\r\n\r\n"))
    made = type(response.headers)(response.meta["wire_headers"])
    assert response.headers == made
    assert list(response.headers) == list(made)


async def test_the_request_goes_out_as_it_was_recorded():
    async with served(OK) as (server, get):
        url = f"http://127.0.0.1:{server.port}/a%7Eb/%2e./c%C3%A9?q=%20&r=a+b#fragment"
        fields = {"User-Agent": "webcrawl", "X-B": "1"}
        response = await get(url, headers=fields, meta={"verbatim_url": True})
        assert server.heads == [
            b"GET /a%%7Eb/%%2e./c%%C3%%A9?q=%%20&r=a+b HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
            b"User-Agent: webcrawl\r\nX-B: 1\r\n\r\n" % server.port
        ]
        sent = response.meta["wire_request_headers"]
        assert sent[1:] == ((b"User-Agent", b"webcrawl"), (b"X-B", b"1"))
        assert response.meta["wire_request"] == server.heads[0]


HINTS = b"HTTP/1.1 103 Hints\r\nContent-Length: 1\r\nX: 1\r\n\r\n"
HEADS = [
    (b"", b"HTTP/1.1 200 So \r\nA:1\r\nB:  2 \r\nContent-Length:  7 \r\n\r\n", b"a\r\n\r\nbc"),
    (b"\r\n\n", b"HTTP/1.0 200\nA: 1\n\n", b"a\r\n\r\nb"),
    (b"HTTP/1.1 103 Hints\r\nX: 1\r\n\r\n\r\n\n", OK.removesuffix(b"hello"), b"hello"),
    (b"HTTP/1.1 103 Hints\r\nX: 1\r\n\r\n" * 3, OK.removesuffix(b"hello"), b"hello"),
]


@each("before last body", *HEADS, ids=["spaces", "bare LF", "blank", "hints"])
def test_the_header_is_kept_byte_for_byte(before, last, body):
    response = answer_to(before + last + body)
    assert response.body == body
    assert response.meta["wire_head"] == last
    assert response.meta["tls"] == ""


@cases(
    "says body",
    r"""
        b"HTTP/1.0 200 OK\r\n\r\nto the end" | b"to the end"
        REPEATED | b""
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n" | b""
        b"HTTP/1.1 204 No Content\r\n\r\nand\r\n\r\nmore\r\n\r\n" | b""
        b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 1\r\n\r\na" | b"a"
        HINTED   | b"a"
    """,
    {
        "REPEATED": CHUNKED + b"0\r\n\r\nand more\r\n\r\n" * 20,
        "HINTED": HINTS + b"HTTP/1.1 200 OK\r\ncontent-length:1\r\nContent-Length: 1,1\r\n\r\na",
    },
)
def test_framing_gives_its_body(says, body):
    """More kinds of it are in the table of test_frozen_answers.py."""
    assert answer_to(says).body == body


@each("size", 1, 7, 500)
async def test_equal_lengths_are_one_however_the_header_comes(size):
    lines = (
        b"HTTP/1.1 200 OK\r\nA: 1\r\nContent-Length: 5\r\nB: 2\r\nContent-Length: 5\r\nC: 3\r\n\r\n"
    )
    async with served([(head, *pieces(lines + b"hello", size))]) as (server, get):
        for _ in range(2):
            response = await get()
            assert (response.body, response.flags) == (b"hello", [])
            assert response.meta["wire_head"] == lines
            names = b" ".join(name for name, _ in response.meta["wire_headers"])
            assert names == b"A Content-Length B C"
        # A head that had to be mended is the last of its connection.
        assert server.connections == 2


async def test_the_answer_to_head_has_no_body():
    async with served(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n") as (_, get):
        response = await get(method="HEAD")
        assert (response.body, response.flags) == (b"", [])


@each("content_type", "text/html", "image/png", "application/json", "")
@each("path", "/", "/a.xml", "/a.png")
def test_the_class_is_the_one_that_scrapy_would_choose(content_type, path):
    says = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: 5\r\n\r\nhello"
    response = answer_to(says.encode(), path=path)
    args = {"headers": response.headers, "url": response.url, "body": response.body}
    assert type(response) is responsetypes.from_args(**args)


def test_long_names_and_types_are_read_like_short_ones():
    name, kind = b"x-" + b"long" * 50, b"text/html; x=" + b"long" * 50
    says = OK.replace(b"text/html", kind).replace(b"\r\n\r\n", b"\r\n" + name + b": 1\r\n\r\n")
    response = answer_to(says)
    assert isinstance(response, HtmlResponse)
    assert response.headers == type(response.headers)(response.meta["wire_headers"])


# --- bounds ----------------------------------------------------------------------------------


@each("size", 999, 1000, 1001, 300_000)
@each("framing", "length", "chunked", "close")
def test_a_body_is_cut_at_the_bound_and_flagged(size, framing):
    body = bytes(n % 251 for n in range(size))
    head = b"HTTP/1.1 200 OK\r\n"
    if framing == "length":
        says = head + b"Content-Length: %d\r\n\r\n" % size + body
    elif framing == "chunked":
        says = head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (size, body)
    else:
        says = head + b"\r\n" + body
    response = answer_to(says, PAGE_MAX_BYTES=1000)
    assert response.body == body[:1000]
    assert response.flags == (["truncated"] if size > 1000 else [])


def test_a_request_may_have_a_bound_of_its_own():
    says = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1000
    response = answer_to(says, download_maxsize=10)
    assert (response.body, response.flags) == (b"x" * 10, ["truncated"])


def test_a_coded_body_is_left_as_it_came():
    body = random.Random(1).randbytes(40_000).hex().encode()
    packed = gzip.compress(body)
    says = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    response = answer_to(says % len(packed) + packed, PAGE_MAX_BYTES=80_000)
    assert (response.body, response.flags) == (packed, [])


LONG_VALUE = b"X-Long: " + b"x" * 3000 + b"\r\n"
LONG_NAME = b"X" * 3000 + b": long\r\n"
ENDLESS = b"X-Long: " + b"x" * 1_000_000
MUCH_IN_ALL = b"".join(b"X-%d: %b\r\n" % (n, b"x" * 250) for n in range(8))


@pytest.fixture
def small_heads(monkeypatch):
    monkeypatch.setattr(answer, "MAX_HEADER_BYTES", 2000)


@each("fields", LONG_VALUE, LONG_NAME, ENDLESS, MUCH_IN_ALL)
@each("interim", b"", b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n")
@each("end", b"\r\n", b"\n")
@pytest.mark.usefixtures("small_heads")
def test_a_header_beyond_the_bounds_is_too_large(fields, interim, end):
    says = interim + b"HTTP/1.1 200 OK\r\n" + fields + b"Content-Length: 1\r\n\r\na"
    assert outcome_for(says.replace(b"\r\n", end)) == "header_too_large"


@each(
    "fields outcome",
    (b"X: a\r\n" * 4990, "http_200"),  # curl takes 5,000
    (b"X: a\r\n" * 5000, "header_too_large"),
    (b"X: %b\r\n" % (b"a" * 1000) * 250, "http_200"),  # Chromium takes 256 KiB
    (b"X: %b\r\n" % (b"a" * 120_000) * 2, "http_200"),
    (b"X: %b\r\n" % (b"a" * 1000) * 270, "header_too_large"),
)
def test_the_largest_headers_are_those_of_curl_and_chromium(fields, outcome):
    says = b"HTTP/1.1 200 OK\r\n" + fields + b"Content-Length: 1\r\n\r\na"
    assert outcome_for(says) == outcome


@pytest.mark.usefixtures("small_heads")
def test_many_interim_answers_are_one_large_header():
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: %b\r\n\r\n" % (b"x" * 400)
    assert outcome_for(hints * 5 + OK) == "header_too_large"
    assert outcome_for(hints * 2 + OK) == "http_200"


@each("end", b"\r\n", b"\n")
@pytest.mark.usefixtures("small_heads")
async def test_a_header_that_never_ends_is_too_large_however_it_comes(end):
    talk = [head, OK, head, b"HTTP/1.1 200 OK" + end, (b"X-Some: field" + end, 0)]
    async with served(talk) as (server, get):
        assert (await get()).body == b"hello"
        with pytest.raises(HeaderTooLargeError, match=server.url):
            await get()
        assert server.connections == 1


@pytest.mark.usefixtures("small_heads")
async def test_the_header_of_each_answer_is_counted_anew():
    async with served(OK) as (server, get):
        for _ in range(30):
            assert (await get()).body == b"hello"
        assert server.connections == 1


@pytest.mark.usefixtures("small_heads")
def test_a_large_page_behind_a_header_with_other_line_ends_is_no_large_header():
    says = b"HTTP/1.1 200 OK\nContent-Length: 100000\n\n" + b"x" * 100_000
    assert len(answer_to(says).body) == 100_000


# --- IPv6 ------------------------------------------------------------------------------------


@each("scheme", "http", "https")
@each("host", "[::1]", "[0:0::0:1]", "a.test")
async def test_addresses_of_ipv6_are_contacted(scheme, host):
    tls = untrusted("a.test") if scheme == "https" else None
    async with name_server(zone({"a.test": ["300 AAAA ::1"]})) as names:
        settings = {"DNS_SERVERS": f"127.0.0.1:{names.port}"}
        async with served(OK, tls=tls, address="::1", **settings) as (server, get):
            for _ in range(2):
                response = await get(f"{scheme}://{host}:{server.port}/")
                assert (response.body, str(response.ip_address)) == (b"hello", "::1")
            assert server.connections == 1
            assert b"\r\nHost: %b:%d\r\n" % (host.encode(), server.port) in server.heads[0]


# --- Scrapy's side ---------------------------------------------------------------------------


@each("signal", signals.headers_received, signals.bytes_received)
@each("fail", False, True)
async def test_a_listener_can_stop_the_download(signal, fail):
    def stop(**arguments):
        raise StopDownload(fail=fail)

    async with raw_server(OK) as server, handler_with() as handler:
        handler.crawler.signals.connect(stop, signal=signal)
        request = Request(server.url)
        try:
            response = await handler.download_request(request)
            assert not fail
        except StopDownload as stopped:
            assert fail
            response = stopped.response
        assert response.flags == ["download_stopped"]
        assert response.body == (b"hello" if signal is signals.bytes_received else b"")
        handler.crawler.signals.disconnect(stop, signal=signal)
        assert (await handler.download_request(request)).flags == []


async def test_listeners_hear_headers_and_bytes():
    heard = []

    def headers(headers, body_length, request, spider):
        heard.append((dict(headers)[b"Content-Type"], body_length))

    def data(data, request, spider):
        heard.append(data)

    async with raw_server(OK) as server, handler_with() as handler:
        handler.crawler.signals.connect(headers, signal=signals.headers_received)
        handler.crawler.signals.connect(data, signal=signals.bytes_received)
        await handler.download_request(Request(server.url))
    assert heard == [([b"text/html"], 5), b"hello"]


async def test_a_crawler_has_one_resolver_which_ends_with_it():
    crawler = get_crawler(settings_dict={"DNS_SERVERS": "127.0.0.1:9"})
    resolver = resolver_of(crawler)
    assert resolver_of(crawler) is resolver
    assert resolver_of(get_crawler()) is not resolver
    await crawler.signals.send_catch_log_async(signals.spider_closed, spider=None, reason="")
    assert crawler.stats.get_value("dns/lookups") == 0
    await crawler.signals.send_catch_log_async(signals.engine_stopped)
    with pytest.raises(OSError, match="closed"):
        await resolver.resolve("a.test")


async def test_a_connection_that_waits_for_its_body_to_be_read_is_not_used_again():
    """Its reading is paused, so the next answer would never arrive."""
    size = exchange._READ_BUFFER + 1
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size)
    async with raw_server(answer) as server, handler_with() as handler:
        for _ in range(2):
            request = wire_request(Request(server.url), handler.sign)
            sent = await handler.connections.send(request, LIMIT_SECS)
            async with asyncio.timeout(LIMIT_SECS):
                while not sent.answer.is_complete:  # noqa: ASYNC110  # nothing else waits for it
                    await asyncio.sleep(0)
            handler.connections.give_back(sent)
    assert server.connections == 2
