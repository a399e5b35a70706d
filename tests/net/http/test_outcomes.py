"""The download handler: how fetches end, and that one request is one contact."""

import asyncio
import contextlib
import itertools
import os
import socket
from types import SimpleNamespace

import pytest
from fetching import (
    CHUNKED,
    OK,
    answer_to,
    ending,
    fetch,
    handler_with,
    outcome_at,
    outcome_by,
    outcome_for,
    outcome_of_url,
    served,
)
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from loopback import (
    each_loop,  # noqa: F401  runs every test twice
    head,
    hold,
    in_virtual_time,
    name_server,
    raw_server,
    reset,
    until_read,
    untrusted,
    virtual_time,  # noqa: F401  a fixture
    zone,
)
from scrapy import Request
from scrapy.exceptions import DownloadTimeoutError, ResponseDataLossError
from scrapy.utils.test import get_crawler
from strategies import examples
from text_tables import cases, each

from webcrawl.clock import now
from webcrawl.errors import FatalError
from webcrawl.net.http import connections, exchange
from webcrawl.net.limits import FetchLimits
from webcrawl.net.outcomes import UnwantedTypeError, is_stale, outcome_of

ROBOTS = SimpleNamespace(robots_url="http://a.test/robots.txt")

# --- outcomes --------------------------------------------------------------------------------

# What the answers of servers end in is in the tables of test_frozen_answers.py.


