"""Builds figures about URLs, documents and hosts: Mercator's figures 6 to 10, and others."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING

from webcrawl.crawl.figures.counts import with_prefix
from webcrawl.doctor.history import FAULTS, kind_of
from webcrawl.jobs.report.chart import format_scaled
from webcrawl.jobs.report.figures import (
    Figure,
    Table,
    ask_about,
    histogram,
    share,
    shares,
    size,
)
from webcrawl.jobs.report.outcome_words import meaning_of, whose_fault
from webcrawl.wording import counted as plural
from webcrawl.wording import span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webcrawl.jobs.report.sources import Crawl

# Sentence added to the table of outcomes if some URLs were visited again.
_BEFORE_VISITS = " Each URL is counted once, by its first result; later visits are not included."
# For each outcome: the number of hosts with failures, and the one with most of them.
_FAILED_HOSTS = (
    "SELECT outcome, hosts, host FROM "
    "(SELECT outcome, count(*) AS hosts, host, max(urls) FROM faults GROUP BY outcome)"
)
# The lower limits of the bars of Mercator's histogram of sizes: 0, 1, 2, 4, ... 1M.
_SIZES = ["0", *(format_scaled(1 << power, by=1024).upper() for power in range(21))]
# Depths from this one on are counted together.
_DEPTHS = 20


def outcomes(crawl: Crawl, *, is_live: bool) -> tuple[Figure, Figure]:
    """Return the table of failed URLs, and that of the others (Mercator's figure 6)."""
    results = crawl.results
    # Heritrix' codes are only in the tables for programs.
    counts: Counter[str] = Counter()
    for (_, outcome), number in crawl.log.answers.items():
        counts[outcome] += number
    ranked = sorted(counts, key=lambda outcome: (-counts[outcome], outcome))
    hosts = {outcome: (number, host) for outcome, number, host in crawl.file.select(_FAILED_HOSTS)}

    failed_rows = []
    other_rows = []
    for outcome in ranked:
        asked = ask_about if is_live else str
        example = asked(crawl.log.examples[outcome])
        if kind_of(outcome) in FAULTS:
            number, host = hosts.get(outcome, (0, ""))
            about = (whose_fault(outcome), meaning_of(outcome))
            failed_rows.append(
                (outcome, counts[outcome], number, asked(host), *about, example),
            )
        else:
            other_rows.append((outcome, counts[outcome], meaning_of(outcome), example))

    failed = sum(row[1] for row in failed_rows)
    lead = f"{share(failed, results.urls)} of {results.urls:,} URLs failed after all tries"
    ((number,),) = crawl.file.select("SELECT count(DISTINCT host) FROM faults")
    lead += f", on {number:,} of {plural(crawl.hosts, 'host')}." if failed else "."
    head = (
        "outcome",
        "URLs",
        "hosts",
        "most of them on",
        "whose fault",
        "what it means",
        "example",
    )
    table = Table(head, failed_rows) if failed_rows else None
    failures = Figure("faults", "What failed", lead, table, bars=1)

    pages = share(results.pages, results.urls)
    earlier = "" if is_live else " (81.4% in Mercator's crawl)"
    lead = f"Of {results.urls:,} URLs, {pages} gave a document{earlier}."
    lead += " Others are not there, or robots.txt or a rule denies them, which is nobody's fault."
    lead += _BEFORE_VISITS * bool(results.visits)
    table = Table(("outcome", "URLs", "what it means", "example"), other_rows)
    return failures, Figure("responsecode-report", "As the sites want", lead, table, bars=1)


def visits(crawl: Crawl) -> Figure:
    """Return the figure of visits of URLs that were finished before."""
    lead = "URLs that were fetched before were visited again {total:,} times."
    counts = with_prefix("visits/", crawl.totals)
    return shares("visits", "Visits", counts, what="result", of="visits", lead=lead)


def refusals(crawl: Crawl) -> Iterator[Figure]:
    """Yield the figures of answers by how they refuse the crawler, without and with signatures."""
    lead = "{total:,} answers, by how they refuse the crawler."
    for kind in ("unsigned", "signed"):
        name = f"refusals-{kind}"
        title = f"Refusals of {kind} requests"
        counts = crawl.counts(f"refused/{kind}/")
        yield shares(name, title, counts, what="refusal", of="answers", lead=lead)


def filters(crawl: Crawl) -> Figure:
    """Return the figure of links and seeds that filters refused."""
    counts = crawl.counts("urls/refused/")
    counts |= {f"{name} (seeds)": n for name, n in crawl.counts("seeds/refused/").items()}
    lead = "Filters refused {total:,} links and seeds."
    return shares(
        "filters", "Links refused by filters", counts, what="filter", of="links", lead=lead
    )


def sizes(crawl: Crawl, *, is_live: bool) -> Figure:
    """Return the figure of documents by size (Mercator's figure 8)."""
    counts = dict.fromkeys(_SIZES, 0)
    # A size of n bits is at least 2 ** (n - 1), which is the limit at index n.
    for bits, count in crawl.log.sizes.items():
        counts[_SIZES[min(bits, len(_SIZES) - 1)]] += count
    middle = share(sum(counts[size] for size in ("2K", "4K", "8K", "16K")), crawl.log.pages)
    earlier = "" if is_live else " (67% in Mercator's crawl)"
    lead = (
        "Each bar counts the documents from this (decoded) size up to the next. "
        f"{middle} are between 2K and 32K in size{earlier}."
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
    lead = f"Links from a seed to the page: {mean:.1f} on average, at most {deepest}."
    return histogram("depth", "Depth", counts, what="depth", lead=lead)


def per_server(crawl: Crawl) -> Iterator[Figure]:
    """Yield the figures of pages and of bytes per server (Mercator's figures 9a and 9b)."""
    for what in ("pages", "bytes"):
        name = f"{what}-per-server"
        title = f"{what.capitalize()} per server"
        query = f"SELECT bits({what}), count(*) FROM hosts GROUP BY 1"  # noqa: S608  # constants
        servers = dict(crawl.file.select(query).fetchall())  # their number, by bits of their count
        # Numbers of servers with at least 1, 2, 4, ... of them.
        limits = [1 << power for power in range(max(servers, default=0))]
        if not limits:
            yield Figure(name, title, "No pages yet.")
            continue
        # Add up from the largest limit downwards.
        at_least = accumulate(servers.get(limit.bit_length(), 0) for limit in reversed(limits))
        counts = [*at_least][::-1]
        most = size(limits[-1]) if what == "bytes" else plural(limits[-1], "page")
        lead = f"{plural(counts[0], 'server')} with any {what}, {counts[-1]:,} with {most} or more."
        table = Table((f"{what}, at least", "servers"), [*zip(limits, counts, strict=True)])
        yield Figure(name, title, lead, table, bars=1)


def per_tld(crawl: Crawl) -> Iterator[Figure]:
    """Yield the figures of hosts and pages by top-level domain (Mercator's figures 10a and 10b)."""
    for of, counted in (("hosts", "count(*)"), ("pages", "sum(pages)")):
        query = f"SELECT tld_of(host), {counted} FROM hosts WHERE fetches GROUP BY 1"  # noqa: S608  # as above
        counts = dict(crawl.file.select(query).fetchall())
        title = f"{of.capitalize()} by top-level domain"
        lead = (
            f"{{part}} of the {of} are in {{first}}. Number of domains: {{kinds:,}}, counting all "
            "IP addresses as one."
        )
        yield shares(f"{of}-by-tld", title, counts, what="domain", of=of, lead=lead)


def politeness(crawl: Crawl) -> Figure:
    """Return the figure of the pauses between requests to a host."""
    counts: Counter[float] = Counter()
    # A key has the lower limits of download time and pause in seconds, with a slash in between.
    for key, number in crawl.counts("politeness/waits/").items():
        counts[float(key.partition("/")[2])] += number
    by_pause = {span(pause): counts[pause] for pause in sorted(counts)}
    lead = "Time between the end of a request and the start of the next one to the same host."
    what = "pause, at least"
    return histogram("politeness", "Pauses of hosts", by_pause, what=what, of="pauses", lead=lead)
