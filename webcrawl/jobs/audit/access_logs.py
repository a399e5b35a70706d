"""Reader that merges access logs by time and passes them to the auditor.

Logs may be of any size and compressed; they are never read whole. Invariant: every line is counted
as a contact or as unreadable. A log without a readable line is an error, so that "no violations" is
never reported for a file that is not a log.
"""

from __future__ import annotations

import contextlib
import gzip
import heapq
import zlib
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING

from webcrawl.errors import FatalError
from webcrawl.jobs.audit.auditor import Auditor
from webcrawl.jobs.audit.log_line import is_without_contact, parse
from webcrawl.urls.registered_domain import registered_domain

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from webcrawl.jobs.audit.auditor import RequiredDelays
    from webcrawl.jobs.audit.log_line import LoggedRequest

KEYS: dict[str, Callable[[LoggedRequest], str]] = {
    "host": lambda contact: contact.host,
    "domain": lambda contact: registered_domain(contact.host),
    "address": lambda contact: contact.address,
}
"""The politeness keys by name."""
WINDOW = 1 << 17
"""Contacts held in memory: about 60 MB. Logs with no more lines may be in any order."""

# Longest line that is read whole; servers do not accept longer requests.
_LINE_BYTES = 1 << 17
# Lines between two calls of on_progress.
_PROGRESS_LINES = 1 << 16
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(slots=True)
class LineCounts:
    """Counts of the lines of all logs."""

    lines: int = 0
    unreadable: int = 0
    first_unreadable: str = ""  # "FILE, line N"


def _contacts_in(
    name: str, counts: LineCounts, on_progress: Callable[[int], object] | None
) -> Iterator[LoggedRequest]:
    """Yield the contacts of the log *name* in the order of its lines, and update *counts*.

    *on_progress* is called from time to time with the number of lines of all logs. Raises
    FatalError if the file cannot be read or has no readable line.
    """
    readable = first_unreadable = 0
    for number, line in _lines(name):
        text = line.decode("utf-8", "backslashreplace").rstrip("\r\n")
        if not text or is_without_contact(text):
            continue
        counts.lines += 1
        if on_progress is not None and not counts.lines % _PROGRESS_LINES:
            on_progress(counts.lines)
        contact = parse(text, log=name, line=number) if len(line) <= _LINE_BYTES else None
        if contact is None:
            if line[-1:] != b"\n" and len(line) <= _LINE_BYTES:
                break  # torn: the server was writing it
            first_unreadable = first_unreadable or number
            counts.unreadable += 1
            counts.first_unreadable = counts.first_unreadable or f"{name}, line {number}"
            continue
        readable += 1
        yield contact
    if first_unreadable and not readable:
        raise FatalError(
            f"{name} is neither an access log of simweb nor a job's log: no line can be read, "
            f"beginning with line {first_unreadable}"
        )


def _lines(name: str) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of each line; a line that is too long is cut just above the limit."""
    number = 0
    try:
        with _opened(name) as stream:
            while line := stream.readline(_LINE_BYTES + 1):
                number += 1
                yield number, line
                while line[-1:] != b"\n" and len(line) > _LINE_BYTES:
                    line = stream.readline(_LINE_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FatalError(f"{name}: the compressed data is damaged after line {number}") from error
    except OSError as error:
        raise FatalError(f"cannot read {name}: {error.strerror or error}") from error


@contextlib.contextmanager
def _opened(name: str) -> Iterator[io.BufferedReader | gzip.GzipFile]:
    with Path(name).open("rb") as file:
        is_packed = file.peek(2)[:2] == _GZIP_MAGIC
        yield gzip.GzipFile(fileobj=file) if is_packed else file


def audit_logs(
    logs: Sequence[str],
    *,
    key: str,
    delays: RequiredDelays,
    keep: int,
    window: int = WINDOW,
    on_progress: Callable[[int], object] | None = None,
) -> tuple[Auditor, LineCounts]:
    """Audit *logs* and return the auditor with the counts of lines.

    *key* is one of `KEYS`, and *keep* as in Auditor. *on_progress* is called from time to time with
    the number of lines. Raises FatalError with one sentence if the logs cannot be audited.
    """
    _check_names(logs)
    counts = LineCounts()
    contacts = [_contacts_in(name, counts, on_progress) for name in logs]
    merged = heapq.merge(*contacts, key=lambda contact: contact.end)
    auditor = Auditor(key=KEYS[key], delays=delays, keep=keep)
    for contact in by_start(merged, window=window):
        if key == "address" and not contact.address:
            raise FatalError(
                f"{contact.log}, line {contact.line}: the line does not have the server's address, "
                "so it cannot be checked with --key address"
            )
        auditor.add(contact)
    if not auditor.contacts:
        names = ", ".join(logs)
        raise FatalError(f"{names}: there are no requests, so there is nothing to check")
    return auditor, counts


def _check_names(logs: Sequence[str]) -> None:
    """Raise FatalError if a log is given twice: every request would overlap with itself."""
    real = [Path(name).resolve() for name in logs]
    for name, path in zip(logs, real, strict=True):
        if real.count(path) > 1:
            raise FatalError(f"{name} is given twice")


def by_start(contacts: Iterable[LoggedRequest], *, window: int = WINDOW) -> Iterator[LoggedRequest]:
    """Yield *contacts* sorted by start, then by end, then by position.

    Logs have them in the order of their ends. At most *window* contacts are held, so no request may
    be under way while *window* later ones are logged (two minutes at a thousand requests per
    second). The auditor reports contacts that break this.
    """
    heap: list[tuple[int, int, int, LoggedRequest]] = []
    for number, contact in enumerate(contacts):
        heappush(heap, (contact.start, contact.end, number, contact))
        if len(heap) > window:
            yield heappop(heap)[3]
    while heap:
        yield heappop(heap)[3]