def test_an_incomplete_body_is_kept_where_data_loss_is_no_failure():
    says = LENGTH_10 + b"abc"
    with pytest.raises(ResponseDataLossError):
        answer_to(says)
    for options in ({"DOWNLOAD_FAIL_ON_DATALOSS": False}, {"download_fail_on_dataloss": False}):
        response = answer_to(says, **options)
        assert (response.body, response.flags) == (b"abc", ["dataloss"])


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_bytes_end_in_a_response_or_in_an_outcome_with_a_name(data):
    good = data.draw(
        st.sampled_from([
            OK,
            CHUNKED + b"3\r\nabc\r\n0\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
            b"HTTP/1.0 302 Found\nLocation: /\nContent-Encoding: gzip\n\n",
        ])
    )  # fmt: skip
    says = bytearray(good)
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(says) - 1))
        says[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    assert outcome_for(bytes(says)) != "other"


def test_a_listener_that_accepts_nobody_is_a_connect_timeout():
    with socket.socket() as deaf, socket.socket() as filling:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        filling.connect(deaf.getsockname())
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/"
        assert outcome_of_url(url, NET_CONNECT_TIMEOUT_SECS=0.1) == "connect_timeout"


async def read_hello(raw, reader, writer):
    await reader.read(10)


@cases(
    "serving says connections",
    r"""
        # It is contacted once though another failed before it.
        ["127.0.0.3"]              | b"HTTP/1.1 400 Bad Request\r\n\r\n" | [1]
        # It was contacted though it speaks no TLS, and no other address is tried.
        ["127.0.0.2", "127.0.0.3"] | b"HTTP/1.1 400 Bad Request\r\n\r\n" | [1, 0]
        ["127.0.0.2", "127.0.0.3"] | b""                                 | [1, 0]
    """,
)
async def test_one_address_is_contacted_once(serving, says, connections):
    records = {"a.test": ["300 A 127.0.0.2", "300 A 127.0.0.3"]}
    async with name_server(zone(records)) as names, contextlib.AsyncExitStack() as stack:
        port, servers = 0, []
        for address in serving:
            server = raw_server([read_hello, says], address=address, port=port)
            servers.append(await stack.enter_async_context(server))
            port = servers[0].port
        async with handler_with(DNS_SERVERS=f"127.0.0.1:{names.port}") as handler:
            outcome = await outcome_by(handler, f"https://a.test:{port}/")
        assert outcome == "tls_failed" or not says
        assert [server.connections for server in servers] == connections


@cases(
    "url outcome",
    """
        # no route
        http://255.255.255.255/  | connect_failed
        http://127.0.0.1:1/      | connect_refused
        http://[::1]:1/          | connect_refused
        # the name server is down
        http://a.test/           | dns_failed
        http://127.1/            | dns_not_found
        http://a..test/          | dns_not_found
        http:///x                | bad_url
        http://h:99999/          | bad_url
        http://[fe80::1%25lo]:1/ | bad_url
        http://[::1/             | bad_url
        foo://h/                 | bad_url
    """,
)
def test_a_url_that_leads_to_no_server_has_its_outcome(url, outcome):
    assert outcome_of_url(url) == outcome


@in_virtual_time
async def test_silence_after_the_connection_is_a_timeout():
    async with raw_server([hold]) as server:
        for options in ({"DOWNLOAD_TIMEOUT": 0.05}, {"download_timeout": 0.05}):
            with pytest.raises(DownloadTimeoutError, match=r"0\.05 seconds") as silent:
                await fetch(server, **options)
            assert outcome_of(silent.value) == "timeout"


@cases(
    "bound outcome",
    """
        DOWNLOAD_TIMEOUT         | timeout
        NET_CONNECT_TIMEOUT_SECS | connect_timeout
    """,
)
async def test_a_connection_that_is_not_made_ends_by_the_first_of_both_bounds(bound, outcome):
    async with raw_server([hold]) as server, handler_with(**{bound: 0.05}) as handler:
        assert await outcome_by(handler, f"https://127.0.0.1:{server.port}/") == outcome


def stalls(*pieces):
    """A server that sends *pieces* and then nothing, with the connection open."""
    return [head, *(act for piece in pieces for act in (piece, 0.01)), hold]


LENGTH_10 = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
TO_THE_END = b"HTTP/1.1 200 OK\r\n\r\n"
HURRY = {"NET_MIN_BYTES_PER_SEC": 1000, "NET_MIN_RATE_SECS": 0.3}


@in_virtual_time
@each(
    "talk",
    stalls(),
    stalls(b"HTTP/1.1 200"),
    stalls(b"HTTP/1.1 100 Continue\r\n\r\n"),
    stalls(OK[:-7]),
    [head, b"HTTP/1.1 200 OK\r\nX: ", (b"y", 0.02)],
)
def test_a_header_that_is_not_there_in_time_has_its_own_outcome(talk):
    error = ending(talk, NET_FIRST_BYTE_TIMEOUT_SECS=0.1)
    assert outcome_of(error) == "first_byte_timeout"
    assert str(error).startswith("http://127.0.0.1")
    assert "0.1 seconds" in str(error)


@in_virtual_time
async def test_the_time_for_the_header_counts_from_each_request():
    talk = [(head, 0.4, OK)]
    async with served(talk, NET_FIRST_BYTE_TIMEOUT_SECS=1) as (server, get):
        for _ in range(3):
            assert (await get()).body == b"hello"
        assert server.connections == 1


@each("line", b"\r\n", b"\n")
def test_blank_lines_in_floods_are_no_answer(line):
    assert outcome_of(ending([head, (line * 100_000,)])) == "bad_answer"
    assert outcome_for(line * 9 + OK) == "http_200"


@each("scheme", "http", "https")
@each("says", b"220 a.test ESMTP\r\n", b"\r\n" * 200_000)
async def test_a_server_that_speaks_first_is_a_bad_answer_every_time(says, scheme):
    async with raw_server([says, hold], tls=tls_of(scheme)) as server, handler_with() as handler:
        for _ in range(20):
            assert await outcome_by(handler, f"{scheme}://127.0.0.1:{server.port}/") == "bad_answer"


@in_virtual_time
def test_a_body_of_which_nothing_comes_is_too_slow():
    for start in (LENGTH_10, CHUNKED, TO_THE_END):
        error = ending(stalls(start), **HURRY)
        assert outcome_of(error) == "too_slow"
        assert str(error).startswith("http://127.0.0.1")
        assert outcome_of(ending(stalls(start), DOWNLOAD_TIMEOUT=0.1)) == "timeout"


@in_virtual_time
@each("bound", HURRY, {"DOWNLOAD_TIMEOUT": 0.3})
@each("fail", True, False)
@each(
    "pieces",
    (LENGTH_10 + b"abc",),
    (LENGTH_10, b"abc"),
    (TO_THE_END, b"a", b"b", b"c"),
    (CHUNKED, b"3\r\nabc\r\n", b"5"),
    (CHUNKED, b"5\r\nabc"),
)
def test_what_came_of_a_slow_body_is_a_page_cut_by_time(pieces, bound, fail):
    response = ending(stalls(*pieces), DOWNLOAD_FAIL_ON_DATALOSS=fail, **bound)
    assert (response.status, response.body) == (200, b"abc")
    assert response.flags == ["truncated", "time"]


@in_virtual_time
@each("bound", HURRY, {"DOWNLOAD_TIMEOUT": 0.3})
def test_a_part_of_a_robots_txt_is_no_robots_txt(bound):
    """The rest might forbid what the part permits."""
    talk = stalls(LENGTH_10 + b"abc")
    error = ending(talk, fetch=ROBOTS, **bound)
    assert outcome_of(error) == ("too_slow" if bound is HURRY else "timeout")
    assert ending(talk, fetch=SimpleNamespace(robots_url=""), **bound).body == b"abc"


@in_virtual_time
@pytest.mark.timeout(60)  # far below DOWNLOAD_TIMEOUT
@each(
    "talk bounds size flags",
    # Fast enough, for many windows.
    (
        [head, LENGTH_10.replace(b"10", b"3000"), *[b"x" * 100, 0.04] * 30],
        {"NET_MIN_BYTES_PER_SEC": 200, "NET_MIN_RATE_SECS": 0.4},
        3000,
        [],
    ),
    # A quick start, and a standstill.
    (
        stalls(LENGTH_10.replace(b"10", b"99999") + b"x" * 50_000),
        HURRY,
        50_000,
        ["truncated", "time"],
    ),
)
def test_a_body_must_be_fast_enough_all_the_time(talk, bounds, size, flags):
    response = ending(talk, **bounds)
    assert (len(response.body), response.flags) == (size, flags)


@in_virtual_time
def test_a_lowest_rate_of_nothing_leaves_the_body_to_the_whole_timeout():
    bounds = {"NET_MIN_BYTES_PER_SEC": 0, "NET_MIN_RATE_SECS": 0.01, "DOWNLOAD_TIMEOUT": 0.2}
    response = ending(stalls(LENGTH_10 + b"abc"), **bounds)
    assert response.meta["download_seconds"] >= 0.19  # the clock of uvloop counts milliseconds
    assert response.flags == ["truncated", "time"]


@each(
    "talk",
    [head, CHUNKED + b"5;", (b"x" * 1000,)],
    [head, CHUNKED + b"1\r\nx\r\n5;", (b"x" * 1000,)],
    [head, CHUNKED + b"1\r\nx\r\n0\r\n", (b"x" * 1000 + b"\r\n",)],
)
def test_framing_without_end_is_given_up(talk):
    """Endless chunk extensions and trailers, which are no body and have no bound of their own."""
    result = ending(talk, PAGE_MAX_BYTES=10_000, DOWNLOAD_FAIL_ON_DATALOSS=False)
    assert result.flags == ["dataloss"]


def test_chunks_of_a_byte_are_no_framing_without_end():
    says = CHUNKED + b"1\r\nx\r\n" * 9000 + b"0\r\n\r\n"
    response = answer_to(says, PAGE_MAX_BYTES=10_000)
    assert (response.body, response.flags) == (b"x" * 9000, [])


def test_what_came_of_a_body_before_a_reset_may_be_kept():
    response = ending([head, TO_THE_END + b"abc", reset], DOWNLOAD_FAIL_ON_DATALOSS=False)
    assert (response.body, response.flags) == (b"abc", ["dataloss"])


# --- where the head decides ------------------------------------------------------------------


# How a body may end that decides nothing (RFC 9110, section 15: the status is the answer): what
# comes after the status line, whether the server hangs up then, and the flags of the response.
@each(
    "status",
    *("301 Moved", "404 None", "503 Busy"),
    long=("302 Found", "308 Moved", "410 Gone", "429 Slow Down", "500 Broken"),
)
@cases(
    "rest hangs_up flags",
    r"""
        b"Content-Length: 5\r\n\r\nhello" | False | []
        b"Content-Length: 0\r\n\r\n"      | False | []
        b"\r\nhello"                      | False | ["truncated", "time"]
        b"Content-Length: 5\r\n\r\n"      | False | ["truncated", "time"]
        b"Transfer-Encoding: chunked\r\n\r\n" | False | ["truncated", "time"]
        b"Content-Length: 300\r\n\r\nhello"   | True  | ["dataloss"]
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n" | True | ["dataloss"]
        # no chunks
        b"Transfer-Encoding: chunked\r\n\r\nHELLO" | True | ["dataloss"]
        b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello" | False | []
    """,
)
@each("robots_url", "", "http://a.test/robots.txt")
async def test_the_head_decides_however_its_body_ends(
    status, rest, hangs_up, flags, *, robots_url, monkeypatch
):
    if not hangs_up:
        monkeypatch.setattr(exchange, "_MINOR_BODY_SECS", 0.1)
    says = b"HTTP/1.1 %b\r\nLocation: /there\r\nRetry-After: 20\r\n%b" % (status.encode(), rest)
    talk = [head, says, *[hold] * (not hangs_up)]
    async with served(talk) as (server, get):
        contact = SimpleNamespace(robots_url=robots_url, is_last=False)
        response = await get(meta={"fetch": contact})
        assert (response.status, response.flags) == (int(status[:3]), flags)
        assert response.headers[b"Location"] == b"/there"
        assert response.headers[b"Retry-After"] == b"20"
        assert response.body == (b"hello" if b"hello" in rest else b"")
        await server.left(0 if flags else 1)


@in_virtual_time
@pytest.mark.timeout(60)  # far below DOWNLOAD_TIMEOUT
def test_an_endless_error_page_ends_soon():
    response = ending([head, b"HTTP/1.1 404 None\r\n\r\n", (b"x" * 100, 0.01)])
    assert (response.status, response.flags) == (404, ["truncated", "time"])
    assert response.meta["download_seconds"] > 1.5


# --- content types ---------------------------------------------------------------------------


def typed(content_type, status=b"200 OK"):
    field = b"Content-Type: %b\r\n" % content_type if content_type else b""
    return b"HTTP/1.1 %b\r\n%bContent-Length: 5\r\n\r\nhello" % (status, field)


REFUSED = {"PAGE_REFUSED_CONTENT_TYPES": "image/*,text/css"}
UNCLEAR = [b"", b"text", b"\xff\xfe", b"\xff/\xfe"]
OTHERS = [b"image/png", b"application/xhtml+xml", b"textual/html", b"video/" + b"x" * 5000]


@cases(
    "settings received refused",
    """
        {}          | ANY | []
        {"PAGE_CONTENT_TYPES": ["text/*", "Application/PDF"]}
        | [b"", b"text", b"TEXT/HTML; charset=utf-8", b" text/plain ;x", b"application/pdf"]
        | OTHER
        {"PAGE_CONTENT_TYPES": "text/,image/png"} | [b"image/png"] | [b"image/gif"]
        REFUSED     | [b"", b"text", b"text/html; charset=utf-8", b"application/pdf"]
        | [b"text/css", b"Image/PNG"]
        REFUSED_TOO | [b"", b"text", b"text/html; charset=utf-8"]
        | [b"text/css", b"Image/PNG", b"application/pdf"]
    """,
    {
        **globals(),
        "ANY": [*UNCLEAR, *OTHERS],
        "OTHER": [*OTHERS, b"application/pdfx"],
        "REFUSED_TOO": REFUSED | {"PAGE_CONTENT_TYPES": "text/"},
    },
)
def test_only_the_wanted_types_are_received(settings, received, refused):
    expected = dict.fromkeys(received, "http_200") | dict.fromkeys(refused, "unwanted_type")
    assert {kind: outcome_for(typed(kind), **settings) for kind in expected} == expected


@each("status", b"301 Moved", b"404 Not Found", b"503 Busy")
def test_answers_that_are_no_pages_may_be_of_any_type(status):
    response = answer_to(typed(b"image/png", status), PAGE_CONTENT_TYPES="text/")
    assert response.body == b"hello"


def test_a_robots_txt_may_be_of_any_type():
    says = typed(b"application/octet-stream")
    assert answer_to(says, PAGE_CONTENT_TYPES="text/", fetch=ROBOTS).body == b"hello"


async def test_an_unwanted_body_is_not_received():
    talk = [head, b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n\r\n", (b"x" * 65536,)]
    async with raw_server(talk) as server:
        with pytest.raises(UnwantedTypeError, match="video/mp4"):
            await fetch(server, PAGE_CONTENT_TYPES="text/")
        await server.left(0)


@each("setting", "PAGE_CONTENT_TYPES", "PAGE_REFUSED_CONTENT_TYPES")
@cases(
    "value",
    """
        html
        /
        text/html/
        */*
        text/ht*ml
        /html
    """,
)
def test_a_list_of_types_that_cannot_work_is_refused(setting, value):
    crawler = get_crawler(settings_dict={setting: value})
    with pytest.raises(FatalError, match=rf"^{setting} must contain .*, not .*\.$"):
        FetchLimits.from_settings(crawler.settings)


async def test_an_unused_address_from_the_name_servers_is_passed_over():
    records = {"a.test": ["300 A 127.0.0.77", "300 A 127.0.0.1"]}
    async with name_server(zone(records)) as names, raw_server(OK) as server:
        async with handler_with(DNS_SERVERS=f"127.0.0.1:{names.port}") as handler:
            for _ in range(2):
                response = await handler.download_request(Request(f"http://a.test:{server.port}/"))
                assert str(response.ip_address) == "127.0.0.1"
            assert server.heads[0].startswith(b"GET / HTTP/1.1\r\nHost: a.test:")
            assert await outcome_by(handler, f"http://b.test:{server.port}/") == "dns_not_found"
        assert names.asked == ["udp a.test. A", "udp b.test. A"]


@each("cut", *range(4, 40, 6), *range(36, 60), 70)
def test_it_does_not_matter_how_an_answer_is_cut_into_packets(cut):
    """Neither for a body followed by garbage nor for one with garbage in it."""
    longer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more than announced"
    bare = longer.replace(b"\r", b"")
    broken = CHUNKED + b"5\r\nhello\r\nno length\r\nand so on"

    for says in (longer, bare, broken):
        talk = [head, says[:cut], 0.002, says[cut:], hold]
        response = ending(talk, DOWNLOAD_FAIL_ON_DATALOSS=False)
        assert response.body == b"hello"
        assert response.flags == (["dataloss"] if says is broken else [])


PIECES = [b"\r\n", b"\n", b"\r\n\r\n", b"\r", b"\0", b":", b"\xff", b"0\r\n\r\n", b"HTTP/1.1 ",
          b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"Content-Encoding: br\r\n",
          b"Upgrade: x\r\nConnection: upgrade\r\n"]  # fmt: skip


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(
        [OK, OK.replace(b"\r", b""), CHUNKED + b"2;x\r\nab\r\n1\r\nc\r\n0\r\nX: y\r\n\r\n"]
    ),
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from(PIECES)), max_size=3),
    st.lists(st.floats(0, 1), min_size=1, max_size=5),
)
def test_the_packets_do_not_decide_what_becomes_of_an_answer(says, insertions, cuts):
    for share, piece in insertions:
        place = int(share * len(says))
        says = says[:place] + piece + says[place:]
    places = [0, *sorted(int(share * len(says)) for share in cuts), len(says)]
    packets = [says[a:b] for a, b in itertools.pairwise(places) if a < b]

    settings = {"NET_KEEPALIVE_CONNECTIONS": 0, "DOWNLOAD_FAIL_ON_DATALOSS": False}
    ends = []
    for sent in ([says], packets):
        found = ending([head, *(act for packet in sent for act in (packet, 0.0005))], **settings)
        is_error = isinstance(found, Exception)
        ends.append((outcome_of(found), *((b"", []) if is_error else (found.body, found.flags))))
    assert ends[0] == ends[1]
    assert ends[0][0] != "other"


