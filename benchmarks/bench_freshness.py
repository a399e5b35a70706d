"""How fresh policies of visits keep what was crawled, beside the best that can be: in virtual time.

    PYTHONPATH=. python benchmarks/bench_freshness.py [DAYS [SVG]]
    PYTHONPATH=. python benchmarks/bench_freshness.py DAYS --hints

240 pages on six hosts change at known rates, and are visited for 90 days. A page is fresh while it
has not changed since its last request in the servers' record, and has an age from its next change
on. The optimum has the visits of each host that the crawl made after a third of the time, and knows
the rates: each page is visited at a fixed interval (Cho and Garcia-Molina 2003), so that one visit
more of any page is worth the same. Those of all hosts together, which no politeness binds, are the
second optimum; Azar and others (2018) have these at random times. CPU: 8 seconds for ten days.

With --hints Greedy alone, without hints and with those of sitemaps that tell 70 % of the changes
and are right in 90 %; requests are those of sitemaps, too.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

sys.path.extend(map(str, Path(__file__).parents[1].glob("tests/rigs/*/")))

from virtual_crawl import VirtualCrawl
from web_truth import fetchable_urls

from webcrawl.jobs.report.chart import Chart
from webcrawl.jobs.report.figures import Figure
from webcrawl.jobs.report.page import render
from webcrawl.sim.loop import BEGAN
from webcrawl.simweb.changes import change_rate, changes
from webcrawl.simweb.pages import find_page

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DAY = 86_400.0
AGENT = "webcrawl/0.4"
# REVISIT_FIRST_SECS, so that all make as many visits, however late each of them is.
POLICIES = {"Adaptive": "72h", "Uniform": "71.5h", "Greedy": "67h"}
TOLD = {"lastmod_recall": 0.7, "lastmod_precision": 0.9}
HINTS = {"without": ("48h", {}), "with hints": ("110h", TOLD)}
WEB = {"name": "bench", "hosts": 6, "mean_pages": 40, "max_pages": 120, "changes_per_day": 0.15}
HEAD = (
    *("policy", "requests", "fresh", "after a third", "optimum by host", "in all", "at random"),
    *("of optimum by host", "age, days"),
)


class Page(NamedTuple):
    """What became of one page: days since the crawl began, and its rate of changes in a day."""

    host: str
    rate: float
    fetched: list[float]
    changed: list[float]

    def stale(self, end: float) -> list[tuple[float, float]]:
        """From when to when the copy was not the current one."""
        times = [0.0, *(at for at in self.fetched if at < end), end]
        spans = [(0.0, times[1])]  # there is none yet
        for fetched, after in pairwise(times[1:]):
            first = min((at for at in self.changed if fetched < at < after), default=after)
            spans.append((first, after))
        return spans

    def visits(self, begin: float) -> int:
        return sum(at >= begin for at in self.fetched)


def crawled(
    directory: Path, policy: str, days: float, first: str, **web: float
) -> tuple[list[Page], int]:
    """What became of the pages in *days* of *policy*, and how many requests there were but for
    robots.txt."""
    directory.mkdir()
    crawl = VirtualCrawl(directory, **WEB, **web)
    crawl.run(
        days,
        REVISIT=1,
        REVISIT_POLICY=f"webcrawl.revisit.policies.{policy}",
        REVISIT_FIRST_SECS=first,
        REVISIT_MIN_SECS="6h",
    )
    fetched = defaultdict(list)
    for hit in crawl.hits():
        fetched[hit.url].append((hit.start - BEGAN) / DAY)
    pages = []
    for url in sorted(fetchable_urls(crawl.world, AGENT)):
        parts = urlsplit(url)
        host = crawl.world.find(parts.hostname)
        found = find_page(crawl.world, host, f"{parts.path}?{parts.query}".rstrip("?"))
        assert found is not None
        times = changes(crawl.world, found, BEGAN, BEGAN + days * DAY)
        rate = change_rate(crawl.world, found) * DAY
        pages.append(Page(host.name, rate, fetched[url], [(at - BEGAN) / DAY for at in times]))
    return pages, sum(not hit.target.startswith("/robots") for hit in crawl.hits())


def freshness(pages: Sequence[Page], begin: float, end: float) -> tuple[float, float]:
    """The share of the time that pages were fresh, and their age in days on average."""
    stale = age = 0.0
    for page in pages:
        for first, last in page.stale(end):
            low = max(first, begin)
            if last > low:
                stale += last - low
                age += ((last - first) ** 2 - (low - first) ** 2) / 2
    whole = (end - begin) * len(pages)
    return 1 - stale / whole, age / whole


def fresh_at(rate: float, interval: float) -> float:
    """The share of time that a page is fresh if it is visited every *interval* days."""
    return -math.expm1(-rate * interval) / (rate * interval) if rate else 1.0


def interval_at(rate: float, worth: float) -> float:
    """The interval at which one visit more is worth so many days of freshness; inf if none is."""
    if rate * worth >= 1:
        return math.inf
    low, high = 0.0, 60 / rate
    for _ in range(60):
        middle = (low + high) / 2
        gained = (1 - math.exp(-rate * middle) * (1 + rate * middle)) / rate
        low, high = (middle, high) if gained < worth else (low, middle)
    return high


def optimum(rates: Iterable[float], visits: float) -> float:
    """The pages that are fresh, on average, of those of *rates*, by *visits* a day."""
    moving = [rate for rate in rates if rate]
    low, high = 1e-9, 1e9
    for _ in range(80):
        worth = math.sqrt(low * high)
        used = sum(1 / interval_at(rate, worth) for rate in moving)
        low, high = (worth, high) if used > visits else (low, worth)
    times = ((rate, interval_at(rate, high)) for rate in moving)
    return sum(fresh_at(rate, one) for rate, one in times if one < math.inf)


def at_random(rates: Iterable[float], visits: float) -> float:
    """The same for visits at random times (Azar and others 2018)."""
    moving = [rate for rate in rates if rate]
    low, high = 1e-9, 1e9
    for _ in range(80):
        worth = math.sqrt(low * high)
        often = [max(math.sqrt(rate / worth) - rate, 0.0) for rate in moving]
        low, high = (worth, high) if sum(often) > visits else (low, worth)
    return sum(one / (one + rate) for one, rate in zip(often, moving, strict=True))


def best(pages: Sequence[Page], begin: float, end: float) -> list[float]:
    """The optima by host, of all hosts together, and that at random times, as shares."""
    hosts = defaultdict(list)
    for page in pages:
        hosts[page.host].append(page)

    def used(some: Sequence[Page]) -> tuple[list[float], float]:
        return [one.rate for one in some], sum(one.visits(begin) for one in some) / (end - begin)

    by_host = sum(optimum(*used(some)) for some in hosts.values())
    steady = sum(not page.rate for page in pages)
    found = (by_host, optimum(*used(pages)), at_random(*used(pages)))
    return [(steady + one) / len(pages) for one in found]


def row(pages: Sequence[Page], days: float) -> tuple[object, ...]:
    """What the table says of a crawl, below ``HEAD``."""
    begin = days / 3
    fresh, age = freshness(pages, begin, days)
    bounds = best(pages, begin, days)
    whole = freshness(pages, 0, days)[0]
    shares = [f"{100 * one:.1f} %" for one in (whole, fresh, *bounds, fresh / bounds[0])]
    return f"{sum(page.visits(0) for page in pages):,}", *shares, f"{age:.2f}"


def draw(found: dict[str, list[Page]], days: float) -> str:
    """The pages that are fresh, in each thirtieth of the time."""
    width = days / 30
    points = [width * at for at in range(30)]
    series = {
        policy: (points, [100 * freshness(pages, at, at + width)[0] for at in points])
        for policy, pages in found.items()
    }
    bound = 100 * best(found["Greedy"], days / 3, days)[0]
    series["optimum by host"] = (points, [bound] * len(points))
    title, y = "Pages that are fresh", "% of pages that are fresh"
    figure = Figure("freshness", title, "", chart=Chart(series, x="days", y=y))
    return render("drawing.svg", figure=figure)


def judge_hints(days: float) -> None:
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(2) as pool:
        crawls = {
            name: pool.submit(crawled, Path(scratch, name), "Greedy", days, first, **web)
            for name, (first, web) in HINTS.items()
        }
        for name, crawl in crawls.items():
            pages, requests = crawl.result()
            shares = [freshness(pages, begin, days)[0] for begin in (0, days / 3)]
            print(f"{name}: {requests:,} requests, {shares[0]:.1%} fresh, then {shares[1]:.1%}")


def main(days: float, svg: Path | None = None) -> None:
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(2) as pool:
        crawls = [
            pool.submit(crawled, Path(scratch, policy), policy, days, first)
            for policy, first in POLICIES.items()
        ]
        found = {one: crawl.result()[0] for one, crawl in zip(POLICIES, crawls, strict=True)}
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    for policy, pages in found.items():
        print(f"| {' | '.join(map(str, (policy, *row(pages, days))))} |")
    if svg is not None:
        svg.write_text(draw(found, days))


if __name__ == "__main__":
    if sys.argv[2:] == ["--hints"]:
        judge_hints(float(sys.argv[1]))
    else:
        main(float([*sys.argv, "90"][1]), *map(Path, sys.argv[2:3]))
