"""Figures over the time of the crawl: Mercator's figure 5, and duplicates."""

from __future__ import annotations

import time
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from webcrawl.jobs.report.drawing import steps
from webcrawl.jobs.report.figures import Figure, Table, rate, share, size
from webcrawl.jobs.report.log_totals import BYTES, DUPLICATES, PAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webcrawl.jobs.report.sources import Crawl


def documents(crawl: Crawl) -> Figure:
    """Figure 5a."""
    count, counts = crawl.pages, crawl.log.timeline.sums(PAGES)
    width = crawl.log.timeline.width
    lead = (
        f"{count:,} documents, {rate(count, crawl.secs):,.1f} a second on average; at most "
        f"{max(counts, default=0):,} in {width:,} s."
    )
    values = [one / width for one in counts]
    return _over_time(crawl, "documents", "Documents downloaded", lead, cells=counts, values=values)


def megabits(crawl: Crawl) -> Figure:
    """Figure 5b."""
    count, timeline = crawl.log.bytes, crawl.log.timeline
    lead = (
        f"{size(count)} of bodies as received, {rate(count * 8e-6, crawl.secs):,.2f} megabits a "
        f"second on average, {size(rate(count, crawl.log.pages))} for each document."
    )
    values = [one * 8e-6 / timeline.width for one in timeline.sums(BYTES)]
    cells = [round(value, 3) for value in values]
    return _over_time(crawl, "megabits", "Megabits received", lead, cells=cells, values=values)


def duplicates(crawl: Crawl) -> Figure:
    """Documents that were seen before."""
    log = crawl.log
    lead = (
        f"{log.duplicates:,} documents, {share(log.duplicates, log.pages)}, had been seen byte for "
        "byte under another URL: they were not processed."
    )
    counts = log.timeline.sums(DUPLICATES)
    so_far = zip(accumulate(counts), accumulate(log.timeline.sums(PAGES)), strict=True)
    values = [100 * rate(found, pages) for found, pages in so_far]
    y = "% of documents so far"
    return _over_time(crawl, "duplicates", "Duplicates", lead, cells=counts, values=values, y=y)


def _over_time(
    crawl: Crawl,
    name: str,
    title: str,
    lead: str,
    *,
    cells: Sequence[float],
    values: Sequence[float],
    y: str = "",
) -> Figure:
    """The figure of *values*, and the table of *cells*, one for each interval."""
    if not crawl.log.pages:
        return Figure(name, title, "No pages yet.")
    timeline = crawl.log.timeline
    begins = [time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at)) for at in timeline.edges]
    table = Table((f"from, for {timeline.width:,} s", name), [*zip(begins, cells, strict=False)])
    draw = partial(steps, edges=timeline.edges, values=values, y=y or f"{name} a second")
    return Figure(name, title, lead, table, draw)
