"""Merges access logs by time and passes their requests to the auditor.

Logs may have any size, and may be compressed; they are read line by line. Invariant: every line is
counted as a contact or as unreadable. A log without a readable line is an error, so that "no
violations" is never reported for a file that is not a log.
"""

from __future__ import annotations

import contextlib
import gzip
import heapq
import zlib
from collections import Counter
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING

from webcrawl.errors import FatalError, require_file
from webcrawl.jobs.audit.auditor import Auditor, RequiredDelays
from webcrawl.jobs.audit.log_line import LoggedRequest, is_without_contact, parse
from webcrawl.urls.registered_domain import registered_domain

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterable, Iterator, Sequence


#: Functions that return the politeness key of a contact, by the kind of key.
KEYS: dict[str, Callable[[LoggedRequest], str]] = {
    "host": lambda contact: contact.host,
    "domain": lambda contact: registered_domain(contact.host),
    "address": lambda contact: contact.address,
}
#: Most contacts in memory, about 60 MB. Logs with fewer lines may be in any order.
WINDOW = 1 << 17

# Longer lines are unreadable; servers do not accept requests of that length.
_LINE_BYTES = 1 << 17
# Number of lines between two calls of on_progress.
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
    """Yield the contacts in the log *name* in the order of its lines, and update *counts*.

    *on_progress* is called from time to time with the number of lines read from all logs. Raises
    FatalError if the file cannot be read or has no readable line.
    """
    readable_count = 0
    first_unreadable_line = 0
    for number, line in _numbered_lines(name):
        text = line.decode("utf-8", "backslashreplace").rstrip("\r\n")
        if not text or is_without_contact(text):
            continue
        counts.lines += 1
        if on_progress is not None and not counts.lines % _PROGRESS_LINES:
            on_progress(counts.lines)

        contact = parse(text, log=name, line=number) if len(line) <= _LINE_BYTES else None
        if contact is None:
            if line[-1:] != b"\n" and len(line) <= _LINE_BYTES:
                break  # the last line is torn, because the server is still writing it
            first_unreadable_line = first_unreadable_line or number
            counts.unreadable += 1
            counts.first_unreadable = counts.first_unreadable or f"{name}, line {number}"
            continue

        readable_count += 1
        yield contact
    if first_unreadable_line and not readable_count:
        raise FatalError(
            f"{name} is neither an access log of simweb nor a job's log: no line can be read, "
            f"beginning with line {first_unreadable_line}"
        )


def _numbered_lines(name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes of each line of the log *name*.

    A line that is too long is cut just above the limit. Raises FatalError.
    """
    number = 0
    try:
        with _open_log(name) as stream:
            while line := stream.readline(_LINE_BYTES + 1):
                number += 1
                yield number, line
                # Skip the rest of a line that is too long.
                while line[-1:] != b"\n" and len(line) > _LINE_BYTES:
                    line = stream.readline(_LINE_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FatalError(f"{name}: the compressed data is damaged after line {number}") from error
    except OSError as error:
        raise FatalError(f"cannot read {name}: {error.strerror or error}") from error


@contextlib.contextmanager
def _open_log(name: str) -> Iterator[io.BufferedReader | gzip.GzipFile]:
    """Open the log *name*, which may be compressed with gzip. Raises OSError."""
    require_file(Path(name))
    with Path(name).open("rb") as file:
        is_compressed = file.peek(2)[:2] == _GZIP_MAGIC
        yield gzip.GzipFile(fileobj=file) if is_compressed else file


def audit_logs(
    logs: Sequence[str],
    *,
    key: str,
    delays: RequiredDelays,
    keep: int,
    window: int = WINDOW,
    on_progress: Callable[[int], object] | None = None,
) -> tuple[Auditor, LineCounts]:
    """Audit *logs*, and return the auditor and the counts of lines.

    *key* is one of `KEYS`. *keep* is the number of violations to keep, as for `Auditor`.
    *on_progress* is called from time to time with the number of lines read. Raises FatalError with
    one sentence if the logs cannot be audited.
    """
    _check_names(logs)
    counts = LineCounts()
    # A server writes a line when the request has ended, so each log is in the order of the ends.
    contacts = [_contacts_in(name, counts, on_progress) for name in logs]
    merged = heapq.merge(*contacts, key=lambda contact: contact.end)
    auditor = Auditor(key=KEYS[key], delays=delays, keep=keep)
    for contact in sorted_by_start(merged, window=window):
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
    """Raise FatalError if a log is given twice, because each request would overlap with itself."""
    for path, number in Counter(Path(name).resolve() for name in logs).items():
        if number > 1:
            raise FatalError(f"{path} is given twice")


def sorted_by_start(contacts: Iterable[LoggedRequest], *, window: int) -> Iterator[LoggedRequest]:
    """Yield *contacts*, which are in the order of their ends, in the order of their starts.

    Contacts with the same start are yielded in the order of their ends. At most *window* contacts
    are held in memory. So no request may take so long that *window* later ones are logged meanwhile
    (two minutes at a thousand requests per second). The auditor counts contacts that it therefore
    gets out of order.
    """
    # The number breaks ties, so that two contacts are never compared.
    heap: list[tuple[int, int, int, LoggedRequest]] = []
    for number, contact in enumerate(contacts):
        heappush(heap, (contact.start, contact.end, number, contact))
        if len(heap) > window:
            yield heappop(heap)[3]
    while heap:
        yield heappop(heap)[3]
