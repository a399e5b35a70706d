"""The download handler for gopher, against servers that say what they are told."""

import asyncio
import time

import pytest
from contacting import fetch, gopher_server, line, origin_of, outcome
from hypothesis import given
from hypothesis import strategies as st
from loopback import (
    each_loop,  # noqa: F401  a fixture
    hold,
    in_virtual_time,
    raw_server,
    reset,
    virtual_time,  # noqa: F401  a fixture
)
from scrapy.http import HtmlResponse, TextResponse
from scrapy.settings import Settings
from text_tables import cases, each

from webcrawl.configuration.values import port_numbers
from webcrawl.errors import FatalError
from webcrawl.net.gopher.handler import target_of
from webcrawl.net.gopher.menu import Item, items, row_of
from webcrawl.net.outcomes import BadAnswerError, BadUrlError
from webcrawl.urls import SCHEMES, normalize
from webcrawl.urls.extraction.html import extract

MENU = (
    b"iWelcome to <b>Floodgap</b>\t\terror.host\t1\r\n"
    b"0About & more\t/about.txt\ta.test\t70\r\n"
    b"1Elsewhere\t\tb.test\t7070\r\n"
    b"1Sub\t/sub menu/?x#y%41\ta.test\t70\r\n"
    b"hThe web\tURL:http://c.test/x?a=1&b=2\ta.test\t70\r\n"
    b"hA page\t/page.html\ta.test\t70\r\n"
    b"gPicture\t/pic.gif\ta.test\t70\r\n"
    b"IPhoto\t/pic.jpg\ta.test\t70\t+\r\n"
    b"9Binary\t/x.zip\ta.test\t70\r\n"
    b"7Search\t/search\ta.test\t70\r\n"
    b"8Telnet\t\ta.test\t23\r\n"
    b"2Phone book\t\ta.test\t105\r\n"
    b"3Error\t\terror.host\t1\r\n"
    b".\r\n"
    b"0After the end\t/after\ta.test\t70\r\n"
)


def get(says, path="/", **options):
    """The response to *path*, and the lines that the server was asked with."""

    async def scenario():
        async with gopher_server(says) as (origin, asked):
            return await fetch(origin + path, **options), asked

    return asyncio.run(scenario())


def outcome_from(says, path="/", **options):
    async def scenario():
        async with gopher_server(says) as (origin, _):
            return await outcome(origin + path, **options)

    return asyncio.run(scenario())


def links(response):
    found = extract(
        response.body, url=response.url, charset="utf-8", limit=100_000, schemes=SCHEMES
    ).links
    return [link.url for link in found]


def test_a_menu_is_a_page_of_links():
    response, asked = get(MENU)
    assert asked == [b"\r\n"]
    assert isinstance(response, HtmlResponse)
    assert (response.status, response.protocol, response.flags) == (200, "GOPHER", [])
    assert response.meta["wire_body"] == MENU
    assert str(response.ip_address) == "127.0.0.1"
    assert 0 < response.meta["download_latency"] <= response.meta["download_seconds"]
    assert links(response) == [
        "gopher://a.test/0/about.txt",
        "gopher://b.test:7070/",
        "gopher://a.test/1/sub%20menu/%3Fx%23y%2541",
        "http://c.test/x?a=1&b=2",
        "gopher://a.test/h/page.html",
        "gopher://a.test/g/pic.gif",
        "gopher://a.test/I/pic.jpg",
        "gopher://a.test/9/x.zip",
    ]
    assert response.css("li::text")[0].get() == "Welcome to <b>Floodgap</b>"
    assert response.css("a::text")[0].get() == "About & more"


@cases(
    "path line content_type",
    r"""
        /0/a%20b.txt | b"/a b.txt"  | b"text/plain"
        /0about      | b"about"     | b"text/plain"
        /h/x.html    | b"/x.html"   | b"text/html"
        /g/x         | b"/x"        | b"image/gif"
        /I/x.jpg     | b"/x.jpg"    | b"image/jpeg"
        /9/x.tar.gz  | b"/x.tar.gz" | b"application/gzip"
        /5/x         | b"/x"        | None
        /0/x?y=z     | b"/x?y=z"    | b"text/plain"
        /0/caf%E9    | b"/caf\xe9"  | b"text/plain"
        /0//x        | b"//x"       | b"text/plain"
    """,
)
def test_documents_are_asked_for_by_one_line_and_typed_by_their_item(path, line, content_type):
    response, asked = get(b"hello\r\n", path)
    assert asked == [line + b"\r\n"]
    assert response.headers.get("Content-Type") == content_type
    assert response.body == b"hello\r\n"
    assert "wire_body" not in response.meta


@cases(
    "says text",
    r"""
        b"one\r\ntwo\r\n.\r\n"  | b"one\r\ntwo\r\n"
        b"one\n.\n"             | b"one\n"
        b"one\r\n."             | b"one\r\n"
        b".\r\n"                | b""
        b"one\r\n...\r\n"       | b"one\r\n...\r\n"
        b"ends with a dot.\r\n" | b"ends with a dot.\r\n"
        b"one\r\n.\r\ntwo\r\n"  | b"one\r\n.\r\ntwo\r\n"
        b""                     | b""
    """,
)
def test_the_dot_that_ends_a_text_is_no_part_of_it(says, text):
    response, _ = get(says, "/0/x")
    assert isinstance(response, TextResponse)
    assert response.body == text
    assert response.meta.get("wire_body", response.body) == says


