"""What link extraction finds and what it costs, against Scrapy's LinkExtractor.

    python benchmarks/bench_extraction.py DIRECTORY... [--pages 200] [--all-pages] [--show 3]

Takes directories of HTML, for example Debian's documentation packages unpacked with ``dpkg -x``
(python3.11-doc, postgresql-doc-15, openjdk-17-doc, cppreference-doc-en-html, rust-doc), and from
each ``--pages`` pages evenly over the sorted list, cut at 5 MiB as in a crawl. Both
extractors get the same bytes under the same URL and look for the same tags and attributes; Scrapy's
refuses no extensions. The hand-made broken pages of ../broken_pages.py are always measured, too: as
they are (some 60 bytes each, so that what a call costs is all there is), and each in the middle of
a page of 20 kB with 40 links.

found
    Of the URLs that Scrapy's extractor finds, in the crawl's spelling and without fragment, each
    once per page: how many ours finds; and the share of those that lead to other documents. What
    ours misses is put into classes, each explained below; what is no http URL is counted apart.
more
    What ours finds beyond that: ``srcset`` is not in Scrapy's reach, for instance.
speed
    CPU time of Scrapy's (making the response, parsing, extracting) over ours (everything): both go
    through all pages of a directory in turns, three times, and the best of each counts.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag

from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor

sys.path.extend(map(str, Path(__file__).resolve().parents[1].glob("tests/rigs/*/")))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import broken_pages

from webcrawl.urls import normalize
from webcrawl.urls.extraction.html import extract
from webcrawl.urls.extraction.references import RELATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

# name: tags and attributes for Scrapy's, kinds for ours
SETS: dict[str, tuple[tuple[str, ...], tuple[str, ...], frozenset[str]]] = {
    "a, area": (("a", "area"), ("href",), frozenset({"a", "area"})),
    "frame, iframe": (("frame", "iframe"), ("src",), frozenset({"frame", "iframe"})),
    "link": (("link",), ("href",), frozenset({*RELATIONS, "link"})),
    "img": (("img",), ("src",), frozenset({"img"})),
    "script, embed, media": (
        ("script", "embed", "audio", "video", "source", "track"),
        ("src",),
        frozenset({"script", "embed", "audio", "video", "source", "track"}),
    ),
    "object": (("object",), ("data",), frozenset({"object"})),
    "form": (("form",), ("action",), frozenset({"form"})),
}
_ROUNDS = 3
ALL_TAGS = tuple(tag for tags, _, _ in SETS.values() for tag in tags)
ALL_KINDS = frozenset(kind for _, _, kinds in SETS.values() for kind in kinds)

EXPLAINED = {
    "own page": "a reference to the page itself by fragment: nothing that could be fetched anew",
    "no URL": "no http URL for the URL Standard: an empty host, a bad port, another scheme",
    "spelling": "found, but resolved by the URL Standard where urljoin and safe_url_string differ",
    "form query": "found without its query: what the form is filled with takes its place",
    "not in the tree": "no such element when the page is parsed as browsers do; or a form by POST",
}


class Measure:
    """What was found on the pages of one directory."""

    def __init__(self) -> None:
        self.scrapy = Counter[str]()
        self.both = Counter[str]()
        self.more = Counter[str]()
        self.classes: dict[str, Counter[str]] = defaultdict(Counter)
        self.examples: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.pages = 0
        self.bytes = 0
        self.seconds: dict[str, list[float]] = {"a, area": [0.0, 0.0], "all": [0.0, 0.0]}

    def page(self, url: str, body: bytes) -> None:
        self.pages += 1
        self.bytes += len(body)
        response = HtmlResponse(url, body=body)
        for name, (_, _, kinds) in SETS.items():
            theirs = {link.url for link in EXTRACTORS[name].extract_links(response)}
            ours = {link.url for link in _ours(body, url, kinds)}
            spelled: dict[str, str] = {}
            for link in theirs:
                target = normalize(link)
                if target is None:
                    self._missed(name, "no URL", link, url)
                else:
                    spelled[target] = link
            self.scrapy[name] += len(spelled)
            self.both[name] += len(ours & spelled.keys())
            self.more[name] += len(ours - spelled.keys())
            loose = {_loose(found) for found in ours}
            for target in spelled.keys() - ours:
                why = _why(name, target, url, ours=ours, loose=loose)
                self._missed(name, why, spelled[target], url)

    def time(self, pages: list[tuple[str, bytes]]) -> None:
        """Take the CPU time of both over *pages*."""
        self._time("a, area", pages, EXTRACTORS["a, area"], SETS["a, area"][2])
        self._time("all", pages, ALL_EXTRACTOR, ALL_KINDS)

    def _missed(self, name: str, why: str, link: str, url: str) -> None:
        self.classes[name][why] += 1
        self.examples[name, why].append(f"{link!r} on {url}")

    def _time(
        self, name: str, pages: list[tuple[str, bytes]], extractor: Any, kinds: frozenset[str]
    ) -> None:
        theirs = ours = float("inf")
        for _ in range(_ROUNDS):
            started = time.process_time()
            for url, body in pages:
                extractor.extract_links(HtmlResponse(url, body=body))
            between = time.process_time()
            for url, body in pages:
                _ours(body, url, kinds)
            ours = min(ours, time.process_time() - between)
            theirs = min(theirs, between - started)
        self.seconds[name][0] += theirs
        self.seconds[name][1] += ours

    def report(self, title: str, *, show: int) -> None:
        print(f"\n{title}: {self.pages} pages, {self.bytes / 1e6:.1f} MB")
        for name, total in self.scrapy.items():
            if not total and not self.more[name]:
                continue
            others = total - self.classes[name]["own page"]
            share = f"{100 * self.both[name] / others:.3f} %" if others else "-"
            print(
                f"  {name:22} {self.both[name]:>8} of {total:>8}  of other documents: {share:>9}"
                f"  more: {self.more[name]}"
            )
            for why, count in self.classes[name].most_common():
                print(f"    {count:>8} {why}")
                for example in self.examples[name, why][:show] if why != "own page" else ():
                    print(f"             {example[:150]}")
        for name, (theirs, ours) in self.seconds.items():
            print(
                f"  CPU, {name:8} Scrapy {1e3 * theirs / self.pages:7.2f} ms a page, "
                f"ours {1e3 * ours / self.pages:6.2f}: {theirs / ours:5.1f} times as fast"
            )

    def add(self, other: Measure) -> None:
        for mine, more in (
            (self.scrapy, other.scrapy), (self.both, other.both), (self.more, other.more),
        ):  # fmt: skip
            mine.update(more)
        for name, classes in other.classes.items():
            self.classes[name].update(classes)
        self.pages += other.pages
        self.bytes += other.bytes
        for name, (theirs, ours) in other.seconds.items():
            self.seconds[name][0] += theirs
            self.seconds[name][1] += ours


def _extractor(tags: tuple[str, ...], attributes: tuple[str, ...]) -> Any:
    return LinkExtractor(tags=tags, attrs=attributes, deny_extensions=())


EXTRACTORS = {name: _extractor(tags, attributes) for name, (tags, attributes, _) in SETS.items()}
ALL_EXTRACTOR = _extractor(ALL_TAGS, ("href", "src", "data", "action"))


def _ours(body: bytes, url: str, kinds: frozenset[str]) -> list[Any]:
    return extract(body, url=url, charset=None, limit=1_000_000, kinds=kinds).links


def _why(name: str, target: str, url: str, *, ours: set[str], loose: set[str]) -> str:
    if urldefrag(target)[0] == url:
        return "own page"
    if name == "form" and target.partition("?")[0] in {*ours, url}:
        return "form query"
    return "spelling" if _loose(target) in loose else "not in the tree"


def _loose(url: str) -> str:
    """What two spellings of a URL have in common."""
    return "".join(unquote(url, errors="ignore").replace("\\", "/").lower().split())


def _pages(directory: Path, number: int) -> Iterator[tuple[str, bytes]]:
    paths = sorted(
        path
        for path in directory.rglob("*")
        if path.suffix.lower() in (".html", ".htm", ".xhtml") and path.is_file()
    )
    step = max(1, len(paths) // number) if number else 1
    for path in paths[::step][: number or None]:
        url = normalize(f"http://docs.test/{path.relative_to(directory)}")
        assert url is not None
        yield url, path.read_bytes()[: 5 << 20]


def _broken_pages() -> None:
    measure, wholes = Measure(), Measure()
    shown = theirs = mine = 0
    for page, paths in broken_pages.PAGES.values():
        url = broken_pages.URL
        body = page.encode() if isinstance(page, str) else page
        measure.page(url, body)
        wholes.page(url, broken_pages.whole(page))
        expected = {normalize(path, url) for path in paths}
        links = EXTRACTORS["a, area"].extract_links(HtmlResponse(url, body=body))
        shown += len(expected)
        theirs += len(expected & {normalize(link.url) for link in links})
        mine += len(expected & {link.url for link in _ours(body, url, SETS["a, area"][2])})
    pages = [page for page, _ in broken_pages.PAGES.values()]
    bodies = [page.encode() if isinstance(page, str) else page for page in pages]
    measure.time([(broken_pages.URL, body) for body in bodies])
    measure.report("broken pages", show=99)
    print(f"  of the {shown} links that a browser shows, Scrapy's finds {theirs}, ours {mine}")
    wholes.time([(broken_pages.URL, broken_pages.whole(page)) for page in pages])
    wholes.report("broken pages of ordinary length", show=99)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare link extraction with Scrapy's.")
    parser.add_argument("directories", type=Path, nargs="*", metavar="DIRECTORY")
    parser.add_argument("--pages", type=int, default=200, help="of each directory")
    parser.add_argument("--all-pages", action="store_true", help="of each directory")
    parser.add_argument("--show", type=int, default=3, help="examples of each class")
    arguments = parser.parse_args()
    total = Measure()
    for directory in arguments.directories:
        measure = Measure()
        pages = list(_pages(directory, 0 if arguments.all_pages else arguments.pages))
        for url, body in pages:
            measure.page(url, body)
        measure.time(pages)
        measure.report(directory.name, show=arguments.show)
        total.add(measure)
    if len(arguments.directories) > 1:
        total.report("all directories", show=0)
    _broken_pages()
    print()
    for name, explanation in EXPLAINED.items():
        print(f"{name}: {explanation}")


if __name__ == "__main__":
    main()
