"""Figures of URLs, links and documents by kind: Mercator's figures 6 to 8, and depth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from webcrawl.jobs.report.figures import Columns, Figure, Table, bars, binary, empty, share

if TYPE_CHECKING:
    from webcrawl.jobs.report.sources import Crawl

# Mercator's histogram: 0, 1, 2, 4, ... 1M.
_SIZES: Final = 22
_DEPTHS: Final = 20
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


def outcomes(crawl: Crawl) -> Figure:
    """Figure 6."""
    name, title, log = "outcomes", "Outcomes of URLs", crawl.log
    if not log.urls:
        return empty(name, title, "No URL has come to its end yet.")
    pages = share(log.pages, log.urls)
    lead = f"Of {log.urls:,} URLs, {pages} gave a document; 81.4 % did in Mercator's crawl."
    found = bars(log.outcomes, whole=log.urls, what="outcome", of="URLs")
    return Figure(name, title, lead, *found)


def given_up(crawl: Crawl) -> dict[str, int]:
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


def errors(crawl: Crawl) -> Figure:
    """Figure 6 without what went well, by class."""
    name, title = "errors", "Errors by class"
    found = given_up(crawl)
    count = sum(found.values())
    if not count:
        return empty(name, title, "No URL was given up.")
    lead = (
        f"{count:,} URLs, {share(count, crawl.log.urls)}, were given up after all tries, most of "
        f"them for: {max(found, key=found.__getitem__)}."
    )
    return Figure(name, title, lead, *bars(found, whole=count, what="class", of="URLs"))


def filters(crawl: Crawl) -> Figure:
    """Links that did not become URLs."""
    name, title = "filters", "Links refused by filters"
    refused = crawl.counts("urls/refused/")
    count = sum(refused.values())
    if not count:
        return empty(name, title, "No link was refused by a filter.")
    submitted = int(crawl.stats.get("links/submitted", 0))
    lead = (
        f"Filters refused {count:,} links; {submitted:,} passed and went to the duplicate URL "
        f"eliminator, which found {int(crawl.stats.get('seen/new', 0)):,} of them new."
    )
    return Figure(name, title, lead, *bars(refused, whole=count, what="filter", of="links"))


def types(crawl: Crawl) -> Figure:
    """Figure 7."""
    name, title, log = "types", "Content types", crawl.log
    if not log.pages:
        return empty(name, title)
    first, count = log.types.most_common(1)[0]
    lead = (
        f"{share(count, log.pages)} of the documents are {first}; content types in all: "
        f"{len(log.types):,}."
    )
    return Figure(name, title, lead, *bars(log.types, whole=log.pages, what="type", of="documents"))


def sizes(crawl: Crawl) -> Figure:
    """Figure 8."""
    name, title, log = "sizes", "Sizes of documents", crawl.log
    if not log.pages:
        return empty(name, title)
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


def contents(crawl: Crawl) -> list[Figure]:
    """Tags and formats of images, if their modules were on."""
    found = []
    for name, title, what, counts in (
        ("tags", "Tags of HTML", "tag", crawl.tags),
        ("images", "Formats of images", "format", crawl.images),
    ):
        count = sum(counts.values())
        if count:
            lead = f"{count:,} in the new documents; most of them: {next(iter(counts))}."
            found.append(Figure(name, title, lead, *bars(counts, whole=count, what=what, of=name)))
    return found


def depths(crawl: Crawl) -> Figure:
    """Documents by their distance from a seed."""
    name, title, log = "depth", "Depth", crawl.log
    if not log.pages:
        return empty(name, title)
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
