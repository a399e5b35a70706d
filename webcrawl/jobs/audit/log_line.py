"""Parser that turns a log line into a ``LoggedRequest``.

Times are whole microseconds since the epoch, because sums of floats would be off by as much as is
measured. Invariant: any line, with any bytes, gives a request of bounded size or None.
"""

from __future__ import annotations

import re
from sys import intern
from typing import NamedTuple

import msgspec

from webcrawl.configuration.decoding import Epoch, Seconds, UndecodableError, json_decoder
from webcrawl.urls import host_of

MICRO = 1_000_000

# URLs are shortened for display, because the window holds thousands of contacts.
_URL_CHARS = 300
# The longest possible host name has 253 characters.
_HOST_CHARS = 255

# simweb := client ident user [start end] "request" status bytes "referer" "agent" origin address
#           outcome             start, end: seconds of the epoch with six decimals
_SIMWEB = re.compile(
    r"\S+ \S+ \S+ \[(?P<start>\d{1,12}\.\d{6}) (?P<end>\d{1,12}\.\d{6})\] "
    r'"(?P<request>[^"]*)" \d+ \d+ "[^"]*" "[^"]*" '
    r"(?P<origin>\S+) (?P<address>\S+) (?:ok|closed|reset|stall|garbage|bad)",
    re.ASCII,
)

# Fields of a line in a job's own log if its URL was requested; durations there are rounded.
_CONTACT = ('"sent":', '"took":')
_ROUNDED = MICRO // 2000


class LoggedRequest(NamedTuple):
    """Request as recorded in a log. Times in microseconds since the epoch."""

    start: int
    end: int
    host: str  # lower case, without port
    address: str  # of the server; empty if the line does not have it
    url: str
    log: str  # name of the file
    line: int  # number of the line


def parse(text: str, *, log: str, line: int) -> LoggedRequest | None:
    """Return the request in *text*, a line without its end; None if the format is unknown.

    Strings that many lines share are stored in memory once.
    """
    if text.startswith("{"):
        return _own_contact(text, log=log, line=line)
    match = _SIMWEB.fullmatch(text)
    if match is None:
        return None
    start, end = _micros(match["start"]), _micros(match["end"])
    if end < start:
        return None
    words = match["request"].split(" ")
    return LoggedRequest(
        start=start,
        end=end,
        host=intern(host_of(match["origin"])[:_HOST_CHARS]),
        address=intern(match["address"][:_HOST_CHARS]),
        url=_shortened(match["origin"] + (words[1] if len(words) > 1 else words[0])),
        log=log,
        line=line,
    )


class _OwnLine(msgspec.Struct):
    """Fields that the audit reads from a line of a job's own log."""

    url: str
    sent: Epoch
    took: Seconds = 0.0


_decode = json_decoder(_OwnLine)


def is_without_contact(text: str) -> bool:
    """Return whether *text* is from a job's own log and its URL ended without a request."""
    return text.startswith("{") and not any(name in text for name in _CONTACT)


def _own_contact(text: str, *, log: str, line: int) -> LoggedRequest | None:
    """Return the contact in a line of a job's own log, in the crawler's time.

    None for a line of an older webcrawl, which does not say when the request was sent.
    """
    try:
        own = _decode(text)
    except UndecodableError:
        return None
    start = round(own.sent * MICRO)
    return LoggedRequest(
        start=start,
        end=start + max(round(own.took * MICRO) - _ROUNDED, 0),
        host=intern(host_of(own.url)[:_HOST_CHARS]),
        address="",
        url=_shortened(own.url),
        log=log,
        line=line,
    )


def _micros(text: str) -> int:
    """Convert seconds with six decimals to microseconds."""
    return int(text[:-7]) * MICRO + int(text[-6:])


def _shortened(url: str) -> str:
    return url if len(url) <= _URL_CHARS else url[: _URL_CHARS - 1] + "…"
