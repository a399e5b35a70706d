"""Log reader: opens, reads and merges logs by time, and has them judged.

Nothing is read whole: a log may be of any size, and compressed. Invariant: every line is counted as
a contact or as unreadable. A log in which no line can be read is an error, so that "no violation"
is never reported of a file that is not a log of contacts.
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
"""Contacts held at once: about 60 MB. Logs of up to so many lines may be in any order."""

# Longest line that is read whole; servers take no longer request.
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
    """The contacts of the log *name* in the order of its lines; *counts* is updated.

    *on_progress* is called with the number of lines of all logs now and then. FatalError if the
    file cannot be read or none of its lines is one of a log.
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
            f"{name}, line {first_unreadable}: neither this line nor any other is one of simweb's "
            "access log or of a job's log"
        )


def _lines(name: str) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each line; a line that is too long is cut, and stays too long."""
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
    """Judge *logs*. *key* is one of `KEYS`; *keep* as in Auditor, *on_progress* is called with the
    number of lines now and then.

    FatalError, one sentence, if they cannot be judged.
    """
    _check_names(logs)
    counts = LineCounts()
    contacts = [_contacts_in(name, counts, on_progress) for name in logs]
    merged = heapq.merge(*contacts, key=lambda contact: contact.end)
    auditor = Auditor(key=KEYS[key], delays=delays, keep=keep)
    for contact in by_start(merged, window=window):
        if key == "address" and not contact.address:
            raise FatalError(
                f"{contact.log}, line {contact.line}: the line does not say the address of the "
                "server, so it cannot be judged with --key address"
            )
        auditor.add(contact)
    if not auditor.contacts:
        names = ", ".join(logs)
        raise FatalError(f"{names}: there is not a single request, so there is nothing to judge")
    return auditor, counts


def _check_names(logs: Sequence[str]) -> None:
    """FatalError if a log is named twice: every request would overlap with itself."""
    real = [Path(name).resolve() for name in logs]
    for name, path in zip(logs, real, strict=True):
        if real.count(path) > 1:
            raise FatalError(f"{name} is named twice")


def by_start(contacts: Iterable[LoggedRequest], *, window: int = WINDOW) -> Iterator[LoggedRequest]:
    """*contacts* sorted by start, then by end, then by position.

    Logs have them in the order of their ends. At most *window* contacts are held: a request must
    not be under way while *window* later ones are logged, which is two minutes at a thousand
    requests a second. The auditor reports a contact that breaks this.
    """
    heap: list[tuple[int, int, int, LoggedRequest]] = []
    for number, contact in enumerate(contacts):
        heappush(heap, (contact.start, contact.end, number, contact))
        if len(heap) > window:
            yield heappop(heap)[3]
    while heap:
        yield heappop(heap)[3]
