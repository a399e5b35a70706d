"""Access log of the simulated web: every request, with its times and its outcome.

There is one line for each request, in the order in which the answers ended, similar to the combined
log format, ASCII only (wrapped here)::

    client - - [start end] "METHOD target HTTP/version" status bytes
    "referer" "agent" origin address outcome

    127.0.0.1 - - [1763625600.123456 1763625600.125001] "GET /news/abra-4.html HTTP/1.1" 200 5120
    "-" "webcrawl/1.0" http://site00042.sim.test:8480 127.16.0.5 ok

*start* is the time at which the request had been received and parsed. *end* is the time just before
the last part of the answer was handed to the transport, so the client never has the answer before
*end*. If the connection was closed, *end* is the time at which the server noticed, perhaps a few ms
later. Both are epoch seconds with six decimals, from a clock that never jumps. *status* is 0 if no
status line was sent. *bytes* is the size of the body, as sent. *origin* is the scheme of the
listener and the Host header. *outcome* is an ``AnswerEnd``. Characters that could end a field, and
those that are not ASCII, are percent-encoded.

FTP and Gopher hosts write the same lines, for example ``"RETR /docs/abra-4.html FTP/-"``. Their
methods are RETR, LIST, MLSD and GOPHER; the target is the path of the URL, and the status is the
one that HTTP would have; referer and agent are empty. There is one line for each connection:
*start* is when the client connects, *end* when the server says goodbye or the client is gone.

Lines are written within 0.2 s after the end of the answer. Connections that are refused, or closed
before a complete request was read, leave no line.
"""

from __future__ import annotations

import time
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Callable

_SAFE = "".join(chr(code) for code in range(32, 127) if chr(code) not in '"\\')


class AnswerEnd(StrEnum):
    """How the answer to a request ended."""

    OK = "ok"
    CLOSED = "closed"  # the client went away before the end
    RESET = "reset"
    STALL = "stall"  # kept open for stall_secs, then closed
    GARBAGE = "garbage"
    BAD = "bad"  # the request was not HTTP, or did not name a host of this address


class Hit(NamedTuple):
    """A request in the access log."""

    start: float
    end: float
    client: str
    method: str
    target: str
    version: str
    status: int
    size: int
    referer: str
    agent: str
    origin: str
    address: str
    outcome: AnswerEnd


def epoch_clock() -> Callable[[], float]:
    """Return a clock of epoch seconds that is set once by the wall clock and never jumps."""
    offset = time.time() - time.monotonic()
    monotonic = time.monotonic
    return lambda: monotonic() + offset


def escape(text: str) -> str:
    """Escape *text* for a field of a log line; an empty text becomes a dash."""
    if not text:
        return "-"
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return quote(text, safe=_SAFE, encoding="latin-1")


def line_of(hit: Hit) -> bytes:
    """Return the log line for *hit*."""
    protocol = hit.origin.partition(":")[0].upper().removesuffix("S")
    return (
        f"{hit.client} - - [{hit.start:.6f} {hit.end:.6f}] "
        f'"{hit.method} {escape(hit.target)} {protocol}/{hit.version}" {hit.status} {hit.size} '
        f'"{escape(hit.referer)}" "{escape(hit.agent)}" '
        f"{escape(hit.origin).replace(' ', '%20')} {hit.address} {hit.outcome.value}\n"
    ).encode("ascii", "backslashreplace")
