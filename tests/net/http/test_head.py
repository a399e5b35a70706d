"""Heads that break the rules: what is made of them, and what is refused."""

from __future__ import annotations

import pytest
from fetching import OK, answer_to, handler_with, outcome_for
from loopback import each_loop, raw_server  # noqa: F401  runs every test twice
from scrapy import Request

from webcrawl.net.http.head import mended_head

OK_LINE = b"HTTP/1.1 200 OK\r\n"
A = (b"A", b"1")
LENGTH = (b"Content-Length", b"5")
CHUNKED = (b"Transfer-Encoding", b"chunked")

# The lines after the status line, and the fields that are made of them. Chromium 156 makes the
# same of those marked with C; where a section is named, RFC 9112 says so.
FIELDS = {
    "no colon: C": (b"garbage line\r\nA: 1\r\n", [A]),
    "quoted: C": (b'"X-XSS-Protection: 0"\r\nA: 1\r\n', [A]),
    "an equals sign for the colon: C": (b"X-XSS-Protection=1;\r\nA: 1\r\n", [A]),
    "another status line: C": (b"HTTP/1.1 200 OK\r\nA: 1\r\n", [A]),
    "no name: C": (b": 2\r\nA: 1\r\n", [A]),
    "a name of two words: C": (b"X Y: 2\r\nA: 1\r\n", [A]),
    "a name that is not ASCII: C": (b"\xe9: 2\r\nA: 1\r\n", [A]),
    "a name with a control character: C": (b"X\1: 2\r\nA: 1\r\n", [A]),
    "space before the colon: C, 5.1": (b"A : 1\r\n", [A]),
    "tab before the colon: C, 5.1": (b"A\t: 1\r\n", [A]),
    "two colons: C": (b"A:: 1\r\n", [(b"A", b": 1")]),
    "control characters in the value: C": (b"A: \1\xe9\r\n", [(b"A", b"\1\xe9")]),
    "folded: C, 5.2": (b"A: 1\r\n  2\r\n\t3\r\n", [(b"A", b"1 2 3")]),
    "folded behind nothing: C, 2.2": (b" X: 2\r\nA: 1\r\n", [A]),
    "folded behind a dropped line: C": (b"garbage\r\n X: 2\r\nA: 1\r\n", [A]),
    "CR CR LF: C": (b"A: 1\r\r\nB: 2\r\r\n", [A, (b"B", b"2")]),
    "CR alone: C": (b"A: 1\rB: 2\r\n", [A, (b"B", b"2")]),
    "LF alone: C, 2.2": (b"A: 1\nB: 2\n", [A, (b"B", b"2")]),
    "equal lengths: C, 6.3":
        (b"Content-Length: 5\r\nA: 1\r\nContent-Length: 5, 5\r\n", [LENGTH, A]),
    "lengths equal but for zeros: curl, 6.3": (b"Content-Length: 05, 5\r\n", [LENGTH]),
    "length and chunks: C, 6.3":
        (b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n", [CHUNKED]),
    "no length and chunks: C, 6.3":
        (b"Transfer-Encoding: Chunked\r\nContent-Length: x\r\n", [CHUNKED]),
    "identity: C": (b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n", [LENGTH]),
    "no transfer coding: C": (b"Transfer-Encoding:\r\nContent-Length: 5\r\n", [LENGTH]),
    "identity and chunks: C": (b"Transfer-Encoding: chunked, identity\r\n", [CHUNKED]),
    "chunks twice: C": (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", [CHUNKED]),
    "unknown and chunks: C, 6.3": (b"Transfer-Encoding: foo, chunked\r\n", [CHUNKED]),
    "unknown: 6.3": (b"Transfer-Encoding: foo\r\nContent-Length: 5\r\nA: 1\r\n", [A]),
    "unlike chunks: C": (b"Transfer-Encoding: xchunked\r\nA: 1\r\n", [A]),
}  # fmt: skip


@pytest.mark.parametrize("case", FIELDS)
def test_a_line_becomes_a_field_or_is_dropped(case):
    lines, fields = FIELDS[case]
    made = b"".join(b"%b: %b\r\n" % field for field in fields)
    assert mended_head(OK_LINE + lines + b"\r\n") == (OK_LINE + made + b"\r\n", False)


# A status line, and how it is read; Chromium 156 reads each so, as does curl 7.88 those marked.
STATUS_LINES = {
    b"http/1.1 200 ok": b"HTTP/1.1 200 ok",  # curl
    b"HTTP/1.1  404  None": b"HTTP/1.1 404 None",  # curl
    b"HTTP/1.1 404None": b"HTTP/1.1 404 None",  # curl
    b"HTTP/1.1 0404 None": b"HTTP/1.1 404 None",
    b"HTTP/2 404": b"HTTP/1.1 404 ",  # curl
    b"HTTP/2.0 404 None": b"HTTP/1.1 404 None",  # curl
    b"HTTP/1.2 404 None": b"HTTP/1.1 404 None",
    b"HTTP/1.10 404 None": b"HTTP/1.1 404 None",
    b"HTTP/1 404 None": b"HTTP/1.0 404 None",
    b"HTTP 404 None": b"HTTP/1.0 404 None",
    b"HTTP/1.x 404 None": b"HTTP/1.0 404 None",
    b"HTTP/0.9 404 None": b"HTTP/1.0 404 None",
    b"HTTPS/1.1 404 None": b"HTTP/1.0 404 None",
    b"abcdHTTP/1.1 404 None": b"HTTP/1.1 404 None",
    b"\xef\xbb\xbfHTTP/1.1 404 None": b"HTTP/1.1 404 None",
    b"x\r\nHTTP/1.1 404 None": b"HTTP/1.1 404 None",
    b"HTTP/1.1 OK": b"HTTP/1.1 200 OK",
    b"HTTP/1.1": b"HTTP/1.1 200 ",
    b"HTTP/1.1200 OK": b"HTTP/1.1 200 OK",
}


@pytest.mark.parametrize("line", STATUS_LINES)
def test_a_status_line_is_read_as_browsers_read_it(line):
    assert mended_head(line + b"\r\n\r\n") == (STATUS_LINES[line] + b"\r\n\r\n", False)


# Heads of which nothing is made, with the reason. Chromium refuses those marked with C, too.
REFUSED = {
    "no status line: C": b"<!DOCTYPE html>\r\n\r\n",
    "only fields: C": b"Content-Length: 5\r\n\r\n",
    "another protocol: C": b"ICY 200 OK\r\n\r\n",
    "more than four bytes before it: C": b"abcdeHTTP/1.1 200 OK\r\n\r\n",
    "a zero byte: C, RFC 9110, 5.5": OK_LINE + b"A: \0\r\n\r\n",
    "a status of two digits: RFC 9110, 15": b"HTTP/1.1 20 OK\r\n\r\n",
    "a status of four digits: RFC 9110, 15": b"HTTP/1.1 2000 OK\r\n\r\n",
    "lengths that differ: C, RFC 9112, 6.3": OK_LINE + b"Content-Length: 5, 6\r\n\r\n",
    "an empty length: RFC 9112, 6.3": OK_LINE + b"Content-Length:\r\n\r\n",
    "a negative length: RFC 9112, 6.3": OK_LINE + b"Content-Length: -5\r\n\r\n",
    "a length with a sign: RFC 9112, 6.3": OK_LINE + b"Content-Length: +5\r\n\r\n",
    "a length of words: RFC 9112, 6.3": OK_LINE + b"Content-Length: five\r\n\r\n",
    "a length with a fraction: RFC 9112, 6.3": OK_LINE + b"Content-Length: 5.0\r\n\r\n",
    "a folded length: RFC 9112, 6.3": OK_LINE + b"Content-Length: 5\r\n 5\r\n\r\n",
    "a length of 99 digits: RFC 9110, 8.6": OK_LINE + b"Content-Length: " + b"9" * 99 + b"\r\n\r\n",
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_must_be_discarded_is_refused(case):
    with pytest.raises(ValueError, match=r"status|length|zero"):
        mended_head(REFUSED[case])


def test_interim_heads_are_told_from_the_last():
    assert mended_head(b"http/1.1 103 Hints\r\n\r\n").is_interim
    assert mended_head(b"http/1.1 101 Switching\r\n\r\n").is_interim
    assert not mended_head(b"http/1.1 204 None\r\n\r\n").is_interim


def test_a_head_of_folded_lines_takes_linear_time():
    head = OK_LINE + b"A: 1\r\n" + b" 2\r\n" * 30_000 + b"\r\n"
    assert len(mended_head(head).data) > 60_000


BROKEN_LINE = OK.replace(b"\r\n", b"\r\nbroken line\r\n", 1)
HINTS = b"HTTP/1.1 103 Hints\r\nbroken line\r\n\r\n"
CRCRLF = OK.replace(b"\r\n", b"\r\r\n")
LOWER_CASE = b"\r\n\r\nhttp" + OK[4:]


@pytest.mark.parametrize("says", [BROKEN_LINE, HINTS + BROKEN_LINE, CRCRLF, LOWER_CASE])
@pytest.mark.parametrize("size", [1, 7, 500])
async def test_a_mended_head_is_read_and_kept_and_ends_its_connection(says, size):
    async def talk(reader, writer):
        await server.head(reader)
        for start in range(0, len(says), size):
            writer.write(says[start : start + size])
            await writer.drain()
        await reader.read()

    async with raw_server(talk) as server, handler_with() as handler:
        for connections in (1, 2):
            request = Request(f"http://127.0.0.1:{server.port}/")
            response = await handler.download_request(request)
            assert (response.status, response.body, response.flags) == (200, b"hello", [])
            assert response.headers[b"Content-Type"] == b"text/html"
            head = says.removeprefix(HINTS).lstrip(b"\r\n")
            assert request.meta["wire_head"] + b"hello" == head
            assert server.connections == connections


def test_a_mended_head_has_the_bounds_of_others():
    fields = b"".join(b"X-%d: 1\r\n" % n for n in range(6000))
    assert outcome_for(b"HTTP/1.1 200 OK\r\nbroken\r\n" + fields + b"\r\n") == "header_too_large"
    long = b"X: " + b"x" * 300_000 + b"\r\n"
    assert outcome_for(b"HTTP/1.1 200 OK\r\nbroken\r\n" + long + b"\r\n") == "header_too_large"
    hints = b"HTTP/1.1 103 Hints\r\n\r\n" * 19
    assert outcome_for(hints + BROKEN_LINE) == "http_200"
    assert outcome_for(hints * 2 + BROKEN_LINE) == "bad_answer"


def test_chunks_behind_a_mended_head_are_undone():
    says = b"HTTP/1.1 200 OK\r\nbroken\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n"
    response = answer_to(says + b"5\r\nhello\r\n0\r\n\r\n")
    assert (response.body, response.flags) == (b"hello", [])


# Chunks, and the body; Chromium 156 and curl 7.88 read it, but for what is marked.
CHUNKS = {
    "LF alone": b"5\nhello\n0\n\n",
    "spaces behind the size": b"5  \r\nhello\r\n0\r\n\r\n",
    "an extension without a name": b"5;\r\nhello\r\n0\r\n\r\n",
    "an extension with spaces": b'5 ; a = "b"\r\nhello\r\n0\r\n\r\n',
    "leading zeros": b"0005\r\nhello\r\n0\r\n\r\n",
    "many leading zeros (Chromium)": b"0" * 20 + b"5\r\nhello\r\n0\r\n\r\n",
    "a trailer without a colon (Chromium)": b"5\r\nhello\r\n0\r\nbroken line\r\n\r\n",
    "no empty line at the end: RFC 9112, 8": b"5\r\nhello\r\n0\r\n",
    "tab behind the size (curl)": b"5\t\r\nhello\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("case", CHUNKS)
def test_chunks_are_read_as_browsers_read_them(case):
    says = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS[case]
    response = answer_to(says)
    assert (response.body, response.flags) == (b"hello", [])


@pytest.mark.parametrize(
    "chunks",
    [
        b" 5\r\nhello\r\n0\r\n\r\n", b"0x5\r\nhello\r\n0\r\n\r\n", b"-5\r\nhello\r\n0\r\n\r\n",
        b"\r\n5\r\nhello\r\n0\r\n\r\n", b"5\r\nhello0\r\n\r\n", b"4\r\nhello\r\n0\r\n\r\n",
        b"5 a\r\nhello\r\n0\r\n\r\n", b"1" * 17 + b"\r\nhello\r\n0\r\n\r\n", b"5\r\nhello\r\n",
    ],
)  # fmt: skip
def test_what_browsers_do_not_take_for_chunks_is_incomplete(chunks):
    says = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
    assert answer_to(says, DOWNLOAD_FAIL_ON_DATALOSS=False).flags == ["dataloss"]
