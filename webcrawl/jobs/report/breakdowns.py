"""Figures of URLs, documents and hosts by kind: Mercator's figures 6 to 10, depth, politeness."""

from __future__ import annotations

import time
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

# Mercator's histogram: 0, 1, 2, 4, ... 1M.
_SIZES = ["0", *(scaled(1 << power, by=1024).upper() for power in range(21))]
_DEPTHS = 20
# With dead links.
_MOST_PAGES = 50
# Prefixes of outcomes, the first that fits.
_CLASSES = {
    "HTTP 4xx": ("http_4",),
    "HTTP 5xx": ("http_5",),
    "robots.txt": ("robots_", "crawl_delay_"),
    "DNS": ("dns_",),
    "connection": ("connect", "tls_failed"),
    "host given up": ("host_failing",),
    "time-out": ("first_byte_timeout", "too_slow", "timeout"),
    "broken answer": ("incomplete", "bad_answer", "header_too_large"),
    "not wanted": ("excluded", "address_forbidden", "unwanted_type", "too_large", "bad_url"),
    "other": ("",),
}
# Lines of one figure.
_MOST_LINES = 4
# Days within which documents were visited.
_WITHIN = (1, 7, 30)
_DAY = 86_400


def outcomes(crawl: Crawl) -> Figure:
    """Figure 6."""
    pages = share(crawl.pages, crawl.urls)
    lead = f"Of {{total:,}} URLs, {pages} gave a document; 81.4 % did in Mercator's crawl."
    lead += BEFORE_VISITS * bool(crawl.log.visits)
    why = "No URL has come to its end yet."
    counts = crawl.outcomes
    return shares(
        "outcomes", "Outcomes of URLs", counts, what="outcome", of="URLs", lead=lead, why=why
    )


def visits(crawl: Crawl) -> Iterator[Figure]:
    """What visits of URLs that were finished before have found."""
    lead = "{total:,} times a URL was visited again that was fetched before."
    yield shares("visits", "Visits", crawl.log.visits, what="found", of="visits", lead=lead)
    yield _freshness(crawl.log)


def _freshness(log: LogTotals) -> Figure:
    """How many documents were visited lately, and how many had changed, as time went on."""
    begin, *ends = log.timeline.edges
    seen = [sorted(times) for times in log.seen.values()]
    found: list[list[float]] = []
    for end, changed in zip(ends, log.timeline.sums(CHANGES), strict=True):
        ages = [end - times[known - 1] for times in seen if (known := bisect(times, end))]
        lately = (sum(age <= days * _DAY for age in ages) for days in _WITHIN)
        found.append([round(100 * rate(one, len(ages)), 1) for one in lately])
        found[-1].append(round(changed * _DAY / log.timeline.width, 1))
    lead = "Documents that were fetched, or found to be unchanged, so lately. The table has the "
    lead += "changes that visits found, too; what has changed since is not known."
    names = [f"within {days} d" for days in _WITHIN]
    days = [(end - begin) / _DAY for end in ends]
    series = {name: (days, [one[at] for one in found]) for at, name in enumerate(names)}
    chart = lines(series, x="days", y="% of documents")
    dates = (time.strftime("%Y-%m-%d %H:%M", time.gmtime(end)) for end in ends)
    table = Table(
        ("until (UTC)", *(f"% {name}" for name in names), "changes a day"),
        [(date, *one) for date, one in zip(dates, found, strict=True)],
    )
    return Figure("freshness", "Documents seen lately", lead, table, chart)


def given_up(crawl: Crawl) -> dict[str, int]:
    """URLs by the class of their error."""
    found: dict[str, int] = defaultdict(int)
    for outcome, count in crawl.outcomes.items():
        if is_given_up(outcome):
            name = next(one for one, begins in _CLASSES.items() if outcome.startswith(begins))
            found[name] += count
    return found


def errors(crawl: Crawl) -> Figure:
    """Figure 6 without what went well, by class."""
    found = given_up(crawl)
    part = share(sum(found.values()), crawl.urls)
    lead = f"{{total:,}} URLs, {part}, were given up after all tries, most of them for: {{first}}."
    why = "No URL was given up."
    return shares("errors", "Errors by class", found, what="class", of="URLs", lead=lead, why=why)


def dead_links(crawl: Crawl) -> Figure:
    """The pages on which most of the dead links were found."""
    dead, title = crawl.log.worst(_MOST_PAGES), "Dead links"
    if not dead:
        return Figure("dead-links", title, "No link is dead.")
    lead = (
        f"The pages on which the most URLs were first found that do not exist ("
        f"{', '.join(sorted(DEAD))}), of {len(crawl.log.dead):,} pages, with one of them each."
    )
    head = ("page", "dead links", "one of them", "its outcome")
    return Figure("dead-links", title, lead, Table(head, [(via, *rest) for via, rest in dead]))


def filters(crawl: Crawl) -> Figure:
    """Links and seeds that did not become URLs."""
    refused = crawl.counts("urls/refused/")
    refused |= {f"{name} (seeds)": n for name, n in crawl.counts("seeds/refused/").items()}
    lead = "Filters refused {total:,} links and seeds."
    why = "No link was refused by a filter."
    title = "Links refused by filters"
    return shares("filters", title, refused, what="filter", of="links", lead=lead, why=why)


def types(crawl: Crawl) -> Figure:
    """Figure 7."""
    lead = "{part} of the documents are {first}; content types in all: {kinds:,}."
    return shares("types", "Content types", crawl.log.types, what="type", of="documents", lead=lead)


