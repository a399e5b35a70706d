"""Builds figures about URLs, documents and hosts: Mercator's figures 6 to 10, and others."""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from itertools import compress
from typing import TYPE_CHECKING

from webcrawl.crawl.figures.counts import size
from webcrawl.crawl.lease.outcome_log import is_given_up
from webcrawl.doctor.diagnosis import shares_of
from webcrawl.jobs.report.chart import lines, scaled
from webcrawl.jobs.report.figures import (
    Figure,
    Table,
    histogram,
    over_time,
    rate,
    share,
    shares,
    span,
    stamp,
)
from webcrawl.jobs.report.log_totals import (
    CHANGES,
    DEAD,
    DECODED,
    HTMLS,
    IMAGES,
    OTHER_TYPES,
    PAGES,
    TEXTS,
)
from webcrawl.jobs.report.now import BEFORE_VISITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webcrawl.jobs.report.log_totals import LogTotals
    from webcrawl.jobs.report.sources import Crawl

# The lower limits of the bars of Mercator's histogram of sizes: 0, 1, 2, 4, ... 1M.
_SIZES = ["0", *(scaled(1 << power, by=1024).upper() for power in range(21))]
# Depths from this one on are counted together.
_DEPTHS = 20
# Number of pages with dead links that are shown.
_MAX_PAGES = 50
# Classes of failures, with the prefixes of their outcomes; the first class that matches counts.
_CLASSES = {
    "HTTP 4xx": ("http_4",),
    "HTTP 5xx": ("http_5",),
    "robots.txt": ("robots_", "crawl_delay_"),
    "DNS": ("dns_",),
    "connection": ("connect", "tls_failed"),
    "host given up": ("host_failing",),
    "timeout": ("first_byte_timeout", "too_slow", "timeout"),
    "broken answer": ("incomplete", "bad_answer", "header_too_large"),
    "not wanted": ("excluded", "address_forbidden", "unwanted_type", "too_large", "bad_url"),
    "other": ("",),
}
# Number of lines in one chart.
_MAX_LINES = 4
# The figure of visited documents has a line for each of these ages, in days.
_AGES_DAYS = (1, 7, 30)
_DAY = 86_400


def outcomes(crawl: Crawl) -> Figure:
    """Return the figure of URLs by outcome (Mercator's figure 6)."""
    pages = share(crawl.pages, crawl.urls)
    lead = f"Of {{total:,}} URLs, {pages} gave a document (81.4% in Mercator's crawl)."
    lead += BEFORE_VISITS * bool(crawl.log.visits)
    why = "No URL is finished yet."
    return shares(
        "outcomes",
        "Outcomes of URLs",
        crawl.outcomes,
        what="outcome",
        of="URLs",
        lead=lead,
        why=why,
    )


def visits(crawl: Crawl) -> Iterator[Figure]:
    """Yield the figures about visits of URLs that were finished before."""
    lead = "URLs that were fetched before were visited again {total:,} times."
    yield shares("visits", "Visits", crawl.log.visits, what="result", of="visits", lead=lead)
    yield _freshness(crawl.log)


def _freshness(log: LogTotals) -> Figure:
    """Return the figure of how many documents were recently visited, over time."""
    begin, *ends = log.timeline.edges
    seen = [sorted(times) for times in log.seen_at.values()]
    # A row has the share of documents within each age, and the changes per day.
    rows: list[list[float]] = []
    for end, changed in zip(ends, log.timeline.sums(CHANGES), strict=True):
        ages = [end - times[count - 1] for times in seen if (count := bisect(times, end))]
        counts = (sum(age <= days * _DAY for age in ages) for days in _AGES_DAYS)
        rows.append([round(100 * rate(count, len(ages)), 1) for count in counts])
        rows[-1].append(round(changed * _DAY / log.timeline.width, 1))
    lead = "Share of documents that were fetched, or found to be unchanged, within this time. The "
    lead += "table also has the changes that visits found. Later changes are not known."
    names = [f"within {days} d" for days in _AGES_DAYS]
    days = [(end - begin) / _DAY for end in ends]
    series = {name: (days, [row[column] for row in rows]) for column, name in enumerate(names)}
    chart = lines(series, x="days", y="% of documents")
    table = Table(
        ("until (UTC)", *(f"% {name}" for name in names), "changes per day"),
        [(stamp(end), *row) for end, row in zip(ends, rows, strict=True)],
    )
    return Figure("freshness", "Recently visited documents", lead, table, chart)


