"""Figures about URLs, documents and hosts: Mercator's figures 6 to 10, depth, politeness."""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from itertools import compress
from typing import TYPE_CHECKING

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
    size,
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

# The sizes of Mercator's histogram: 0, 1, 2, 4, ... 1M.
_SIZES = ["0", *(scaled(1 << power, by=1024).upper() for power in range(21))]
_DEPTHS = 20
# Number of pages with dead links that are shown.
_MAX_PAGES = 50
# Classes of outcomes by prefix; the first that matches counts.
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
# Ages of visited documents, in days.
_WITHIN = (1, 7, 30)
_DAY = 86_400


def outcomes(crawl: Crawl) -> Figure:
    """Return Mercator's figure 6: URLs by outcome."""
    pages = share(crawl.pages, crawl.urls)
    lead = f"Of {{total:,}} URLs, {pages} gave a document (81.4% in Mercator's crawl)."
    lead += BEFORE_VISITS * bool(crawl.log.visits)
    why = "No URL is finished yet."
    counts = crawl.outcomes
    return shares(
        "outcomes", "Outcomes of URLs", counts, what="outcome", of="URLs", lead=lead, why=why
    )


def visits(crawl: Crawl) -> Iterator[Figure]:
    """Yield the figures about visits of URLs that were finished before."""
    lead = "URLs that were fetched before were visited again {total:,} times."
    yield shares("visits", "Visits", crawl.log.visits, what="result", of="visits", lead=lead)
    yield _freshness(crawl.log)


def _freshness(log: LogTotals) -> Figure:
    """Return the figure of recently visited documents and of changes over time."""
    begin, *ends = log.timeline.edges
    seen = [sorted(times) for times in log.seen.values()]
    rows: list[list[float]] = []
    for end, changed in zip(ends, log.timeline.sums(CHANGES), strict=True):
        ages = [end - times[count - 1] for times in seen if (count := bisect(times, end))]
        lately = (sum(age <= days * _DAY for age in ages) for days in _WITHIN)
        rows.append([round(100 * rate(one, len(ages)), 1) for one in lately])
        rows[-1].append(round(changed * _DAY / log.timeline.width, 1))
    lead = "Share of documents that were fetched, or found to be unchanged, within this time. The "
    lead += "table also has the changes that visits found. Later changes are not known."
    names = [f"within {days} d" for days in _WITHIN]
    days = [(end - begin) / _DAY for end in ends]
    series = {name: (days, [row[at] for row in rows]) for at, name in enumerate(names)}
    chart = lines(series, x="days", y="% of documents")
    table = Table(
        ("until (UTC)", *(f"% {name}" for name in names), "changes per day"),
        [(stamp(end), *row) for end, row in zip(ends, rows, strict=True)],
    )
    return Figure("freshness", "Recently visited documents", lead, table, chart)


def given_up(crawl: Crawl) -> dict[str, int]:
    """Return the numbers of URLs given up, by the class of their error."""
    found: dict[str, int] = defaultdict(int)
    for outcome, count in crawl.outcomes.items():
        if is_given_up(outcome):
            name = next(one for one, begins in _CLASSES.items() if outcome.startswith(begins))
            found[name] += count
    return found


def errors(crawl: Crawl) -> Figure:
    """Return the figure of URLs given up, by class of error."""
    found = given_up(crawl)
    part = share(sum(found.values()), crawl.urls)
    lead = f"{{total:,}} URLs ({part}) were given up after all tries; commonest reason: {{first}}."
    why = "No URL was given up."
    return shares("errors", "Errors by class", found, what="class", of="URLs", lead=lead, why=why)


def dead_links(crawl: Crawl) -> Figure:
    """Return the table of the pages with the most dead links."""
    dead, title = crawl.log.worst(_MAX_PAGES), "Dead links"
    if not dead:
        return Figure("dead-links", title, "No dead links were found.")
    lead = (
        f"Pages with the most links to URLs that do not exist ({', '.join(sorted(DEAD))}). A URL "
        "counts only for the page that had it first. Number of pages with dead links: "
        f"{len(crawl.log.dead):,}."
    )
    head = ("page", "dead links", "example", "outcome")
    return Figure("dead-links", title, lead, Table(head, [(via, *rest) for via, rest in dead]))


def filters(crawl: Crawl) -> Figure:
    """Return the figure of links and seeds that filters refused."""
    refused = crawl.counts("urls/refused/")
    refused |= {f"{name} (seeds)": n for name, n in crawl.counts("seeds/refused/").items()}
    lead = "Filters refused {total:,} links and seeds."
    why = "No links were refused by filters."
    title = "Links refused by filters"
    return shares("filters", title, refused, what="filter", of="links", lead=lead, why=why)


def types(crawl: Crawl) -> Figure:
    """Return Mercator's figure 7: documents by content type."""
    lead = "{part} of the documents are {first}. There are {kinds:,} content types."
    return shares("types", "Content types", crawl.log.types, what="type", of="documents", lead=lead)


def sizes(crawl: Crawl) -> Figure:
    """Return Mercator's figure 8: documents by size."""
    counts = dict.fromkeys(_SIZES, 0)
    for bits, count in crawl.log.sizes.items():
        counts[_SIZES[min(bits, len(_SIZES) - 1)]] += count
    middle = share(sum(counts[one] for one in ("2K", "4K", "8K", "16K")), crawl.log.pages)
    lead = (
        "Each bar counts the documents from this size (decoded) up to the next. "
        f"{middle} have 2K to 32K (67% in Mercator's crawl)."
    )
    return histogram("sizes", "Sizes of documents", counts, what="bytes, at least", lead=lead)


