"""Figures over the time of the crawl: Mercator's figure 5, URLs waiting, duplicates."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from webcrawl.jobs.report.figures import (
    UNKNOWN,
    Figure,
    Steps,
    Table,
    empty,
    rate,
    share,
    size,
    span,
)
from webcrawl.jobs.report.log_totals import BYTES, DUPLICATES, PAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webcrawl.jobs.report.figures import Cell
    from webcrawl.jobs.report.sources import Crawl

_UNITS: Final = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def documents(crawl: Crawl) -> Figure:
    """Figure 5a."""
    name, title, (width, items, stops) = "documents", "Documents downloaded", crawl.intervals
    if not crawl.log.pages:
        return empty(name, title)
    unit, per = next((unit, per) for unit, per in _UNITS if width >= unit)
    values = [item.sums[PAGES] * unit / item.covered for item in items]
    lead = (
        f"{crawl.log.pages:,} documents, {rate(crawl.log.pages, crawl.secs):,.1f} a second on "
        f"average; at most {max(values):,.0f} a {per} in an interval of {span(width)}."
    )
    if stops:
        lead += " Dashed lines: the crawl was stopped there and went on later."
    table = _table(crawl, "documents", [item.sums[PAGES] for item in items])
    return Figure(name, title, lead, table, _steps(crawl, f"documents a {per}", values))


def megabits(crawl: Crawl) -> Figure:
    """Figure 5b."""
    name, title, what = "megabits", "Megabits received a second", "megabits a second"
    if not crawl.log.bytes:
        return empty(name, title)
    values = [item.sums[BYTES] * 8e-6 / item.covered for item in crawl.intervals.items]
    lead = (
        f"{size(crawl.log.bytes)} of bodies as received, "
        f"{rate(crawl.log.bytes * 8e-6, crawl.secs):,.2f} megabits a second on average, "
        f"{size(rate(crawl.log.bytes, crawl.log.pages))} for each document."
    )
    table = _table(crawl, what, [round(value, 3) for value in values])
    return Figure(name, title, lead, table, _steps(crawl, what, values))


def waiting(crawl: Crawl) -> Figure:
    """URLs in the frontier and the eliminator."""
    name, title = "waiting", "URLs waiting"
    known = [value for value in crawl.waiting if value is not None]
    if not known:
        return empty(name, title, "No statistics have been written yet.")
    if not any(known):
        return empty(name, title, "None waited whenever the statistics were written.")
    lead = (
        f"{known[-1]:,} URLs were waiting to be fetched when it was last written down, at most "
        f"{max(known):,}."
    )
    cells: list[Cell] = [UNKNOWN if value is None else value for value in crawl.waiting]
    values = [float("nan") if value is None else float(value) for value in crawl.waiting]
    table = _table(crawl, "URLs at its end", cells)
    return Figure(name, title, lead, table, _steps(crawl, "URLs", values))


def duplicates(crawl: Crawl) -> Figure:
    """Documents that were seen before."""
    name, title, log = "duplicates", "Duplicates", crawl.log
    if not log.pages:
        return empty(name, title)
    pages = found = 0
    values = []
    for item in crawl.intervals.items:
        pages, found = pages + item.sums[PAGES], found + item.sums[DUPLICATES]
        values.append(100 * rate(found, pages))
    lead = (
        f"{log.duplicates:,} documents, {share(log.duplicates, log.pages)}, had been seen byte for "
        "byte under another URL: they were not processed."
    )
    cells = [item.sums[DUPLICATES] for item in crawl.intervals.items]
    drawing = _steps(crawl, "% of documents so far", values)
    return Figure(name, title, lead, _table(crawl, "duplicates", cells), drawing)


def _steps(crawl: Crawl, y: str, values: list[float]) -> Steps:
    """The drawing of *values*, one for each interval."""
    secs = crawl.intervals.secs
    unit, name = next((unit, name) for unit, name in _UNITS if secs >= 2 * unit or unit == 1)
    edges = [*(item.start for item in crawl.intervals.items), secs]
    return Steps(
        [edge / unit for edge in edges],
        values,
        [stop / unit for stop in crawl.intervals.stops],
        f"{name}s into the crawl",
        y,
    )


def _table(crawl: Crawl, head: str, cells: Sequence[Cell]) -> Table:
    """The table of *cells*, one for each interval."""
    begins = (
        time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(item.at)) for item in crawl.intervals.items
    )
    rows = list(zip(begins, cells, strict=True))
    return Table((f"from, for {span(crawl.intervals.width)}", head), list(rows))