def test_a_dot_at_the_end_of_a_binary_file_is_kept():
    assert get(b"PK\r\n.\r\n", "/9/x")[0].body == b"PK\r\n.\r\n"


@each("path", "/", "/1/x", "/0/x", "/9/x")
@each(
    "says",
    b"3'/x' does not exist\t\terror.host\t1\r\n.\r\n",
    b"3Sorry!\tx\t(NULL)\t0\r\niTry again\t\terror.host\t1\r\n",
)
def test_an_error_item_is_not_found(path, says):
    response, _ = get(says, path)
    assert (response.status, response.body) == (404, b"")
    assert response.meta["wire_reason"] in says.decode()


def test_what_looks_like_an_error_item_is_none():
    assert get(b"3 apples\r\n", "/0/x")[0].status == 200
    assert get(b"3No\t\terror.host\t1\r\n0But this\t/x\ta.test\t70\r\n")[0].status == 200


@cases(
    "path",
    """
        /0/a%0d%0aQUIT
        /0/a%0Ab
        /0/a%09b
        /1%00
        /%0d
        /7/search%09words
    """,
)
def test_no_selector_can_say_more_than_one_line(path):
    with pytest.raises(BadUrlError):
        target_of("gopher://a.test" + path)
    assert outcome_from(MENU, path) == "bad_url"


@cases(
    "path",
    """
        /7/search
        /8/x
        /2/x
        /T/x
        /i/x
        /3/x
        /+/x
    """,
)
def test_what_is_no_document_is_not_asked_for(path):
    assert outcome_from(MENU, path) == "bad_url"


@each("url", "gopher:///0x", "gopher://a.test:99999/", "gopher://[::1/")
def test_urls_without_a_server_are_bad(url):
    assert asyncio.run(outcome(url, GOPHER_PORTS="70")) == "bad_url"


def test_ports_of_other_services_are_not_spoken_to():
    assert outcome_from(MENU, GOPHER_PORTS="70,7070") == "bad_url"
    assert port_numbers(Settings({"GOPHER_PORTS": "70, 105"}), "GOPHER_PORTS") == {70, 105}
    assert port_numbers(Settings(), "GOPHER_PORTS") == {70, 7070}
    for wrong in ("x", "0", "70000", [None]):
        with pytest.raises(FatalError, match="GOPHER_PORTS must be port numbers"):
            port_numbers(Settings({"GOPHER_PORTS": wrong}), "GOPHER_PORTS")


# servers that mean harm


@cases(
    "says path expected",
    r"""
        b""                                    | /    | connection_lost
        b"HTTP/1.1 400 Bad Request\r\n\r\n"    | /    | bad_answer
        b"HTTP/1.0 400 Bad Request\r\n\r\n"    | /0/x | bad_answer
        BINARY                                 | /    | http_200
        NO_TABS                                | /    | http_200
        b"1\t\t\t\r\n"                         | /    | http_200
    """,
    {"BINARY": b"\0\1\2\3" * 1000, "NO_TABS": b"no tabs at all\r\n" * 1000},
)
def test_broken_servers_have_their_outcomes(says, path, expected):
    assert outcome_from(says, path) == expected


def test_failures_name_the_url():
    with pytest.raises(BadAnswerError, match=r"^gopher://127\.0\.0\.1:\d+/0x: "):
        get(b"HTTP/1.1 400 Bad Request\r\n\r\n", "/0x")


@in_virtual_time
async def test_a_server_that_says_nothing_is_left():
    async with raw_server([hold]) as server:
        origin = origin_of(server)
        assert await outcome(origin + "/", DOWNLOAD_TIMEOUT=0.3) == "timeout"
        bound = {"NET_FIRST_BYTE_TIMEOUT_SECS": 0.3}
        assert await outcome(origin + "/", **bound) == "first_byte_timeout"


@in_virtual_time
@each(
    "limits",
    {"DOWNLOAD_TIMEOUT": 0.4},
    {"download_timeout": 0.4},
    {"NET_MIN_BYTES_PER_SEC": 10_000, "NET_MIN_RATE_SECS": 0.3},
)
async def test_what_has_come_of_a_slow_document_is_kept(limits):
    async with raw_server([(b"x", 0.01)]) as server:
        response = await fetch(origin_of(server) + "/0x", **limits)
    assert response.flags == ["truncated", "time"]
    assert 0 < len(response.body) < 100


@in_virtual_time
async def test_a_slow_document_at_a_bearable_rate_is_read_to_its_end():
    async with raw_server([b"x" * 100, 0.04] * 40) as server:
        options = {"NET_MIN_BYTES_PER_SEC": 200, "NET_MIN_RATE_SECS": 0.4}
        response = await fetch(origin_of(server) + "/0x", **options)
    assert (response.flags, len(response.body)) == ([], 4000)


