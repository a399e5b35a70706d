"""Parses a log line into a ``LoggedRequest``.

Times are whole microseconds since the epoch, because the rounding errors of floats would be as
large as the differences to be measured. Invariant: any line, with any bytes, gives a request of
bounded size or None.
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

# A line in a job's own log has these fields if its URL was requested.
_CONTACT = ('"sent":', '"took":')
# Durations in it are rounded to milliseconds, so they may be too long by half of one.
_ROUNDING_MICROS = MICRO // 2000


class LoggedRequest(NamedTuple):
    """A request as a log records it. Times are in microseconds since the epoch."""

    start: int
    end: int
    host: str  # lower case, without port
    address: str  # IP address of the server; empty if the line does not have it
    url: str
    log: str  # name of the file
    line: int  # number of the line


def parse(text: str, *, log: str, line: int) -> LoggedRequest | None:
    """Parse *text*, a line without its line end. Returns None if the format is unknown.

    *log* and *line* are the file name and the line number. Times in a job's own log are by the
    crawler's clock. Strings that many lines share are kept in memory only once.
    """
    if text.startswith("{"):
        try:
            fields = _decode(text)
        except UndecodableError:
            return None  # a line of an older webcrawl does not say when the request was sent
        url = fields.url
        host = host_of(fields.url)
        address = ""
        start = round(fields.sent * MICRO)
        # The shortest duration that the rounded one can stand for: rounding alone must not make two
        # requests overlap.
        end = start + max(round(fields.took * MICRO) - _ROUNDING_MICROS, 0)
    else:
        match = _SIMWEB.fullmatch(text)
        if match is None:
            return None
        host = host_of(match["origin"])
        address = match["address"]
        words = match["request"].split(" ")
        # The second word is the target. A request of only one word is shown as it is.
        url = match["origin"] + (words[1] if len(words) > 1 else words[0])
        start = _to_micros(match["start"])
        end = _to_micros(match["end"])
    if end < start:
        return None
    return LoggedRequest(
        start=start,
        end=end,
        host=intern(host[:_HOST_CHARS]),
        address=intern(address[:_HOST_CHARS]),
        url=url if len(url) <= _URL_CHARS else url[: _URL_CHARS - 1] + "…",
        log=log,
        line=line,
    )


class _OwnLine(msgspec.Struct):
    """The fields of a line in a job's own log that the audit reads."""

    url: str
    sent: Epoch
    took: Seconds = 0.0


_decode = json_decoder(_OwnLine)


def is_without_contact(text: str) -> bool:
    """Return whether *text* is a line of a job's own log for a URL that was not requested."""
    return text.startswith("{") and not any(name in text for name in _CONTACT)


def _to_micros(text: str) -> int:
    """Convert *text*, seconds with six decimals, to microseconds."""
    return int(text[:-7]) * MICRO + int(text[-6:])