def given_up_by_class(crawl: Crawl) -> dict[str, int]:
    """Return the numbers of URLs given up, by the class of their error."""
    counts: dict[str, int] = defaultdict(int)
    for outcome, count in crawl.outcomes.items():
        if is_given_up(outcome):
            name = next(name for name, prefixes in _CLASSES.items() if outcome.startswith(prefixes))
            counts[name] += count
    return counts


def errors(crawl: Crawl) -> Figure:
    """Return the figure of URLs given up, by the class of their error."""
    counts = given_up_by_class(crawl)
    percent = share(sum(counts.values()), crawl.urls)
    lead = (
        f"{{total:,}} URLs ({percent}) were given up after all tries; commonest reason: {{first}}."
    )
    why = "No URL was given up."
    return shares("errors", "Errors by class", counts, what="class", of="URLs", lead=lead, why=why)


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


def dead_links(crawl: Crawl) -> Figure:
    """Return the table of the pages with the most dead links."""
    dead, title = crawl.log.most_dead_links(_MAX_PAGES), "Dead links"
    if not dead:
        return Figure("dead-links", title, "No dead links were found.")
    lead = (
        f"Pages with the most links to URLs that do not exist ({', '.join(sorted(DEAD))}). A URL "
        "counts only for the page that had it first. Number of pages with dead links: "
        f"{len(crawl.log.dead_links):,}."
    )
    head = ("page", "dead links", "example", "outcome")
    return Figure(
        "dead-links", title, lead, Table(head, [(page, *values) for page, values in dead])
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
    lead = "{part} of the documents are {first}. There are {kinds:,} content types."
    return shares("types", "Content types", crawl.log.types, what="type", of="documents", lead=lead)


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


def documents_over_time(crawl: Crawl) -> Iterator[Figure]:
    """Yield the figures of the content types and of the mean size of documents over time."""
    timeline = crawl.log.timeline
    counts = timeline.sums(PAGES)

    def means(column: int, unit: float) -> list[float]:
        sums = zip(timeline.sums(column), counts, strict=True)
        return [round(total / count / unit, 2) for total, count in sums if count]

    kinds = {"HTML": HTMLS, "other text": TEXTS, "images": IMAGES, "others": OTHER_TYPES}
    types = {kind: means(column, 0.01) for kind, column in kinds.items()}
    lead = f"Documents in intervals of {timeline.width:,} s; empty intervals are left out."
    if starts := [*compress(timeline.edges, counts)]:
        title = "Content types over time"
        yield over_time("types-by-time", title, lead, starts, types, y="% of documents")
        size = {"kB": means(DECODED, 1000)}
        yield over_time("size-by-time", "Mean size over time", lead, starts, size, y="kB, decoded")


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
    servers = crawl.servers
    for what, counts in (("pages", servers.with_pages), ("bytes", servers.with_bytes)):
        name, title = f"{what}-per-server", f"{what.capitalize()} per server"
        if not counts:
            yield Figure(name, title, "No pages yet.")
            continue
        limits = [1 << power for power in range(len(counts))]
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
    servers = crawl.servers
    for of, counts in (("hosts", servers.hosts_by_tld), ("pages", servers.pages_by_tld)):
        title = f"{of.capitalize()} by top-level domain"
        lead = (
            f"{{part}} of the {of} are in {{first}}. There are {{kinds:,}} domains, counting all "
            "IP addresses as one."
        )
        yield shares(f"{of}-by-tld", title, counts, what="domain", of=of, lead=lead)


def extreme_hosts(crawl: Crawl) -> Iterator[Figure]:
    """Yield the tables of hosts with the most pages, the longest fetches and the most walls."""
    servers = crawl.servers
    pages = [(host, count, size(received)) for host, count, received in servers.largest]
    times = [(host, count, span(mean)) for host, count, mean in servers.slowest]
    longest = "Hosts whose fetches took longest on average; those with at least three come first."
    walls = "Hosts that most often answered with something other than a document: challenges, "
    walls += "login and consent pages, error pages with status 200."
    for kind, lead, head, rows in (
        ("largest", "Hosts with the most pages.", ("host", "pages", "bytes"), pages),
        ("slowest", longest, ("host", "fetches", "mean fetch"), times),
        ("walled", walls, ("host", "URLs", "fetches"), servers.walled),
    ):
        if rows:
            table = Table(head, rows)
            yield Figure(f"{kind}-hosts", f"{kind.capitalize()} hosts", lead, table)


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
