"""The table of odd answers in tests/data/frozen_answers.toml, as bytes."""

from typing import NamedTuple

from odd_answers import PACK
from odd_server import Answer
from wire_text import table, wire

PAGE = (
    b'<!DOCTYPE html><title>Page</title><p>This is the page, with a <a href="/next">link</a>.'
    + b"<p>The same sentence over and over makes it worth packing." * 5
)


class Frozen(NamedTuple):
    """One answer; the head of the table says what the fields are."""

    name: str
    others: str
    answer: Answer
    crawler: str
    source: str


def letter_of(reading):
    """Return the letter of this table for *reading*."""
    if reading.status and not reading.is_success:
        return "S"
    if reading.failure:
        return "F"
    if not reading.body:
        return "e"
    if not PAGE.startswith(reading.body):
        return "o"
    return "P" if reading.body == PAGE else "p"


def _sized(body):
    """The lines behind the status line, and *body*."""
    return b"Content-Length: %d\r\n%b\r\n%b" % (len(body), _NAMES["html"], body)


_NAMES = {
    **{name.decode().replace(" ", "_"): pack for name, pack in PACK.items()},
    "page": PAGE,
    "start": PAGE[:30],
    "rest": PAGE[30:],
    "ok": b"HTTP/1.1 200 OK\r\n",
    "html": b"Content-Type: text/html\r\n",
    "length": b"Content-Length: %d\r\n" % len(PAGE),
    "chunked": b"Transfer-Encoding: chunked\r\n",
    "chunks": b"1e\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (PAGE[:30], len(PAGE) - 30, PAGE[30:]),
    "fields": lambda count: b"".join(b"X-%d: 1\r\n" % n for n in range(count)),
    "sized": _sized,
}
_NAMES["whole"] = _sized(PAGE)
FROZEN = [
    Frozen(name, others, Answer((wire(text, _NAMES),), *ending), part["crawler"], part["source"])
    for part in table("frozen_answers")["part"]
    for name, others, text, *ending in part["answers"]
]
