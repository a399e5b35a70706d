"""Parser of access log lines: one line becomes a ``LoggedRequest``.

Times are whole microseconds of the epoch: sums of floats would be off by as much as is measured.
Invariant: every line, whatever its bytes, gives a request of bounded size or None.
"""

from __future__ import annotations

import re
import time
from calendar import timegm
from functools import lru_cache
from sys import intern
from typing import Final, NamedTuple

import msgspec

from webcrawl.configuration.decoding import Epoch, Seconds, UndecodableError, json_decoder
from webcrawl.urls import host_of

MICRO: Final = 1_000_000

# What of a URL is kept to be shown: thousands of contacts wait in the window at once.
_URL_CHARS: Final = 300
# The longest host name there is has 253.
_HOST_CHARS: Final = 255

# simweb := client ident user [start end] "request" status bytes "referer" "agent" origin address
#           outcome             start, end: seconds of the epoch with six decimals
_SIMWEB: Final = re.compile(
    r"\S+ \S+ \S+ \[(?P<start>\d{1,12}\.\d{6}) (?P<end>\d{1,12}\.\d{6})\] "
    r'"(?P<request>[^"]*)" (?P<status>\d+) \d+ "[^"]*" "(?P<agent>[^"]*)" '
    r"(?P<origin>\S+) (?P<address>\S+) (?:ok|closed|reset|stall|garbage|bad)",
    re.ASCII,
)

# combined := [vhost ] client ident user [day/Mon/year:hh:mm:ss zone] "request" status bytes
#             [ "referer" "agent"][ further fields]
# The identity of RFC 1413 is a dash everywhere, by which a vhost is recognized: a user's name may
# hold spaces. Apache writes a quotation mark in a field as \", nginx as \x22.
_COMBINED: Final = re.compile(
    r'(?:(?P<host>[^\s"-]\S*) )?(?P<client>[^\s"-]\S*) \S+ [^\["]+ '
    r"\[(?P<time>\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] "
    r'"(?P<request>(?:[^"\\]|\\.)*)" (?P<status>\d{3}|-) (?:\d+|-)'
    r'(?: "(?:[^"\\]|\\.)*" "(?P<agent>(?:[^"\\]|\\.)*)")?(?: .*)?',
    re.ASCII,
)

# What a line of a job's own log has if its URL was asked for; its durations are rounded.
_CONTACT: Final = ('"sent":', '"took":')
_ROUNDED: Final = MICRO // 2000


class LoggedRequest(NamedTuple):
    """One request as the server recorded it. Times in microseconds of the epoch."""

    start: int
    end: int  # equals start where the format has one moment only
    blur: int  # the moments lie within so many microseconds from start and end on; 0: exact
    host: str  # lower case, without port; empty if the line does not say it
    address: str  # of the server; empty if the line does not say it
    url: str
    robots_moved: bool  # a redirect answered a request for robots.txt: its rules are unread
    agent: str | None  # empty if the line does not say it; None if the protocol has none
    log: str  # the name of the file, and the number of the line
    line: int


def parse(text: str, *, log: str, line: int) -> LoggedRequest | None:
    """The request in *text*, a line without its end; None if the format is unknown.

    Strings that many lines share are held in memory once.
    """
    if text.startswith("{"):
        return _own_contact(text, log=log, line=line)
    simweb = _SIMWEB.fullmatch(text)
    found = simweb or _COMBINED.fullmatch(text)
    if found is None:
        return None
    request = found["request"]
    agent: str | None = found["agent"] or ""
    if simweb is not None:
        start, end, blur = _micros(found["start"]), _micros(found["end"]), 0
        origin = place = found["origin"]
        address = found["address"]
        if " HTTP/" not in request:
            agent = None
    else:
        second = _stamp(found["time"])
        if second is None:
            return None
        start = end = second * MICRO
        blur = MICRO - 1
        origin = f"http://{found['host']}" if found["host"] else ""
        place = address = ""
    if end < start:
        return None
    host = intern(host_of(origin)[:_HOST_CHARS]) if origin else ""
    return LoggedRequest(
        start=start,
        end=end,
        blur=blur,
        host=host,
        address=intern(address[:_HOST_CHARS]),
        url=_shortened((place or host) + _target(request)),
        robots_moved=found["status"][0] == "3" and _target(request) == "/robots.txt",
        agent=None if agent is None else intern(agent),
        log=log,
        line=line,
    )


class _OwnLine(msgspec.Struct):
    """What the audit takes of a line of a job's own log."""

    url: str
    sent: Epoch
    took: Seconds = 0.0


_decode: Final = json_decoder(_OwnLine)


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
        blur=0,
        host=intern(host_of(own.url)[:_HOST_CHARS]),
        address="",
        url=_shortened(own.url),
        robots_moved=False,
        agent=None,
        log=log,
        line=line,
    )


def _micros(text: str) -> int:
    """Seconds with six decimals as microseconds."""
    return int(text[:-7]) * MICRO + int(text[-6:])


@lru_cache(maxsize=1024)
def _stamp(text: str) -> int | None:
    """Seconds of the epoch of ``10/Oct/2000:13:55:36 -0700``; None if there is no such moment."""
    try:
        moment = time.strptime(text, "%d/%b/%Y:%H:%M:%S %z")
    except ValueError:
        return None
    return timegm(moment) - moment.tm_gmtoff if moment.tm_year >= 1970 else None


def _target(request: str) -> str:
    """The target of a request line; the whole line if it is malformed."""
    words = request.split(" ")
    return words[1] if len(words) > 1 else request


def _shortened(url: str) -> str:
    return url if len(url) <= _URL_CHARS else url[: _URL_CHARS - 1] + "…"
