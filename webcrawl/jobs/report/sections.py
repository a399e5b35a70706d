"""Sections of the report: which figures there are, made of what was read of a crawl.

Figures 5 to 10 of Mercator's chapter for this crawl, and what its operator wants to know besides:
duplicates, depth, politeness, errors, hosts, filters, what is left, and the price.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from webcrawl.crawl.counts import short
from webcrawl.jobs.report.figures import (
    UNKNOWN,
    Columns,
    Figure,
    Points,
    Ranges,
    Report,
    Section,
    Steps,
    Table,
    bars,
    binary,
    dollars,
    pause,
    share,
    size,
    span,
    top,
)
from webcrawl.jobs.report.log_totals import BYTES, DUPLICATES, OTHER_TYPES, PAGES, STEPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from webcrawl.jobs.report.figures import Cell
    from webcrawl.jobs.report.host_totals import HostFigures, Servers
    from webcrawl.jobs.report.sources import Crawl

_OUTCOMES: Final = 12
_TYPES: Final = 10
_TLDS: Final = 14
_FILTERS: Final = 12
# Mercator's histogram: 0, 1, 2, 4, ... 1M.
_SIZES: Final = 22
_DEPTHS: Final = 20
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
# Prefixes of outcomes, the first that fits.
_CLASSES: Final = {
    "HTTP 4xx": ("http_4",),
    "HTTP 5xx": ("http_5",),
    "robots.txt": ("robots_", "crawl_delay_"),
    "DNS": ("dns_",),
    "connection": ("connect", "tls_failed"),
    "host given up": ("host_failing",),
    "time-out": ("first_byte_timeout", "too_slow", "timeout"),
    "broken answer": ("incomplete", "bad_answer", "header_too_large"),
    "not wanted": ("excluded", "address_forbidden", "unwanted_type", "too_large", "bad_url"),
}
_OTHER_ERRORS: Final = "other"


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
            Section("Speed", [_documents(crawl), _megabits(crawl), _waiting(crawl)]),
            Section("Outcomes", [_outcomes(crawl), _errors(crawl), _filters(crawl)]),
            Section("Documents", [_types(crawl), _sizes(crawl), _duplicates(crawl)]),
            Section(
                "Hosts",
                [
                    *_per_server(servers),
                    _politeness(crawl),
                    *_by_tld(servers, crawl),
                    _depths(crawl),
                    _hosts("largest-hosts", "Largest hosts", servers.largest, _LARGEST),
                    _hosts("slowest-hosts", "Slowest hosts", servers.slowest, _SLOWEST),
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
        ("pages a second", f"{_rate(log.pages, crawl.secs):,.1f}"),
        ("received", size(log.bytes)),
        ("hosts", f"{servers.number:,}"),
        ("duplicates", share(log.duplicates, log.pages)),
        ("URLs given up", share(sum(_given_up(crawl).values()), log.urls)),
    ]
    if price is not None:
        cost = _per_million(price * crawl.secs / 3600, log.pages)
        found.append(("a million pages", cost))
    return found


def _rate(count: float, secs: float) -> float:
    return count / secs if secs else 0.0


def _per_million(cost: float, pages: int) -> str:
    return dollars(1e6 * cost / pages) if pages else UNKNOWN


# --- over time

_PER: Final = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def _over_time(crawl: Crawl, values: Callable[[list[int], float], float], y: str) -> Steps:
    """*values* of the sums and the seconds of each interval."""
    unit, name = next(
        (unit, name) for unit, name in _PER if crawl.intervals.secs >= 2 * unit or unit == 1
    )
    items = crawl.intervals.items
    return Steps(
        [*(item.start / unit for item in items), crawl.intervals.secs / unit],
        [values(item.sums, item.covered) for item in items],
        [stop / unit for stop in crawl.intervals.stops],
        f"{name}s into the crawl",
        y,
    )


def _each_interval(crawl: Crawl, head: str, cell: Callable[[int], Cell]) -> Table:
    items = crawl.intervals.items
    rows = [(_moment(item.at), cell(number)) for number, item in enumerate(items)]
    return Table((f"from, for {span(crawl.intervals.width)}", head), list(rows))


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))


def _no(name: str, title: str, why: str = "No pages yet.") -> Figure:
    return Figure(name, title, why)


def _documents(crawl: Crawl) -> Figure:
    name, title = "documents", "Documents downloaded"
    if not crawl.log.pages:
        return _no(name, title)
    width = crawl.intervals.width
    unit, per = next((unit, per) for unit, per in _PER if width >= unit)
    drawing = _over_time(crawl, lambda sums, secs: sums[PAGES] * unit / secs, f"documents a {per}")
    stops = len(crawl.intervals.stops)
    lead = (
        f"{crawl.log.pages:,} documents, {_rate(crawl.log.pages, crawl.secs):,.1f} a second on "
        f"average; at most {max(drawing.values):,.0f} a {per} in an interval of {span(width)}."
    )
    if stops:
        lead += " Dashed lines: the crawl was stopped there and went on later."
    items = crawl.intervals.items
    table = _each_interval(crawl, "documents", lambda number: items[number].sums[PAGES])
    return Figure(name, title, lead, table, drawing)


def _megabits(crawl: Crawl) -> Figure:
    name, title = "megabits", "Megabits received a second"
    if not crawl.log.bytes:
        return _no(name, title)
    drawing = _over_time(crawl, lambda sums, secs: sums[BYTES] * 8e-6 / secs, "megabits a second")
    mean = _rate(crawl.log.bytes * 8e-6, crawl.secs)
    lead = (
        f"{size(crawl.log.bytes)} of bodies as received, {mean:,.2f} megabits a second on average, "
        f"{size(_rate(crawl.log.bytes, crawl.log.pages))} for each document."
    )
    table = _each_interval(
        crawl, "megabits a second", lambda number: round(drawing.values[number], 3)
    )
    return Figure(name, title, lead, table, drawing)


def _waiting(crawl: Crawl) -> Figure:
    name, title = "waiting", "URLs waiting"
    known = [value for value in crawl.waiting if value is not None]
    if not known:
        return _no(name, title, "No statistics have been written yet.")
    if not any(known):
        return _no(name, title, "None waited whenever the statistics were written.")
    drawing = _over_time(crawl, lambda *_: 0.0, "URLs")
    drawing = drawing._replace(values=[float(value or 0) for value in crawl.waiting])
    lead = (
        f"{known[-1]:,} URLs were waiting to be fetched when it was last written down, at most "
        f"{max(known):,}."
    )
    table = _each_interval(
        crawl, "URLs at its end", lambda number: _or_unknown(crawl.waiting[number])
    )
    return Figure(name, title, lead, table, drawing)


def _or_unknown(value: int | None) -> Cell:
    return UNKNOWN if value is None else value


def _duplicates(crawl: Crawl) -> Figure:
    name, title, log = "duplicates", "Duplicates", crawl.log
    if not log.pages:
        return _no(name, title)
    pages = duplicates = 0
    shares = []
    for item in crawl.intervals.items:
        pages, duplicates = pages + item.sums[PAGES], duplicates + item.sums[DUPLICATES]
        shares.append(100 * duplicates / pages if pages else 0.0)
    drawing = _over_time(crawl, lambda *_: 0.0, "% of documents so far")._replace(values=shares)
    lead = (
        f"{log.duplicates:,} documents, {share(log.duplicates, log.pages)}, had been seen byte for "
        "byte under another URL: they were not processed."
    )
    items = crawl.intervals.items
    table = _each_interval(crawl, "duplicates", lambda number: items[number].sums[DUPLICATES])
    return Figure(name, title, lead, table, drawing)


# --- how URLs ended


def _outcomes(crawl: Crawl) -> Figure:
    name, title, log = "outcomes", "Outcomes of URLs", crawl.log
    if not log.urls:
        return _no(name, title, "No URL has come to its end yet.")
    pages = share(log.pages, log.urls)
    lead = f"Of {log.urls:,} URLs, {pages} gave a document; 81.4 % did in Mercator's crawl."
    shown = top(log.outcomes, _OUTCOMES, rest="all others")
    _, drawing = bars(shown, whole=log.urls, what="outcome", of="URLs")
    table, _ = bars(dict(log.outcomes.most_common()), whole=log.urls, what="outcome", of="URLs")
    return Figure(name, title, lead, table, drawing)


def _given_up(crawl: Crawl) -> dict[str, int]:
    """URLs by the class of their error."""
    found: dict[str, int] = {}
    for outcome, count in crawl.log.outcomes.items():
        if not outcome.startswith(("http_2", "http_3")):
            name = next(
                (name for name, begins in _CLASSES.items() if outcome.startswith(begins)),
                _OTHER_ERRORS,
            )
            found[name] = found.get(name, 0) + count
    return found


def _errors(crawl: Crawl) -> Figure:
    name, title = "errors", "Errors by class"
    found = top(_given_up(crawl), len(_CLASSES) + 1, rest=_OTHER_ERRORS)
    count = sum(found.values())
    if not count:
        return _no(name, title, "No URL was given up.")
    lead = (
        f"{count:,} URLs, {share(count, crawl.log.urls)}, were given up after all tries, most of "
        f"them for: {next(iter(found))}."
    )
    return Figure(name, title, lead, *bars(found, whole=count, what="class", of="URLs"))


def _filters(crawl: Crawl) -> Figure:
    name, title = "filters", "Links refused by filters"
    refused = crawl.counts("urls/refused/")
    count = sum(refused.values())
    if not count:
        return _no(name, title, "No link was refused by a filter.")
    submitted = int(crawl.stats.get("links/submitted", 0))
    lead = (
        f"Filters refused {count:,} links; {submitted:,} passed and went to the duplicate URL "
        f"eliminator, which found {int(crawl.stats.get('seen/new', 0)):,} of them new."
    )
    shown = top(refused, _FILTERS, rest="all others")
    return Figure(name, title, lead, *bars(shown, whole=count, what="filter", of="links"))


# --- documents


def _types(crawl: Crawl) -> Figure:
    name, title, log = "types", "Content types", crawl.log
    if not log.pages:
        return _no(name, title)
    first, count = log.types.most_common(1)[0]
    lead = (
        f"{share(count, log.pages)} of the documents are {first}; content types in all: "
        f"{len(log.types):,}."
    )
    shown = top(log.types, _TYPES, rest=OTHER_TYPES)
    return Figure(name, title, lead, *bars(shown, whole=log.pages, what="type", of="documents"))


def _sizes(crawl: Crawl) -> Figure:
    name, title, log = "sizes", "Sizes of documents", crawl.log
    if not log.pages:
        return _no(name, title)
    counts = [0] * _SIZES
    for bits, count in log.sizes.items():
        counts[min(bits, _SIZES - 1)] += count
    labels = ["0", *(binary(1 << power) for power in range(_SIZES - 1))]
    middle = sum(counts[12:16])
    lead = (
        f"A bar is the documents of at least so many bytes, and fewer than the next. "
        f"{share(middle, log.pages)} have 2K to 32K; 67 % had in Mercator's crawl."
    )
    rows = [
        (label, count, share(count, log.pages)) for label, count in zip(labels, counts, strict=True)
    ]
    drawing = Columns(
        labels,
        [100 * count / log.pages for count in counts],
        "bytes as received, at least",
        "% of documents",
    )
    return Figure(name, title, lead, Table(("bytes", "documents", "share"), list(rows)), drawing)


def _depths(crawl: Crawl) -> Figure:
    name, title, log = "depth", "Depth", crawl.log
    if not log.pages:
        return _no(name, title)
    deepest = max(log.depths)
    last = min(deepest, _DEPTHS)
    counts = [0] * (last + 1)
    for depth, count in log.depths.items():
        counts[min(depth, last)] += count
    labels = [f"{depth}" for depth in range(last + 1)]
    if deepest > last:
        labels[-1] += "+"
    mean = sum(depth * count for depth, count in log.depths.items()) / log.pages
    lead = f"Links and redirects from a seed to the page: {mean:.1f} on average, at most {deepest}."
    rows = [
        (label, count, share(count, log.pages)) for label, count in zip(labels, counts, strict=True)
    ]
    drawing = Columns(labels, list(map(float, counts)), "links from a seed", "documents")
    return Figure(name, title, lead, Table(("depth", "documents", "share"), list(rows)), drawing)


# --- hosts

_LARGEST: Final = "The hosts with the most pages."
_SLOWEST: Final = "The hosts whose fetches took longest on average, of those with three or more."


def _per_server(servers: Servers) -> Iterable[Figure]:
    """Figures 9a and 9b."""
    for what, counts in (("pages", servers.with_pages), ("bytes", servers.with_bytes)):
        name, title = f"{what}-per-server", f"{what.capitalize()} per server"
        if not counts:
            yield _no(name, title)
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


def _by_tld(servers: Servers, crawl: Crawl) -> Iterable[Figure]:
    """Figures 10a and 10b."""
    hosts = ("hosts", servers.hosts_by_tld, servers.number)
    for what, counts, whole in (hosts, ("pages", servers.pages_by_tld, crawl.log.pages)):
        name, title = f"{what}-by-tld", f"{what.capitalize()} by top-level domain"
        if not whole:
            yield _no(name, title)
            continue
        found = {tld: count for tld, count in counts.items() if count}
        shown = top(found, _TLDS, rest="all others")
        first, count = next(iter(shown.items()))
        lead = (
            f"{share(count, whole)} of the {what} are in {first}; domains in all, if addresses are "
            f"one: {len(found):,}."
        )
        yield Figure(name, title, lead, *bars(shown, whole=whole, what="domain", of=what))


def _hosts(name: str, title: str, hosts: list[HostFigures], lead: str) -> Figure:
    if not hosts:
        return _no(name, title)
    rows = [(one.host, one.pages, size(one.bytes), one.fetches, pause(one.secs)) for one in hosts]
    head = ("host", "pages", "bytes", "fetches", "mean fetch")
    return Figure(name, title, lead, Table(head, list(rows)))


def _politeness(crawl: Crawl) -> Figure:
    name, title = "politeness", "Wait of a host and fetch time"
    waits = crawl.log.waits
    if not waits:
        return _no(name, title, "No host has been fetched from twice yet.")
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


# --- what is left, and the price


def _left(crawl: Crawl) -> list[Figure]:
    left = crawl.left
    if left is None:
        return [_no("left", "Where URLs wait", "There is no checkpoint that could be read.")]
    places = top({name: count for name, count in left.places.items() if count}, _FILTERS, rest="")
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
        figures.append(_no("left", "Where URLs wait", "No URL was waiting at the last checkpoint."))
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
            f"{_rate(pages, hours * 3600):,.1f}",
            UNKNOWN if cost is None else _per_million(cost, pages),
        )
        for who, pages, hours, cost in (("this crawl", crawl.log.pages, hours, own), *_OTHERS)
    ]
    table = Table(("crawl", "pages", "time", "pages a second", "a million pages"), list(rows))
    return Figure("cost", "Cost of a million pages", lead, table)