# --- one request, one contact ----------------------------------------------------------------


@each("ends", [], [reset], ids=["closes", "resets"])
@each("reused", False, True)
async def test_a_server_that_hangs_up_is_asked_once(ends, reused):
    talk = [*[head, OK] * reused, head, *ends]
    async with raw_server(talk) as server, handler_with() as handler:
        if reused:
            await handler.download_request(Request(server.url))
        assert await outcome_by(handler, server.url) == "connection_lost"
        assert (len(server.heads), server.connections) == (1 + reused, 1)


#: A server that answers each connection's first request, and hangs up on the others.
LEAVES = [head, OK, head]


async def ask(handler, server):
    """The outcome; "stale" if the request may be sent again."""
    try:
        return outcome_of(await handler.download_request(Request(server.url)))
    except Exception as error:  # noqa: BLE001  any, for its outcome
        return "stale" if is_stale(error) else outcome_of(error)


async def test_an_origin_that_closes_kept_connections_twice_gets_new_ones(monkeypatch):
    later = 0.0
    monkeypatch.setattr(connections, "now", lambda: now() + later)
    async with raw_server(LEAVES) as server, handler_with() as handler:
        outcomes = [await ask(handler, server) for _ in range(8)]
        assert outcomes == ["http_200", "stale", "http_200", "stale", *["http_200"] * 4]
        assert server.connections == 2 + 4
        await server.left(0)  # none is kept
        later = 601.0
        assert [await ask(handler, server) for _ in range(3)] == ["http_200", "stale", "http_200"]
        assert server.connections == 2 + 4 + 2


