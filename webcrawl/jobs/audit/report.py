"""Formats the result of an audit as text, or as data for JSON."""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, Any

from webcrawl.jobs.audit.log_line import MICRO, LoggedRequest
from webcrawl.wording import counted, utc_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webcrawl.jobs.audit.access_logs import LineCounts
    from webcrawl.jobs.audit.auditor import Auditor, KeyRecord, Violation

JSON_FORMAT = 2
_HEADINGS = ("contacts", "smallest gap", "concurrency", "required", "violations")


def as_text(auditor: Auditor, counts: LineCounts, *, key: str, top: int) -> Iterator[str]:
    """Yield the lines of the report: totals, a table of *top* keys, worst violations, result."""
    yield from _total_lines(auditor, counts, key)
    yield ""
    yield from _table_lines(auditor, key, top)
    for violation in auditor.worst_violations():
        yield ""
        yield from _violation_lines(violation)
    if auditor.violations > len(auditor.worst_violations()):
        yield ""
        yield f"({auditor.violations - len(auditor.worst_violations()):,} more, less severe)"
    yield ""
    yield _verdict(auditor, key)


def as_data(auditor: Auditor, counts: LineCounts, *, key: str, top: int) -> dict[str, Any]:
    """Return the report as data for JSON. Times are in seconds; None means unknown."""
    return {
        "format": JSON_FORMAT,
        "politeness_key": key,
        "requests": auditor.contacts,
        "lines": counts.lines,
        "unreadable": counts.unreadable,
        "first_unreadable": counts.first_unreadable or None,
        "unjudged": auditor.unjudged,
        "first": _to_secs(auditor.first),
        "last": _to_secs(auditor.last),
        "keys": len(auditor.keys),
        "smallest_gap": _to_secs(auditor.smallest),
        "largest_concurrency": auditor.concurrency,
        "violations": auditor.violations,
        "by_key": [
            {
                "key": name,
                "contacts": record.contacts,
                "smallest_gap": _to_secs(record.smallest),
                "largest_concurrency": record.concurrency,
                "required": _to_secs(record.due),
                "violations": record.violations,
            }
            for name, record in _sort_by_gap(auditor, top)
        ],
        "worst": [
            {
                "key": violation.key,
                "gap": _to_secs(violation.gap),
                "required": _to_secs(violation.due),
                "before": _contact_json(violation.before),
                "after": _contact_json(violation.after),
            }
            for violation in auditor.worst_violations()
        ],
    }


def _total_lines(auditor: Auditor, counts: LineCounts, key: str) -> Iterator[str]:
    """Yield the lines with the totals, and with what was not checked."""
    yield (
        f"{counted(auditor.contacts, 'request')}, {counted(len(auditor.keys), 'politeness key')} "
        f"({key}), {_time_text(auditor.first or 0)} to {_time_text(auditor.last)} UTC"
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


def _table_lines(auditor: Auditor, key: str, top: int) -> Iterator[str]:
    """Yield the table of the *top* keys with the smallest gaps."""
    rows = [
        (
            name,
            f"{record.contacts:,}",
            _gap_text(record.smallest),
            str(record.concurrency),
            _delay_text(record.due),
            f"{record.violations:,}",
        )
        for name, record in _sort_by_gap(auditor, top)
    ]
    if rows:
        widths = [max(map(len, column)) for column in zip(*rows, (key, *_HEADINGS), strict=True)]
        for row in ((key, *_HEADINGS), *rows):
            cells = [f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)]
            yield "  ".join((f"{row[0]:<{widths[0]}}", *cells))
    if len(auditor.keys) > len(rows):
        yield f"({len(auditor.keys) - len(rows):,} more with the same or larger gaps)"


def _violation_lines(violation: Violation) -> Iterator[str]:
    """Yield the lines about one *violation*, with both contacts."""
    before = violation.before
    after = violation.after
    yield (
        f"VIOLATION for {violation.key}: gap of {_gap_text(violation.gap)}, "
        f"required {_delay_text(violation.due)}"
    )
    for contact in (before, after):
        times = f"{_time_text(contact.start)} to {_time_text(contact.end)}"
        yield f"  {times}  {contact.url}  ({contact.log}:{contact.line})"


def _verdict(auditor: Auditor, key: str) -> str:
    """Return the last line, which says whether there were violations."""
    if auditor.violations:
        keys = sum(record.violations > 0 for record in auditor.keys.values())
        return f"{counted(auditor.violations, 'violation')} for {counted(keys, key)}"
    smallest = auditor.smallest
    gap = "" if smallest is None else f"; smallest gap {_gap_text(smallest)}"
    return f"no violations{gap}; largest concurrency {auditor.concurrency}"


def _sort_by_gap(auditor: Auditor, top: int) -> list[tuple[str, KeyRecord]]:
    """Return the *top* keys with the smallest gaps. Keys with a single contact come last."""

    def order(item: tuple[str, KeyRecord]) -> tuple[float, str]:
        name, record = item
        return math.inf if record.smallest is None else record.smallest, name

    return heapq.nsmallest(top, auditor.keys.items(), key=order)


def _contact_json(contact: LoggedRequest) -> dict[str, Any]:
    """Return *contact* as data for JSON."""
    return {
        "start": _to_secs(contact.start),
        "end": _to_secs(contact.end),
        "url": contact.url,
        "log": contact.log,
        "line": contact.line,
    }


def _to_secs(micros: int | None) -> float | None:
    return None if micros is None else micros / MICRO


def _gap_text(micros: int | None) -> str:
    return "-" if micros is None else f"{micros / MICRO:.6f} s"


def _delay_text(micros: int) -> str:
    return f"{micros / MICRO:g} s"


def _time_text(micros: int) -> str:
    """Format *micros* as a date and time in UTC, with microseconds unless they are 0."""
    seconds, fraction = divmod(micros, MICRO)
    return utc_time(seconds) + (f".{fraction:06d}" if fraction else "")
