"""Figures of hosts: Mercator's figures 9 and 10, the largest and slowest hosts, politeness."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from webcrawl.jobs.report.figures import (
    Figure,
    Points,
    Ranges,
    Table,
    bars,
    empty,
    pause,
    share,
    size,
)
from webcrawl.jobs.report.log_totals import STEPS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webcrawl.jobs.report.figures import Cell
    from webcrawl.jobs.report.host_totals import HostFigures, Servers
    from webcrawl.jobs.report.sources import Crawl


def per_server(servers: Servers) -> Iterable[Figure]:
    """Figures 9a and 9b."""
    for what, counts in (("pages", servers.with_pages), ("bytes", servers.with_bytes)):
        name, title = f"{what}-per-server", f"{what.capitalize()} per server"
        if not counts:
            yield empty(name, title)
            continue
        most = 1 << (len(counts) - 1)
        shown = size(most) if what == "bytes" else f"{most:,} pages"
        lead = (
            f"A point says how many servers have at least so many {what}. With some: "
            f"{counts[0]:,}; with {shown} or more: {counts[-1]:,}. Zipf's law is a straight line."
        )
        lasts = [1 << power for power in range(len(counts))]
        rows: list[tuple[Cell, ...]] = list(zip(lasts, counts, strict=True))
        drawing = Points(
            list(map(float, counts)),
            list(map(float, lasts)),
            "servers with at least as many",
            what,
        )
        yield Figure(name, title, lead, Table((f"{what}, at least", "servers"), rows), drawing)


def by_tld(servers: Servers, crawl: Crawl) -> Iterable[Figure]:
    """Figures 10a and 10b."""
    hosts = ("hosts", servers.hosts_by_tld, servers.number)
    for what, counts, whole in (hosts, ("pages", servers.pages_by_tld, crawl.log.pages)):
        name, title = f"{what}-by-tld", f"{what.capitalize()} by top-level domain"
        if not whole:
            yield empty(name, title)
            continue
        found = {tld: count for tld, count in counts.items() if count}
        first, count = max(found.items(), key=lambda item: item[1])
        lead = (
            f"{share(count, whole)} of the {what} are in {first}; domains in all, if addresses are "
            f"one: {len(found):,}."
        )
        yield Figure(name, title, lead, *bars(found, whole=whole, what="domain", of=what))


def largest(servers: Servers) -> Figure:
    """The hosts with the most pages."""
    lead = "The hosts with the most pages."
    return _hosts("largest-hosts", "Largest hosts", lead, servers.largest)


def slowest(servers: Servers) -> Figure:
    """The hosts with the longest fetches."""
    lead = "The hosts whose fetches took longest on average, of those with three or more."
    return _hosts("slowest-hosts", "Slowest hosts", lead, servers.slowest)


def _hosts(name: str, title: str, lead: str, hosts: list[HostFigures]) -> Figure:
    if not hosts:
        return empty(name, title)
    rows = [(one.host, one.pages, size(one.bytes), one.fetches, pause(one.secs)) for one in hosts]
    head = ("host", "pages", "bytes", "fetches", "mean fetch")
    return Figure(name, title, lead, Table(head, list(rows)))


def politeness(crawl: Crawl) -> Figure:
    """How long hosts were left alone."""
    name, title = "politeness", "Wait of a host and fetch time"
    waits = crawl.log.waits
    if not waits:
        return empty(name, title, "No host has been fetched from twice yet.")
    rows: list[tuple[Cell, ...]] = []
    took, lows, middles, highs = [], [], [], []
    for power in sorted({power for power, _ in waits}):
        counts = Counter({step: count for (one, step), count in waits.items() if one == power})
        low, middle, high = (_quantile(counts, part) for part in (0.1, 0.5, 0.9))
        took.append(2.0 ** (power - 0.5))
        lows.append(low)
        middles.append(middle)
        highs.append(high)
        head = f"{pause(2.0 ** (power - 1))} to {pause(2.0**power)}"
        rows.append((head, counts.total(), pause(low), pause(middle), pause(high)))
    bound = float(crawl.stats.get("politeness/bound_secs", 0))
    lead = (
        "How long a host was left alone before a fetch, by how long the fetch took: the median, "
        "and where eight in ten lie. Every host with URLs was resting for "
        f"{share(bound, crawl.secs)} of the time."
    )
    table = Table(
        ("fetch took", "fetches", "wait: one in ten below", "median", "one in ten above"), rows
    )
    drawing = Ranges(took, lows, middles, highs, "seconds of a fetch", "seconds of wait before it")
    return Figure(name, title, lead, table, drawing)


def _quantile(counts: dict[int, int], part: float) -> float:
    """The wait below which *part* of those lie that *counts* has by steps; to the half of one."""
    wanted = part * sum(counts.values())
    for step in sorted(counts):
        wanted -= counts[step]
        if wanted <= 0:
            break
    return float(2 ** ((step + 0.5) / STEPS))