@each(
    "answers outcomes", ([b""], ["connection_lost"]), ([OK, b"H"], ["http_200", "connection_lost"])
)
async def test_what_is_lost_on_a_new_connection_or_after_a_byte_is_lost(answers, outcomes):
    talk = [act for says in answers for act in (head, says)]
    async with raw_server(talk) as server, handler_with() as handler:
        assert [await ask(handler, server) for _ in answers] == outcomes


async def test_an_answer_that_nobody_asked_for_is_never_the_next_one():
    """A server must not be able to say what the answer to another request is."""
    go, sent = asyncio.Event(), asyncio.Event()

    async def wait(raw, reader, writer):
        await go.wait()

    async def tell(raw, reader, writer):
        sent.set()

    stale, fresh = (OK.replace(b"hello", body) for body in (b"stale", b"fresh"))
    async with served([head, OK, wait, stale, tell, head, fresh]) as (server, get):
        assert (await get()).body == b"hello"
        go.set()
        await sent.wait()
        await until_read()
        assert (await get()).body == b"hello"
        assert server.connections == 2


def tls_of(scheme):
    return untrusted("a.test") if scheme == "https" else None


@each("scheme", "http", "https")
@each("address", "127.0.0.1", "::1")
async def test_a_connection_is_used_again_for_its_own_host_only(scheme, address):
    """Not for another host at the same address and port, whose turn it is not."""
    kind = "AAAA" if ":" in address else "A"
    records = {name: [f"300 {kind} {address}"] for name in ("a.test", "b.test")}
    async with name_server(zone(records)) as names:
        settings = {"DNS_SERVERS": f"127.0.0.1:{names.port}"}
        async with served(OK, tls=tls_of(scheme), address=address, **settings) as (server, get):
            for host, connections in (("a", 1), ("a", 1), ("b", 2), ("a", 2), ("b", 2)):
                await get(f"{scheme}://{host}.test:{server.port}/")
                assert server.connections == connections


