"""Parser of log lines: one line becomes a ``LoggedRequest``.

Times are whole microseconds of the epoch: sums of floats would be off by as much as is measured.
Invariant: every line, whatever its bytes, gives a request of bounded size or None.
"""

from __future__ import annotations

import re
from sys import intern
from typing import NamedTuple

import msgspec

from webcrawl.configuration.decoding import Epoch, Seconds, UndecodableError, json_decoder
from webcrawl.urls import host_of

MICRO = 1_000_000

# What of a URL is kept to be shown: thousands of contacts wait in the window at once.
_URL_CHARS = 300
# The longest host name there is has 253.
_HOST_CHARS = 255

# simweb := client ident user [start end] "request" status bytes "referer" "agent" origin address
#           outcome             start, end: seconds of the epoch with six decimals
_SIMWEB = re.compile(
    r"\S+ \S+ \S+ \[(?P<start>\d{1,12}\.\d{6}) (?P<end>\d{1,12}\.\d{6})\] "
    r'"(?P<request>[^"]*)" \d+ \d+ "[^"]*" "[^"]*" '
    r"(?P<origin>\S+) (?P<address>\S+) (?:ok|closed|reset|stall|garbage|bad)",
    re.ASCII,
)

# What a line of a job's own log has if its URL was asked for; its durations are rounded.
_CONTACT = ('"sent":', '"took":')
_ROUNDED = MICRO // 2000


class LoggedRequest(NamedTuple):
    """One request as a log has it. Times in microseconds of the epoch."""

    start: int
    end: int
    host: str  # lower case, without port
    address: str  # of the server; empty if the line does not say it
    url: str
    log: str  # the name of the file, and the number of the line
    line: int


def parse(text: str, *, log: str, line: int) -> LoggedRequest | None:
    """The request in *text*, a line without its end; None if the format is unknown.

    Strings that many lines share are held in memory once.
    """
    if text.startswith("{"):
        return _own_contact(text, log=log, line=line)
    found = _SIMWEB.fullmatch(text)
    if found is None:
        return None
    start, end = _micros(found["start"]), _micros(found["end"])
    if end < start:
        return None
    words = found["request"].split(" ")
    return LoggedRequest(
        start=start,
        end=end,
        host=intern(host_of(found["origin"])[:_HOST_CHARS]),
        address=intern(found["address"][:_HOST_CHARS]),
        url=_shortened(found["origin"] + (words[1] if len(words) > 1 else words[0])),
        log=log,
        line=line,
    )


class _OwnLine(msgspec.Struct):
    """What the audit takes of a line of a job's own log."""

    url: str
    sent: Epoch
    took: Seconds = 0.0


_decode = json_decoder(_OwnLine)


def is_without_contact(text: str) -> bool:
    """Whether *text* is a line of a job's own log, of a URL that ended without a request."""
    return text.startswith("{") and not any(name in text for name in _CONTACT)


def _own_contact(text: str, *, log: str, line: int) -> LoggedRequest | None:
    """The contact of a line of a job's own log, by the clock of the crawler; None for one of an
    older webcrawl, which does not say when the request was sent."""
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
    """Seconds with six decimals as microseconds."""
    return int(text[:-7]) * MICRO + int(text[-6:])


def _shortened(url: str) -> str:
    return url if len(url) <= _URL_CHARS else url[: _URL_CHARS - 1] + "…"
