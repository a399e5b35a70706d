"""The access log of the simulated web: every request, with its times and its end.

One line for each request, in the order in which the answers ended, in the manner of the combined
log format, ASCII only (broken here to fit)::

    client - - [start end] "METHOD target HTTP/version" status bytes
    "referer" "agent" origin address outcome

    127.0.0.1 - - [1763625600.123456 1763625600.125001] "GET /news/abra-4.html HTTP/1.1" 200 5120
    "-" "webcrawl/1.0" http://site00042.sim.test:8480 127.16.0.5 ok

*start* is when the request had been received and parsed. *end* is just before the last part of the
answer was handed to the transport, so never later than the client had it; or when the connection
was closed, which the server may notice a few ms after the client did it. Both are seconds of the
epoch with six decimals, from a clock that never steps. *status* is 0 if no status line was sent.
*bytes* are those of the body, as sent. *origin* is the scheme of the listener and the Host header.
*outcome* is an `AnswerEnd`. Characters that could end a field, and those that are not ASCII, are
percent-encoded.

FTP and Gopher hosts write the same lines, ``"RETR /docs/abra-4.html FTP/-"`` for instance. Their
methods are RETR, LIST, MLSD and GOPHER, the target is the path of the URL, the status the one that
HTTP would have had, referer and agent are missing. There is one line a contact: it starts with the
connection of the client, and ends with the goodbye that was said to it or when it was gone.

Lines are written at the latest 0.2 s after the end of the answer. Connections that are refused,
or closed before a whole request was read, leave no line.
"""

from __future__ import annotations

import re
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SAFE = "".join(chr(code) for code in range(32, 127) if chr(code) not in '"\\')


class AnswerEnd(StrEnum):
    """How the answer to a request ended."""

    OK = "ok"
    CLOSED = "closed"  # the client went away before the end
    RESET = "reset"
    STALL = "stall"  # held for stall_secs, then closed
    GARBAGE = "garbage"
    BAD = "bad"  # the request was not HTTP, or named no host of this address


# The fields of a hit in the order of a line, whose first one is the client.
_LINE = re.compile(
    r"(\S+) - - \[(\d+\.\d{6}) (\d+\.\d{6})\] "
    r'"(\S*) (\S*) [A-Z]+/(\S*)" (\d+) (\d+) '
    rf'"-?([^"]*)" "-?([^"]*)" (\S+) (\S+) ({"|".join(AnswerEnd)})\n',
    re.ASCII,
)


class Hit(NamedTuple):
    """One request in the access log."""

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

    @property
    def url(self) -> str:
        """The URL that was requested."""
        return self.origin + self.target

    @property
    def host(self) -> str:
        """The politeness key: the host name in lower case, without the port."""
        return self.origin.partition("://")[2].partition(":")[0].lower()


def epoch_clock() -> Callable[[], float]:
    """Seconds of the epoch that never go back: set once by the wall clock, then monotonic."""
    offset = time.time() - time.monotonic()
    monotonic = time.monotonic
    return lambda: monotonic() + offset


def escaped(text: str) -> str:
    """*text* so that it can stand in a field; an empty text becomes a dash."""
    if not text:
        return "-"
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return quote(text, safe=_SAFE, encoding="latin-1")


def line_of(hit: Hit) -> bytes:
    """The line of *hit*."""
    protocol = hit.origin.partition(":")[0].upper().removesuffix("S")
    return (
        f"{hit.client} - - [{hit.start:.6f} {hit.end:.6f}] "
        f'"{hit.method} {escaped(hit.target)} {protocol}/{hit.version}" {hit.status} {hit.size} '
        f'"{escaped(hit.referer)}" "{escaped(hit.agent)}" '
        f"{escaped(hit.origin).replace(' ', '%20')} {hit.address} {hit.outcome.value}\n"
    ).encode("ascii", "backslashreplace")


def read_access_log(path: str | Path) -> Iterator[Hit]:
    """The hits in the log at *path*; a torn last line is left out.

    Raises ValueError, naming the line, for a line that is not one of this log.
    """
    with Path(path).open(encoding="ascii") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith("\n"):
                return
            match = _LINE.fullmatch(line)
            if match is None:
                raise ValueError(f"{path}, line {number}: not a line of an access log")
            client, start, end, *rest = match.groups()
            yield msgspec.convert((start, end, client, *rest), Hit, strict=False)