async def stop_reading(raw, reader, writer):
    writer.transport.pause_reading()


@each("scheme", "http", "https")
async def test_a_connection_of_which_no_more_is_wanted_is_closed_at_once(scheme):
    """TLS has an orderly end that a server can refuse to take notice of, as this one does."""
    talk = [head, stop_reading, (TO_THE_END + b"x" * 20_000,)]
    async with (
        served(talk, tls=tls_of(scheme), PAGE_MAX_BYTES=10_000) as (server, get),
        asyncio.timeout(20),  # TLS would wait for 30 s
    ):
        assert (await get()).flags == ["truncated"]
        await server.left(0)


@each("scheme", "http", "https")
@each("size", 3, 3000, 300_000)
async def test_what_came_before_a_hasty_end_is_never_lost(size, scheme):
    talk = [head, b"HTTP/1.1 200 OK\r\nContent-Length: 400000\r\n\r\n" + b"x" * size]
    async with served(talk, tls=tls_of(scheme), DOWNLOAD_FAIL_ON_DATALOSS=False) as (_, get):
        for _ in range(10):
            response = await get()
            assert (len(response.body), response.flags) == (size, ["dataloss"])


async def test_a_fetch_with_a_closed_handler_has_an_outcome():
    async with handler_with() as handler:
        await handler.close()
        with pytest.raises(Exception, match="closed") as failed:
            await handler.download_request(Request("http://127.0.0.1:1/"))
        assert outcome_of(failed.value) == "connection_lost"


