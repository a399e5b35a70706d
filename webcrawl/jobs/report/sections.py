"""Sections of the report: which figures there are, made of what was read of a crawl.

Figures 5 to 10 of Mercator's chapter for this crawl, and what its operator wants to know besides:
duplicates, depth, politeness, errors, hosts, filters, what is left, and the price.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from webcrawl.crawl.counts import short
from webcrawl.jobs.report import breakdowns, host_figures, over_time
from webcrawl.jobs.report.figures import (
    UNKNOWN,
    Figure,
    Report,
    Section,
    Table,
    bars,
    dollars,
    empty,
    rate,
    share,
    size,
    span,
)

if TYPE_CHECKING:
    from webcrawl.jobs.report.host_totals import Servers
    from webcrawl.jobs.report.sources import Crawl

_STATES: Final = {
    "running": "running",
    "finished": "finished: nothing is left to fetch",
    "stopped": "stopped, can be resumed",
    "cut off": "cut off, can be resumed",
}
# Pages a second and cost of a million are computed from these: pages, hours, dollars.
_OTHERS: Final = (
    ("Nielsen 2012, 20 machines", 250_113_669, 39 + 25 / 60, 580.0),
    ("Mercator 2000, 4 machines", 725_000_000, 17 * 24.0, None),
)


def report(crawl: Crawl, *, price: float | None, at: float) -> Report:
    """The report of *crawl*; *price* is what all its machines cost an hour, in dollars, and *at*
    the epoch second."""
    servers = crawl.log.hosts.servers()
    items = crawl.intervals.items
    end = min(at, items[-1].at + items[-1].covered) if items else at
    period = f"{_date(items[0].at)} to {_date(end)}, " if items else ""
    drones = f", {crawl.drones} drones" if crawl.drones else ""
    return Report(
        title=f"Crawl {crawl.path.resolve().name}",
        subtitle=f"{_STATES[crawl.state]}{drones}; {period}report of {_date(at)} (UTC)",
        summary=_summary(crawl, servers, price),
        sections=[
            Section(
                "Speed",
                [over_time.documents(crawl), over_time.megabits(crawl), over_time.waiting(crawl)],
            ),
            Section(
                "Outcomes",
                [breakdowns.outcomes(crawl), breakdowns.errors(crawl), breakdowns.filters(crawl)],
            ),
            Section(
                "Documents",
                [
                    breakdowns.types(crawl),
                    breakdowns.sizes(crawl),
                    *breakdowns.contents(crawl),
                    over_time.duplicates(crawl),
                ],
            ),
            Section(
                "Hosts",
                [
                    *host_figures.per_server(servers),
                    host_figures.politeness(crawl),
                    *host_figures.by_tld(servers, crawl),
                    breakdowns.depths(crawl),
                    host_figures.largest(servers),
                    host_figures.slowest(servers),
                ],
            ),
            Section("What is left", _left(crawl)),
            Section("Cost", [_cost(crawl, price)]),
        ],
    )


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(at))


def _summary(crawl: Crawl, servers: Servers, price: float | None) -> list[tuple[str, str]]:
    log = crawl.log
    found = [
        ("pages", f"{log.pages:,}"),
        ("time running", span(crawl.secs)),
        ("pages a second", f"{rate(log.pages, crawl.secs):,.1f}"),
        ("received", size(log.bytes)),
        ("hosts", f"{servers.number:,}"),
        ("duplicates", share(log.duplicates, log.pages)),
        ("URLs given up", share(sum(breakdowns.given_up(crawl).values()), log.urls)),
    ]
    if price is not None:
        cost = _per_million(price * crawl.secs / 3600, log.pages)
        found.append(("a million pages", cost))
    return found


def _per_million(cost: float, pages: int) -> str:
    return dollars(1e6 * cost / pages) if pages else UNKNOWN


def _left(crawl: Crawl) -> list[Figure]:
    left = crawl.left
    if left is None:
        return [empty("left", "Where URLs wait", "There is no checkpoint that could be read.")]
    places = {name: count for name, count in left.places.items() if count}
    count = sum(places.values())
    figures = []
    if count:
        resting = left.hosts.get("resting", 0)
        lead = (
            f"{count:,} URLs as of the last checkpoint, with {sum(left.hosts.values()):,} hosts in "
            f"line, {resting:,} of them resting."
        )
        if left.submitted:
            lead += f" In the eliminator: {left.submitted:,} links, some of which have been seen."
        found = bars(places, whole=count, what="place", of="URLs")
        figures.append(Figure("left", "Where URLs wait", lead, *found))
    else:
        figures.append(
            empty("left", "Where URLs wait", "No URL was waiting at the last checkpoint.")
        )
    if left.longest:
        rows = [(row.name, row.waiting, row.state) for row in left.longest]
        table = Table(("host", "URLs", "state"), list(rows))
        lead = "The hosts with the longest queues, which the end of the crawl will wait for."
        figures.append(Figure("longest-queues", "Longest queues", lead, table))
    return figures


def _cost(crawl: Crawl, price: float | None) -> Figure:
    hours = crawl.secs / 3600
    own = None if price is None else price * hours
    if own is None:
        lead = "What the machines cost an hour was not given (--price-per-hour)."
    else:
        lead = (
            f"At {dollars(price or 0)} an hour, the crawl has cost {dollars(own)} so far. Nielsen "
            "paid 512 dollars for machines and 65 for what they sent."
        )
    rows = [
        (
            who,
            short(pages),
            span(hours * 3600),
            f"{rate(pages, hours * 3600):,.1f}",
            UNKNOWN if cost is None else _per_million(cost, pages),
        )
        for who, pages, hours, cost in (("this crawl", crawl.log.pages, hours, own), *_OTHERS)
    ]
    table = Table(("crawl", "pages", "time", "pages a second", "a million pages"), list(rows))
    return Figure("cost", "Cost of a million pages", lead, table)
