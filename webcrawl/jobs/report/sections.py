"""Builds the sections of the report with their figures.

They show figures 5 to 10 of Mercator's chapter for this crawl, and what else an operator wants to
know: duplicates, depth, politeness, errors, hosts, filters and cost.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import accumulate
from shutil import disk_usage
from typing import TYPE_CHECKING

from webcrawl.crawl.figures.counts import Counts, module_failures, short, size
from webcrawl.jobs.report import breakdowns, now, tables
from webcrawl.jobs.report.figures import (
    UNKNOWN,
    Figure,
    Table,
    over_time,
    rate,
    share,
    span,
    stamp,
)
from webcrawl.jobs.report.log_totals import BYTES, DECODED, DUPLICATES, MINUTE, PAGES
from webcrawl.jobs.report.model import ReportPage, alarms_of
from webcrawl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from webcrawl.jobs.report.sources import Crawl

_CODES = "URLs without an answer have one of Heritrix' negative codes. The example is the latest."
# Published crawls to compare with: name, pages, hours and dollars.
_OTHER_CRAWLS = (
    ("Nielsen 2012, 20 machines", 250_113_669, 39 + 25 / 60, 580.0),
    ("Mercator 2000, 4 machines", 725_000_000, 17 * 24.0, None),
)


def report(crawl: Crawl, *, price: float | None, at: float) -> ReportPage:
    """Return the report of *crawl* at the epoch second *at*.

    *price* is the cost of all its machines in dollars per hour, None if it is not known.
    """
    span = " to ".join(map(stamp, crawl.log.span))
    period = f"{span}; " if span else ""
    drones = f", {counted(crawl.drones, 'drone')}" if crawl.drones else ""
    failing = module_failures(crawl.stats)
    damage = [f"The rest of a log could not be read: {why}" for why in crawl.damage]
    return ReportPage(
        title=f"Crawl {crawl.path.resolve().name}",
        at=at,
        head=[f"{crawl.state}{drones}; {period}report of {stamp(at)} (UTC)"],
        alarms=alarms_of(
            crawl.processes,
            failing,
            given_up=crawl.results.total_given_up,
            urls=crawl.results.urls,
            denied=[*crawl.log.denied.values()],
        )
        + damage,
        processes=crawl.processes,
        summary=_summary(crawl, price, at),
        rates=[documents(crawl), megabits(crawl), *now.gauge_figures(crawl)],
        held=now.held_table(crawl.stats),
        failures=[now.failures_table(crawl), *now.failing_modules(crawl.errors, failing)],
        sections={
            "Outcomes": [
                Figure("crawl-report", "The crawl in numbers", "", tables.crawl_table(crawl)),
                breakdowns.outcomes(crawl),
                Figure("responsecode-report", "Response codes", _CODES, tables.codes_table(crawl)),
                tables.SEEDS.figure(crawl),
                *breakdowns.refusals(crawl),
                *([breakdowns.visits(crawl)] if crawl.results.visits else []),
                breakdowns.filters(crawl),
                tables.DEAD_LINKS.figure(crawl),
            ],
            "Documents": [
                breakdowns.types(crawl),
                breakdowns.sizes(crawl),
                duplicates(crawl),
                breakdowns.depths(crawl),
            ],
            "Hosts": [
                *([now.hosts_table(crawl.facts)] if crawl.facts else []),
                *breakdowns.per_server(crawl),
                breakdowns.politeness(crawl),
                *breakdowns.per_tld(crawl),
                tables.HOSTS.figure(crawl),
                tables.SLOWEST.figure(crawl, limit=10),
                tables.WALLED.figure(crawl, limit=10),
            ],
            "Job": [
                *([now.checkpoints_table(crawl.facts)] if crawl.facts else []),
                now.commands_table(crawl),
                _cost(crawl, price),
            ],
        },
    )


def _summary(crawl: Crawl, price: float | None, at: float) -> list[tuple[str, str]]:
    """Return the rows of the summary: a label, and a number with its unit."""
    results = crawl.results
    rows = [
        ("pages", f"{results.pages:,}"),
        *([("running time", span(crawl.secs))] if crawl.secs else []),
        *_rates(crawl, at),
        ("received", size(crawl.received)),
        ("hosts contacted", f"{crawl.hosts:,}"),
        ("duplicates", share(crawl.duplicates, results.pages)),
        ("URLs given up", share(results.total_given_up, results.urls)),
    ]
    parked = crawl.counts("frontier/parked/")
    rows += [(f"parked by {gate}", f"{number:,} URLs") for gate, number in parked.items()]
    with suppress(OSError):
        rows.append(("free disk space", size(disk_usage(crawl.path).free)))
    if price is not None and crawl.secs:
        cost = price * crawl.secs / 3600
        rows.append(("per million pages", _per_million(cost, Counts.of(crawl.stats).pages)))
    return rows


def _rates(crawl: Crawl, at: float) -> Iterator[tuple[str, str]]:
    """Yield the rows of the summary for pages and visits per second.

    They have the present rate if the crawl is running, and the average as of the stats, which may
    be older than the log. *at* is the present time in epoch seconds.
    """
    counts = Counts.of(crawl.stats)
    for column, (name, count) in enumerate((("pages", counts.pages), ("visits", counts.visits))):
        recent = [
            counts[column]
            for second, counts in crawl.log.last_minute.items()
            if second > at - MINUTE
        ]
        present = f"{sum(recent) / MINUTE:,.1f} in the last minute" * (crawl.state == "running")
        average = f"{count / crawl.secs:,.1f} on average" if crawl.secs else ""
        if (present or average) and (column == 0 or count):
            yield f"{name} per second", ", ".join(filter(None, (present, average)))


def _per_million(cost: float | None, pages: int) -> str:
    """Format the dollars per million pages, if *pages* cost *cost* dollars."""
    return UNKNOWN if cost is None or not pages else f"${1e6 * cost / pages:,.2f}"


def _cost(crawl: Crawl, price: float | None) -> Figure:
    """Return the table that compares speed and cost of this crawl with those of others."""
    hours, own_pages = crawl.secs / 3600, Counts.of(crawl.stats).pages
    own_cost = price * hours if price and hours else None
    lead = "Not known: the price (--price-per-hour) was not given, or the running time is unknown."
    if own_cost:
        lead = f"At ${price:,.2f} per hour, the crawl has cost ${own_cost:,.2f} so far."
    rows = [
        (
            name,
            short(pages),
            span(hours * 3600) if hours else UNKNOWN,
            f"{pages / hours / 3600:,.1f}" if hours else UNKNOWN,
            _per_million(cost, pages),
        )
        for name, pages, hours, cost in (("this crawl", own_pages, hours, own_cost), *_OTHER_CRAWLS)
    ]
    table = Table(("crawl", "pages", "time", "pages per second", "per million pages"), rows)
    return Figure("cost", "Cost of a million pages", lead, table)


def documents(crawl: Crawl) -> Figure:
    """Return the figure of documents downloaded over time (Mercator's figure 5a)."""
    counts = crawl.log.timeline.sums(PAGES)
    width = crawl.log.timeline.width
    pages = counted(crawl.results.pages, "document")
    lead = f"{pages}, at most {max(counts, default=0):,} in {width:,} s."
    values = [count / width for count in counts]
    return _over_time(crawl, "documents", "Documents downloaded", lead, values, y="documents/s")


def megabits(crawl: Crawl) -> Figure:
    """Return the figure of megabits received over time (Mercator's figure 5b)."""
    timeline = crawl.log.timeline
    mean = rate(sum(timeline.sums(DECODED)), crawl.log.pages)
    lead = f"{size(crawl.received)} received. A decoded document has {size(mean)} on average."
    values = [count * 8e-6 / timeline.width for count in timeline.sums(BYTES)]
    return _over_time(crawl, "megabits", "Megabits received", lead, values, y="Mbit/s")


def duplicates(crawl: Crawl) -> Figure:
    """Return the figure of the share of duplicates among all documents so far, over time."""
    part = share(crawl.duplicates, crawl.results.pages)
    lead = (
        f"{counted(crawl.duplicates, 'document')} ({part}) had the same bytes as another URL and "
        "were not processed."
    )
    totals = (accumulate(crawl.log.timeline.sums(column)) for column in (DUPLICATES, PAGES))
    values = [100 * rate(found, pages) for found, pages in zip(*totals, strict=True)]
    return _over_time(crawl, "duplicates", "Duplicates", lead, values, y="% of documents so far")


def _over_time(
    crawl: Crawl, name: str, title: str, lead: str, values: Sequence[float], *, y: str
) -> Figure:
    """Return a figure of *values*, one for each interval of the timeline; *y* is their unit."""
    if not crawl.log.pages:
        return Figure(name, title, "No pages yet.")
    series = {y: [round(value, 3) for value in values]}
    return over_time(name, title, lead, crawl.log.timeline.edges[:-1], series, y=y)