@cases(
    "scheme bound",
    """
        http  | 8
        https | 2
    """,
)
async def test_idle_connections_are_bounded(scheme, bound):
    records = {f"h{n}.test": ["300 A 127.0.0.1"] for n in range(12)}
    async with name_server(zone(records)) as names:
        settings = {"DNS_SERVERS": f"127.0.0.1:{names.port}", "NET_KEEPALIVE_CONNECTIONS": 2}
        async with served(OK, tls=tls_of(scheme), **settings) as (server, get):
            await asyncio.gather(*(get(f"{scheme}://{name}:{server.port}/") for name in records))
            await server.left(bound)
            assert (server.open, server.connections) == (bound, 12)


async def test_a_full_pool_keeps_the_connections_that_requests_wait_for():
    async with served(OK, NET_KEEPALIVE_CONNECTIONS=1) as (server, get):

        async def connections_after(hosts, *, is_last):
            for host in hosts:
                meta = {"fetch": SimpleNamespace(is_last=is_last)}
                await get(f"http://{host}.localhost:{server.port}/", meta=meta)
            return server.connections

        assert await connections_after("a", is_last=True) == 1
        assert await connections_after("bcd", is_last=False) == 4  # as many as may wait
        assert await connections_after("e", is_last=True) == 5
        assert await connections_after("f", is_last=False) == 6  # in the place of a's
        assert await connections_after("bcdf", is_last=False) == 6
        assert await connections_after("a", is_last=False) == 7


