"""Figures of the report as data: words, numbers and a chart.

This module knows nothing about the crawl. Texts may come from strangers (hosts, content types), so
the code that prints them must escape them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from webcrawl.jobs.report.chart import bars, lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from webcrawl.jobs.report.chart import Chart

Cell: TypeAlias = str | int | float

#: Shown for a number that is not known.
UNKNOWN = "not known"
#: Name of the row that sums up everything that is not listed.
OTHERS = "all others"

#: Number of bars in a chart.
MAX_BARS = 12
_MAX_ROWS = 50


class Table(NamedTuple):
    """Table with the column names *head*, and rows of text and numbers."""

    head: tuple[str, ...]
    rows: Iterable[tuple[Cell, ...]]


class Figure(NamedTuple):
    """A chart together with the table of its numbers, or only a table.

    *lead* says in sentences what can be seen, or why there is nothing to see. The file of the chart
    is named after *name*.
    """

    name: str
    title: str
    lead: str
    table: Table | None = None
    chart: Chart | None = None


def share(part: float, whole: float) -> str:
    """Format *part* as a percentage of *whole*.

    >>> share(1, 3), share(1, 100_000), share(0, 0)
    ('33.3%', '< 0.1%', '0%')
    """
    if not part or not whole:
        return "0%"
    percent = 100 * part / whole
    return f"{percent:.1f}%" if percent >= 0.1 else "< 0.1%"


def span(secs: float) -> str:
    """Format a duration of *secs* seconds.

    >>> [span(secs) for secs in (0.01234, 9, 123.4, 5400, 141_900, 1_500_000)]
    ['0.0123 s', '9 s', '123 s', '90 min', '39.4 h', '17.4 days']
    """
    if secs < 600:
        return f"{secs:.3g} s"
    if secs < 7200:
        return f"{secs / 60:.0f} min"
    return f"{secs / 3600:.1f} h" if secs < 172_800 else f"{secs / 86_400:.1f} days"


def stamp(at: float) -> str:
    """Format the epoch second *at* as date and time in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))


def rate(count: float, total: float) -> float:
    """Return *count* divided by *total*, or 0 if *total* is 0."""
    return count / total if total else 0.0


def shares(
    name: str,
    title: str,
    counts: Mapping[str, int],
    *,
    what: str,
    of: str,
    lead: str,
    why: str = "No pages yet.",
) -> Figure:
    """Return a figure of the largest *counts* with their shares of the sum.

    *what* and *of* are the headings of the names and the numbers. *lead* is formatted with the
    fields total, kinds (the number of names), first (the name of the largest) and part (its share).
    *why* replaces it if all counts are 0.
    """
    ranked = sorted(((-count, label) for label, count in counts.items() if count))
    total = -sum(count for count, _ in ranked)
    if not total:
        return Figure(name, title, why)

    def largest(limit: int) -> list[tuple[str, int, str]]:
        rows = [(label, -count) for count, label in ranked[:limit]]
        if len(ranked) > limit:
            rows.append((OTHERS, -sum(count for count, _ in ranked[limit:])))
        return [(label, count, share(count, total)) for label, count in rows]

    first = ranked[0][1]
    lead = lead.format(
        total=total, kinds=len(ranked), first=first, part=share(counts[first], total)
    )
    table = Table((what, of, "share"), largest(_MAX_ROWS))
    return Figure(name, title, lead, table, bars(largest(MAX_BARS)))


def histogram(name: str, title: str, counts: Mapping[str, int], *, what: str, lead: str) -> Figure:
    """Return a figure of the numbers of documents by *what*, in the order of *counts*."""
    total = sum(counts.values())
    if not total:
        return Figure(name, title, "No pages yet.")
    rows = [(label, count, share(count, total)) for label, count in counts.items()]
    return Figure(name, title, lead, Table((what, "documents", "share"), rows), bars(rows))


def over_time(
    name: str,
    title: str,
    lead: str,
    edges: Sequence[float],
    series: Mapping[str, Sequence[float]],
    *,
    y: str,
) -> Figure:
    """Return a figure of *series* over time; *y* is the unit of the values.

    Each value is for the interval that begins at the respective one of *edges*, in epoch seconds.
    """
    starts = map(stamp, edges)
    rows = [*zip(starts, *series.values(), strict=True)]
    chart = lines(
        {label: (edges, series[label]) for label in series}, x="time (UTC)", y=y, is_time=True
    )
    return Figure(name, title, lead, Table(("from (UTC)", *series), rows), chart)