def sizes(crawl: Crawl) -> Figure:
    """Figure 8."""
    counts = dict.fromkeys(_SIZES, 0)
    for bits, count in crawl.log.sizes.items():
        counts[_SIZES[min(bits, len(_SIZES) - 1)]] += count
    middle = share(sum(counts[one] for one in ("2K", "4K", "8K", "16K")), crawl.log.pages)
    lead = (
        "A bar is the documents of at least so many bytes, decoded, and fewer than the next. "
        f"{middle} have 2K to 32K; 67 % had in Mercator's crawl."
    )
    return histogram("sizes", "Sizes of documents", counts, what="bytes, at least", lead=lead)


def documents_over_time(crawl: Crawl) -> Iterator[Figure]:
    """Content types and mean size of the documents of each interval."""
    timeline = crawl.log.timeline
    counts = timeline.sums(PAGES)

    def means(column: int, unit: float) -> list[float]:
        sums = zip(timeline.sums(column), counts, strict=True)
        return [round(one / count / unit, 2) for one, count in sums if count]

    kinds = {"HTML": HTMLS, "other text": TEXTS, "images": IMAGES, "others": OTHER_TYPES}
    types = {kind: means(column, 0.01) for kind, column in kinds.items()}
    lead = f"Of the documents in each {timeline.width:,} s that had any."
    if begins := [*compress(timeline.edges, counts)]:
        title = "Content types over time"
        yield over_time("types-by-time", title, lead, begins, types, y="% of documents")
        size = {"kB": means(DECODED, 1000)}
        yield over_time("size-by-time", "Mean size over time", lead, begins, size, y="kB, decoded")


def depths(crawl: Crawl) -> Figure:
    """Documents by their distance from a seed."""
    log = crawl.log
    deepest = max(log.depths, default=0)
    counts = {f"{depth}": log.depths[depth] for depth in range(min(deepest + 1, _DEPTHS))}
    if deepest >= _DEPTHS:
        counts[f"{_DEPTHS}+"] = log.pages - sum(counts.values())
    mean = sum(depth * count for depth, count in log.depths.items()) / (log.pages or 1)
    lead = f"Links and redirects from a seed to the page: {mean:.1f} on average, at most {deepest}."
    return histogram("depth", "Depth", counts, what="depth", lead=lead)


def per_server(crawl: Crawl) -> Iterator[Figure]:
    """Figures 9a and 9b."""
    servers = crawl.servers
    for what, counts in (("pages", servers.with_pages), ("bytes", servers.with_bytes)):
        name, title = f"{what}-per-server", f"{what.capitalize()} per server"
        if not counts:
            yield Figure(name, title, "No pages yet.")
            continue
        lasts = [1 << power for power in range(len(counts))]
        most = size(lasts[-1]) if what == "bytes" else f"{lasts[-1]:,} pages"
        lead = (
            f"A point says how many servers have at least so many {what}. With some: "
            f"{counts[0]:,}; with {most} or more: {counts[-1]:,}. Zipf's law is a straight line."
        )
        series = {what: (counts, lasts)}
        chart = lines(series, x="servers with at least as many", y=what, log="xy")
        table = Table((f"{what}, at least", "servers"), [*zip(lasts, counts, strict=True)])
        yield Figure(name, title, lead, table, chart)


def by_tld(crawl: Crawl) -> Iterator[Figure]:
    """Figures 10a and 10b."""
    servers = crawl.servers
    for of, counts in (("hosts", servers.hosts_by_tld), ("pages", servers.pages_by_tld)):
        title = f"{of.capitalize()} by top-level domain"
        lead = f"{{part}} of the {of} are in {{first}}; domains in all, if addresses are one: "
        lead += "{kinds:,}."
        yield shares(f"{of}-by-tld", title, counts, what="domain", of=of, lead=lead)


def of_hosts(crawl: Crawl) -> Iterator[Figure]:
    """The hosts with the most pages, those with the longest fetches, and those with most walls."""
    servers = crawl.servers
    pages = [(host, count, size(received)) for host, count, received in servers.largest]
    times = [(host, count, span(mean)) for host, count, mean in servers.slowest]
    longest = "The hosts whose fetches took longest on average, those with three or more first."
    walls = "The hosts that most often gave something else than a document: challenges, logins and "
    walls += "consent pages, error pages with status 200."
    for kind, lead, head, rows in (
        ("largest", "The hosts with the most pages.", ("host", "pages", "bytes"), pages),
        ("slowest", longest, ("host", "fetches", "mean fetch"), times),
        ("walled", walls, ("host", "URLs", "fetches"), servers.walled),
    ):
        if rows:
            table = Table(head, rows)
            yield Figure(f"{kind}-hosts", f"{kind.capitalize()} hosts", lead, table)


def politeness(crawl: Crawl) -> Figure:
    """How long hosts were left alone, by how long the fetch before took."""
    title = "Wait of a host by fetch time"
    waits: dict[float, dict[float, int]] = defaultdict(dict)
    for both, count in crawl.counts("politeness/waits/").items():
        took, waited = map(float, both.split("/"))
        waits[took][waited] = count
    if not waits:
        return Figure("politeness", title, "No host has been contacted twice in one run yet.")
    rows = []
    series = {}
    commonest = sorted(waits, key=lambda took: sum(waits[took].values()))[-_MOST_LINES:]
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
    bound = f" The crawl was bound by {shares} of its time." if shares else ""
    lead = (
        "How long a host was left alone between the end of a contact and the beginning of the "
        "next, by how long the former took: a point says how many waits were at least so long."
        f"{bound}"
    )
    head = ("fetch took", "waits", "nine in ten at least", "half at least", "one in ten at least")
    chart = lines(series, x="seconds of wait, at least", y="% of waits", log="x")
    return Figure("politeness", title, lead, Table(head, rows), chart)
