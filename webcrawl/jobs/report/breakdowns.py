"""Builds figures about URLs, documents and hosts: Mercator's figures 6 to 10, and others."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate
from typing import TYPE_CHECKING

from webcrawl.crawl.figures.counts import size, with_prefix
from webcrawl.doctor.diagnosis import shares_of
from webcrawl.jobs.report.chart import bars, lines, scaled
from webcrawl.jobs.report.figures import (
    MAX_BARS,
    Figure,
    Table,
    histogram,
    share,
    shares,
    span,
)
from webcrawl.jobs.report.now import BEFORE_VISITS
from webcrawl.jobs.report.tables import TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webcrawl.jobs.report.sources import Crawl

# The lower limits of the bars of Mercator's histogram of sizes: 0, 1, 2, 4, ... 1M.
_SIZES = ["0", *(scaled(1 << power, by=1024).upper() for power in range(21))]
# Depths from this one on are counted together.
_DEPTHS = 20
_TYPES = "SELECT type, pages FROM types WHERE pages ORDER BY pages DESC, type"
# Number of lines in one chart.
_MAX_LINES = 4


def outcomes(crawl: Crawl) -> Figure:
    """Return the figure of URLs by outcome (Mercator's figure 6)."""
    pages = share(crawl.results.pages, crawl.results.urls)
    lead = f"Of {{total:,}} URLs, {pages} gave a document (81.4% in Mercator's crawl)."
    lead += BEFORE_VISITS * bool(crawl.results.visits)
    why = "No URL is finished yet."
    return shares(
        "outcomes",
        "Outcomes of URLs",
        with_prefix("outcome/", crawl.totals),
        what="outcome",
        of="URLs",
        lead=lead,
        why=why,
    )


def visits(crawl: Crawl) -> Figure:
    """Return the figure of visits of URLs that were finished before."""
    lead = "URLs that were fetched before were visited again {total:,} times."
    counts = with_prefix("visits/", crawl.totals)
    return shares("visits", "Visits", counts, what="result", of="visits", lead=lead)


def refusals(crawl: Crawl) -> Iterator[Figure]:
    """Yield the figures of answers by how they refuse the crawler, without and with signatures."""
    for kind in ("unsigned", "signed"):
        yield shares(
            f"refusals-{kind}",
            f"Refusals of {kind} requests",
            crawl.counts(f"refused/{kind}/"),
            what="refusal",
            of="answers",
            lead="{total:,} answers, by how they refuse the crawler.",
            why=f"No {kind} request was answered.",
        )


def filters(crawl: Crawl) -> Figure:
    """Return the figure of links and seeds that filters refused."""
    refused = crawl.counts("urls/refused/")
    refused |= {f"{name} (seeds)": n for name, n in crawl.counts("seeds/refused/").items()}
    lead = "Filters refused {total:,} links and seeds."
    why = "No links were refused by filters."
    title = "Links refused by filters"
    return shares("filters", title, refused, what="filter", of="links", lead=lead, why=why)


def types(crawl: Crawl) -> Figure:
    """Return the figure of documents by content type (Mercator's figure 7)."""
    figure = TYPES.figure(crawl)
    kinds, documents = crawl.file.select("SELECT count(*), total(pages) FROM types").fetchone()
    if not documents:
        return figure
    largest = crawl.file.select(f"{_TYPES} LIMIT {MAX_BARS}")
    rows = [(name, count, share(count, documents)) for name, count in largest]
    lead = f"{rows[0][2]} of the documents are {rows[0][0]}. There are {kinds:,} content types."
    return figure._replace(lead=f"{lead} {figure.lead}", chart=bars(rows))


def sizes(crawl: Crawl) -> Figure:
    """Return the figure of documents by size (Mercator's figure 8)."""
    counts = dict.fromkeys(_SIZES, 0)
    for bits, count in crawl.log.sizes.items():
        counts[_SIZES[min(bits, len(_SIZES) - 1)]] += count
    middle = share(sum(counts[size] for size in ("2K", "4K", "8K", "16K")), crawl.log.pages)
    lead = (
        "Each bar counts the documents from this (decoded) size up to the next. "
        f"{middle} are between 2K and 32K in size (67% in Mercator's crawl)."
    )
    return histogram("sizes", "Sizes of documents", counts, what="bytes, at least", lead=lead)


def depths(crawl: Crawl) -> Figure:
    """Return the figure of documents by their depth, the distance from a seed."""
    log = crawl.log
    deepest = max(log.depths, default=0)
    counts = {f"{depth}": log.depths[depth] for depth in range(min(deepest + 1, _DEPTHS))}
    if deepest >= _DEPTHS:
        counts[f"{_DEPTHS}+"] = log.pages - sum(counts.values())
    mean = sum(depth * count for depth, count in log.depths.items()) / (log.pages or 1)
    lead = f"Links and redirects from a seed to the page: {mean:.1f} on average, at most {deepest}."
    return histogram("depth", "Depth", counts, what="depth", lead=lead)


def per_server(crawl: Crawl) -> Iterator[Figure]:
    """Yield the figures of pages and of bytes per server (Mercator's figures 9a and 9b)."""
    for what in ("pages", "bytes"):
        name, title = f"{what}-per-server", f"{what.capitalize()} per server"
        query = f"SELECT bits({what}), count(*) FROM hosts GROUP BY 1"  # noqa: S608  # constants
        servers = dict(crawl.file.select(query).fetchall())
        # Numbers of servers with at least 1, 2, 4, ... of them.
        limits = [1 << power for power in range(max(servers, default=0))]
        if not limits:
            yield Figure(name, title, "No pages yet.")
            continue
        at_least = accumulate(servers.get(limit.bit_length(), 0) for limit in reversed(limits))
        counts = [*at_least][::-1]
        most = size(limits[-1]) if what == "bytes" else f"{limits[-1]:,} pages"
        lead = (
            f"{counts[0]:,} servers have any {what}, {counts[-1]:,} have {most} or more. A point "
            f"counts the servers with at least this many {what}. Zipf's law is a straight line."
        )
        series = {what: (counts, limits)}
        chart = lines(series, x="servers with at least as many", y=what, log="xy")
        table = Table((f"{what}, at least", "servers"), [*zip(limits, counts, strict=True)])
        yield Figure(name, title, lead, table, chart)


def per_tld(crawl: Crawl) -> Iterator[Figure]:
    """Yield the figures of hosts and pages by top-level domain (Mercator's figures 10a and 10b)."""
    for of, counted in (("hosts", "count(*)"), ("pages", "sum(pages)")):
        query = f"SELECT tld_of(host), {counted} FROM hosts WHERE fetches GROUP BY 1"  # noqa: S608  # as above
        counts = dict(crawl.file.select(query).fetchall())
        title = f"{of.capitalize()} by top-level domain"
        lead = (
            f"{{part}} of the {of} are in {{first}}. There are {{kinds:,}} domains, counting all "
            "IP addresses as one."
        )
        yield shares(f"{of}-by-tld", title, counts, what="domain", of=of, lead=lead)


def politeness(crawl: Crawl) -> Figure:
    """Return the figure of the pauses between requests to a host, by the time of the fetch."""
    title = "Pauses of hosts by fetch time"
    # Numbers of pauses by the shortest fetch time and the shortest pause of their class.
    waits: dict[float, dict[float, int]] = defaultdict(dict)
    for key, count in crawl.counts("politeness/waits/").items():
        took, waited = map(float, key.split("/"))
        waits[took][waited] = count
    if not waits:
        return Figure("politeness", title, "No host was contacted twice in one run yet.")
    rows = []
    series = {}
    most_common = sorted(waits, key=lambda took: sum(waits[took].values()))[-_MAX_LINES:]
    for took, counts in sorted(waits.items()):
        edges = sorted({*counts, 2 * max(counts)})
        # For each edge, the number of pauses that were at least that long.
        longer = [
            sum(count for waited, count in counts.items() if waited >= edge) for edge in edges
        ]
        total = longer[0]
        at_least_90, at_least_50, at_least_10 = (
            span(max(edge for edge, n in zip(edges, longer, strict=True) if n >= part * total))
            for part in (0.9, 0.5, 0.1)
        )
        name = f"{round(took, 3):g} to {round(4 * took, 3):g} s"
        rows.append((name, total, at_least_90, at_least_50, at_least_10))
        if took in most_common:
            series[f"fetch: {name}"] = (edges, [100 * n / total for n in longer])
    shares = shares_of(crawl.stats)
    limits = f" What limited the crawl, in shares of its time: {shares}." if shares else ""
    lead = (
        "Time between the end of a request and the start of the next one to the same host, by how "
        f"long the first one took. A point shows how many pauses were at least this long.{limits}"
    )
    head = ("fetch took", "pauses", "90% at least", "50% at least", "10% at least")
    chart = lines(series, x="minimum length of the pause, in seconds", y="% of pauses", log="x")
    return Figure("politeness", title, lead, Table(head, rows), chart)