async def test_a_document_that_breaks_off_is_marked_or_fails():
    async with raw_server([line, b"half", reset]) as server:
        url = origin_of(server) + "/0x"
        response = await fetch(url, DOWNLOAD_FAIL_ON_DATALOSS=False)
        assert (response.body, response.flags) == (b"half", ["dataloss"])
        assert await outcome(url, DOWNLOAD_FAIL_ON_DATALOSS=True) == "incomplete"


async def test_types_that_are_not_wanted_are_not_even_asked_for():
    async with gopher_server(b"hello") as (origin, asked):
        paths = {"/g/x": "unwanted_type", "/0/x": "http_200", "/9/x": "http_200"}
        for path, expected in paths.items():
            assert await outcome(origin + path, PAGE_CONTENT_TYPES="text/") == expected
        assert len(asked) == 2


def test_an_endless_answer_is_cut():
    response, _ = get(b"x" * 3_000_000, "/9/x", PAGE_MAX_BYTES=100_000)
    assert (len(response.body), response.flags) == (100_000, ["truncated"])


def test_an_endless_menu_is_cut_and_so_is_its_page():
    menu = b"".join(b"0\xff\t/%06d\ta.test\t70\r\n" % n for n in range(100_000))
    started = time.process_time()
    response, _ = get(menu, PAGE_MAX_BYTES=1_000_000)
    assert response.flags == ["truncated"]
    assert len(response.body) <= 1_000_000
    assert len(links(response)) == 10_000
    assert time.process_time() - started < 5
    assert links(get(b"\n" * 3_000_000, PAGE_MAX_BYTES=4_000_000)[0]) == []


@cases(
    "line",
    r"""
        b"0x\t/x\t\t70"
        b"0x\t/x\ta b\t70"
        b"0x\t/x\ta/b\t70"
        b"0x\t/x\t@b.test\t70"
        b"0x\t/x\ta.test\t0"
        b"0x\t/x\ta.test\t99999"
        b"0x\t/x\ta.test\t-1"
        b"0x\t/x\ta.test\t\xb2"
        b"0x\t/x\ta.test"
        b"0x\t/x"
        b"0x"
        b"0x\t/../x\ta.test\t70"
        b"0x\t/a/./b\ta.test\t70"
        b"0x\t..\ta.test\t70"
        b"hx\tURL:javascript:alert(1)\ta.test\t70"
        b"hx\tURL:\ta.test"
        b"0x\t/a\0b\ta.test\t70"
    """,
)
def test_items_that_lead_nowhere_are_no_links(line):
    found = links(get(line + b"\r\n0Ok\t/ok\ta.test\t70\r\n")[0])
    # A single dot pair that ends a type's segment is no dot segment: 0.. is a name.
    assert [url for url in found if not url.endswith("/0..")] == ["gopher://a.test/0/ok"]


def test_gopher_texts_are_served_as_text():
    response, _ = get(b'0"><script>alert(1)</script>\t/"><b>\ta.test\t70\r\n')
    assert response.css("a::text").get() == '"><script>alert(1)</script>'
    assert not response.css("script, b")
    assert links(response) == ["gopher://a.test/0/%22%3E%3Cb%3E"]


def test_hosts_may_be_addresses():
    menu = b"0a\t/x\t127.0.0.1\t70\r\n0b\t/x\t::1\t70\r\n0c\t/x\t[::1]\t71\r\n"
    assert links(get(menu)[0]) == [
        "gopher://127.0.0.1/0/x", "gopher://[::1]/0/x", "gopher://[::1]:71/0/x",
    ]  # fmt: skip


@given(
    st.binary(max_size=30).filter(lambda raw: not set(raw) & set(b"\t\r\n\0")),
    st.sampled_from("01h9Ig"),
)
def test_every_link_asks_for_the_selector_of_its_item(selector, kind):
    item = Item(kind, "x", selector.decode("latin-1"), "a.test", "70")
    row = row_of(item)
    if row is not None and "URL:" not in item.selector:
        url = normalize(row.href, schemes=SCHEMES)
        target = target_of(url)
        assert (target.kind, target.selector) == (kind, selector)


@given(st.binary() | st.text("01hi\t/.:a7\r\n").map(str.encode))
def test_no_menu_raises(menu):
    for item in items(menu):
        row_of(item)


async def test_forbidden_addresses_are_not_contacted():
    async with gopher_server(MENU) as (origin, asked):
        assert await outcome(origin + "/", ALLOW_PRIVATE_ADDRESSES=False) == "address_forbidden"
        assert asked == []


# connections


async def test_the_local_address_can_be_chosen():
    peers = []

    async def peer(raw, reader, writer):
        peers.append(writer.get_extra_info("peername")[0])

    async with raw_server([peer, line, b"hello"]) as server:
        response = await fetch(origin_of(server) + "/0x", DOWNLOAD_BIND_ADDRESS="127.0.0.77")
    assert (response.body, peers) == (b"hello", ["127.0.0.77"])
