"""Heads that break the rules: what is made of them, and what is refused."""

import pytest
from fetching import OK, answer_to, outcome_for, served
from loopback import each_loop, head, hold, pieces, raw_server  # noqa: F401  runs every test twice
from text_tables import each
from wire_text import table, wire

from webcrawl.net.http.head import mended_head

OK_LINE = b"HTTP/1.1 200 OK\r\n"
HEADS = table("heads")


@each("case", *HEADS["fields"])
def test_a_line_becomes_a_field_or_is_dropped(case):
    lines, fields = map(wire, HEADS["fields"][case])
    assert mended_head(OK_LINE + lines + b"\r\n") == (OK_LINE + fields + b"\r\n", False)


@each("line", *HEADS["status_lines"])
def test_a_status_line_is_read_as_browsers_read_it(line):
    made = wire(HEADS["status_lines"][line] + "\r\n\r\n")
    assert mended_head(wire(line + "\r\n\r\n")) == (made, False)


@each("case", *HEADS["refused"])
def test_what_must_be_discarded_is_refused(case):
    with pytest.raises(ValueError, match=r"status|Length|zero"):
        mended_head(wire(HEADS["refused"][case]))


def test_interim_heads_are_told_from_the_last():
    assert mended_head(b"http/1.1 103 Hints\r\n\r\n").is_interim
    assert mended_head(b"http/1.1 101 Switching\r\n\r\n").is_interim
    assert not mended_head(b"http/1.1 204 None\r\n\r\n").is_interim


def test_a_head_of_folded_lines_takes_linear_time():
    folded = OK_LINE + b"A: 1\r\n" + b" 2\r\n" * 30_000 + b"\r\n"
    assert len(mended_head(folded).data) > 60_000


BROKEN_LINE = OK.replace(b"\r\n", b"\r\nbroken line\r\n", 1)
HINTS = b"HTTP/1.1 103 Hints\r\nbroken line\r\n\r\n"
CRCRLF = OK.replace(b"\r\n", b"\r\r\n")
LOWER_CASE = b"\r\n\r\nhttp" + OK[4:]


@each("says", BROKEN_LINE, HINTS + BROKEN_LINE, CRCRLF, LOWER_CASE)
@each("size", 1, 7, 500)
async def test_a_mended_head_is_read_and_kept_and_ends_its_connection(says, size):
    async with served([head, *pieces(says, size), hold]) as (server, get):
        for connections in (1, 2):
            response = await get()
            assert (response.status, response.body, response.flags) == (200, b"hello", [])
            assert response.headers[b"Content-Type"] == b"text/html"
            assert response.meta["wire_head"] + b"hello" == says.removeprefix(HINTS).lstrip(b"\r\n")
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
