"""Report of the audit, as text or as data for JSON."""

from __future__ import annotations

import heapq
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from webcrawl.jobs.audit.log_line import MICRO
from webcrawl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webcrawl.jobs.audit.access_logs import LineCounts
    from webcrawl.jobs.audit.auditor import Auditor, KeyRecord, Violation
    from webcrawl.jobs.audit.log_line import LoggedRequest

JSON_FORMAT = 2
_HEADINGS = ("contacts", "smallest gap", "concurrency", "required", "violations")


def as_text(auditor: Auditor, counts: LineCounts, *, key: str, top: int) -> Iterator[str]:
    """Yield the lines: totals, a table of *top* keys, the worst violations, the result."""
    yield from _totals(auditor, counts, key)
    yield ""
    yield from _table(auditor, key, top)
    for violation in auditor.worst():
        yield ""
        yield from _described(violation)
    if auditor.violations > len(auditor.worst()):
        yield ""
        yield f"({auditor.violations - len(auditor.worst()):,} more, less severe)"
    yield ""
    yield _verdict(auditor, key)


def as_data(auditor: Auditor, counts: LineCounts, *, key: str, top: int) -> dict[str, Any]:
    """Return the report for JSON. Times are in seconds; None means unknown."""
    return {
        "format": JSON_FORMAT,
        "politeness_key": key,
        "requests": auditor.contacts,
        "lines": counts.lines,
        "unreadable": counts.unreadable,
        "first_unreadable": counts.first_unreadable or None,
        "unjudged": auditor.unjudged,
        "first": _secs(auditor.first),
        "last": _secs(auditor.last),
        "keys": len(auditor.keys),
        "smallest_gap": _secs(auditor.smallest),
        "largest_concurrency": auditor.concurrency,
        "violations": auditor.violations,
        "by_key": [
            {
                "key": name,
                "contacts": record.contacts,
                "smallest_gap": _secs(record.smallest),
                "largest_concurrency": record.concurrency,
                "required": _secs(record.due),
                "violations": record.violations,
            }
            for name, record in _by_gap(auditor, top)
        ],
        "worst": [
            {
                "key": one.key,
                "gap": _secs(one.gap),
                "required": _secs(one.due),
                "before": _contact_json(one.before),
                "after": _contact_json(one.after),
            }
            for one in auditor.worst()
        ],
    }


def _totals(auditor: Auditor, counts: LineCounts, key: str) -> Iterator[str]:
    yield (
        f"{counted(auditor.contacts, 'request')}, {counted(len(auditor.keys), 'politeness key')} "
        f"({key}), {_when(auditor.first or 0)} to {_when(auditor.last)} UTC"
    )
    if counts.unreadable:
        yield (
            f"skipped: {counted(counts.unreadable, 'line')} that cannot be read, the first is "
            f"{counts.first_unreadable}"
        )
    if auditor.unjudged:
        yield (
            f"not checked: {counted(auditor.unjudged, 'request')} too far out of order; "
            "sort the log by time"
        )


def _table(auditor: Auditor, key: str, top: int) -> Iterator[str]:
    rows = [
        (
            name,
            f"{record.contacts:,}",
            _gap(record.smallest),
            str(record.concurrency),
            _pause(record.due),
            f"{record.violations:,}",
        )
        for name, record in _by_gap(auditor, top)
    ]
    if rows:
        widths = [max(map(len, column)) for column in zip(*rows, (key, *_HEADINGS), strict=True)]
        for row in ((key, *_HEADINGS), *rows):
            cells = [f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)]
            yield "  ".join((f"{row[0]:<{widths[0]}}", *cells))
    if len(auditor.keys) > len(rows):
        yield f"({len(auditor.keys) - len(rows):,} more with the same or larger gaps)"


def _described(violation: Violation) -> Iterator[str]:
    before, after = violation.before, violation.after
    yield (
        f"VIOLATION for {violation.key}: gap of {_gap(violation.gap)}, "
        f"required {_pause(violation.due)}"
    )
    for contact in (before, after):
        times = f"{_when(contact.start)} to {_when(contact.end)}"
        yield f"  {times}  {contact.url}  ({contact.log}:{contact.line})"


def _verdict(auditor: Auditor, key: str) -> str:
    if auditor.violations:
        keys = sum(record.violations > 0 for record in auditor.keys.values())
        return f"{counted(auditor.violations, 'violation')} for {counted(keys, key)}"
    smallest = auditor.smallest
    gap = "" if smallest is None else f"; smallest gap {_gap(smallest)}"
    return f"no violations{gap}; largest concurrency {auditor.concurrency}"


def _by_gap(auditor: Auditor, top: int) -> list[tuple[str, KeyRecord]]:
    """Return the *top* keys with the smallest gaps; those with a single contact come last."""

    def order(item: tuple[str, KeyRecord]) -> tuple[float, str]:
        name, record = item
        return math.inf if record.smallest is None else record.smallest, name

    return heapq.nsmallest(top, auditor.keys.items(), key=order)


def _contact_json(contact: LoggedRequest) -> dict[str, Any]:
    return {
        "start": _secs(contact.start),
        "end": _secs(contact.end),
        "url": contact.url,
        "log": contact.log,
        "line": contact.line,
    }


def _secs(micros: int | None) -> float | None:
    return None if micros is None else micros / MICRO


def _gap(micros: int | None) -> str:
    return "-" if micros is None else f"{micros / MICRO:.6f} s"


def _pause(micros: int) -> str:
    return f"{micros / MICRO:g} s"


def _when(micros: int) -> str:
    """Format a time as date and time in UTC, with microseconds if there are any."""
    seconds, rest = divmod(micros, MICRO)
    try:
        moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):  # a year after 9999
        moment = f"{seconds} s"
    return f"{moment}.{rest:06d}" if rest else moment