def documents_over_time(crawl: Crawl) -> Iterator[Figure]:
    """Yield the figures of content types and mean size of documents over time."""
    timeline = crawl.log.timeline
    counts = timeline.sums(PAGES)

    def means(column: int, unit: float) -> list[float]:
        sums = zip(timeline.sums(column), counts, strict=True)
        return [round(one / count / unit, 2) for one, count in sums if count]

    kinds = {"HTML": HTMLS, "other text": TEXTS, "images": IMAGES, "others": OTHER_TYPES}
    types = {kind: means(column, 0.01) for kind, column in kinds.items()}
    lead = f"Documents in intervals of {timeline.width:,} s; empty intervals are left out."
    if begins := [*compress(timeline.edges, counts)]:
        title = "Content types over time"
        yield over_time("types-by-time", title, lead, begins, types, y="% of documents")
        size = {"kB": means(DECODED, 1000)}
        yield over_time("size-by-time", "Mean size over time", lead, begins, size, y="kB, decoded")


def depths(crawl: Crawl) -> Figure:
    """Return the figure of documents by distance from a seed."""
    log = crawl.log
    deepest = max(log.depths, default=0)
    counts = {f"{depth}": log.depths[depth] for depth in range(min(deepest + 1, _DEPTHS))}
    if deepest >= _DEPTHS:
        counts[f"{_DEPTHS}+"] = log.pages - sum(counts.values())
    mean = sum(depth * count for depth, count in log.depths.items()) / (log.pages or 1)
    lead = f"Links and redirects from a seed to the page: {mean:.1f} on average, at most {deepest}."
    return histogram("depth", "Depth", counts, what="depth", lead=lead)


def per_server(crawl: Crawl) -> Iterator[Figure]:
    """Yield Mercator's figures 9a and 9b: pages and bytes per server."""
    servers = crawl.servers
    for what, counts in (("pages", servers.with_pages), ("bytes", servers.with_bytes)):
        name, title = f"{what}-per-server", f"{what.capitalize()} per server"
        if not counts:
            yield Figure(name, title, "No pages yet.")
            continue
        lasts = [1 << power for power in range(len(counts))]
        most = size(lasts[-1]) if what == "bytes" else f"{lasts[-1]:,} pages"
        lead = (
            f"{counts[0]:,} servers have any {what}, {counts[-1]:,} have {most} or more. A point "
            f"counts the servers with at least this many {what}. Zipf's law is a straight line."
        )
        series = {what: (counts, lasts)}
        chart = lines(series, x="servers with at least as many", y=what, log="xy")
        table = Table((f"{what}, at least", "servers"), [*zip(lasts, counts, strict=True)])
        yield Figure(name, title, lead, table, chart)


def by_tld(crawl: Crawl) -> Iterator[Figure]:
    """Yield Mercator's figures 10a and 10b: hosts and pages by top-level domain."""
    servers = crawl.servers
    for of, counts in (("hosts", servers.hosts_by_tld), ("pages", servers.pages_by_tld)):
        title = f"{of.capitalize()} by top-level domain"
        lead = (
            f"{{part}} of the {of} are in {{first}}. There are {{kinds:,}} domains, counting all "
        )
        lead += "IP addresses as one."
        yield shares(f"{of}-by-tld", title, counts, what="domain", of=of, lead=lead)


def of_hosts(crawl: Crawl) -> Iterator[Figure]:
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
    """Return the figure of pauses between requests to a host, by fetch time."""
    title = "Pauses of hosts by fetch time"
    waits: dict[float, dict[float, int]] = defaultdict(dict)
    for both, count in crawl.counts("politeness/waits/").items():
        took, waited = map(float, both.split("/"))
        waits[took][waited] = count
    if not waits:
        return Figure("politeness", title, "No host was contacted twice in one run yet.")
    rows = []
    series = {}
    commonest = sorted(waits, key=lambda took: sum(waits[took].values()))[-_MAX_LINES:]
    for took, counts in sorted(waits.items()):
        edges = sorted({*counts, 2 * max(counts)})
        longer = [sum(n for one, n in counts.items() if one >= edge) for edge in edges]
        total = longer[0]
        nine, half, tenth = (
            span(max(edge for edge, n in zip(edges, longer, strict=True) if n >= part * total))
            for part in (0.9, 0.5, 0.1)
        )
        name = f"{round(took, 3):g} to {round(4 * took, 3):g} s"
        rows.append((name, total, nine, half, tenth))
        if took in commonest:
            series[f"fetch: {name}"] = (edges, [100 * n / total for n in longer])
    shares = shares_of(crawl.stats)
    limits = f" What limited the crawl, in shares of its time: {shares}." if shares else ""
    lead = (
        "Time between the end of a request and the start of the next one to the same host, by how "
        f"long the first one took. A point shows how many pauses were at least this long.{limits}"
    )
    head = ("fetch took", "pauses", "90% at least", "50% at least", "10% at least")
    chart = lines(series, x="length of the pause in seconds, at least", y="% of pauses", log="x")
    return Figure("politeness", title, lead, Table(head, rows), chart)