async def test_what_cannot_be_repeated_has_a_connection_of_its_own():
    """One that waited may be broken already, and a form is not sent twice."""
    async with served(OK) as (server, get):
        for method, connections, left in (("GET", 1, 1), ("POST", 2, 1), ("GET", 2, 1)):
            await get(method=method)
            assert server.connections == connections
            await server.left(left)
        await get(headers={"Connection": "close"})
        assert server.connections == 3


async def test_idle_connections_are_closed_after_their_time(monkeypatch):
    monkeypatch.setattr(connections, "KEEPALIVE_SECS", 0.05)
    async with served(OK) as (server, get):
        await get()
        await server.left(0)


# The first byte of Linux's struct tcp_info.
_ESTABLISHED = b"\x01"


async def test_an_idle_connection_whose_time_is_over_waits_for_no_goodbye(monkeypatch):
    """The host's next page may be due, and would be a second connection to the server."""
    monkeypatch.setattr(connections, "KEEPALIVE_SECS", 0.05)

    async def wait_for_the_end(raw, reader, writer):
        with socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno())) as sock:
            while sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) == _ESTABLISHED:  # noqa: ASYNC110  # the kernel sets no event
                await asyncio.sleep(0.01)
        writer.transport.abort()  # it reads nothing, and so would not learn of the end

    talk = [head, stop_reading, OK, wait_for_the_end]
    async with (
        served(talk, tls=untrusted("a.test")) as (server, get),
        asyncio.timeout(20),  # TLS would wait for 30 s
    ):
        await get()
        await server.left(0)


async def test_a_cancelled_request_closes_its_connection():
    asked = asyncio.Event()

    async def tell(raw, reader, writer):
        asked.set()

    async with served([head, tell, hold]) as (server, get):
        task = asyncio.create_task(get())
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.left(0)


# --- TLS -------------------------------------------------------------------------------------


@each("host", "a.test", "127.0.0.1")
async def test_certificates_are_not_verified_unless_the_setting_says_so(host):
    tls = untrusted("a.test")
    verified = {"DOWNLOAD_VERIFY_CERTIFICATES": True}
    assert await outcome_at(OK, tls=tls, host=host) == "http_200"
    assert await outcome_at(OK, tls=tls, host=host, **verified) == "tls_failed"
    async with served(OK, tls=tls) as (_, get):
        assert (await get()).certificate.startswith(b"\x30\x82")
