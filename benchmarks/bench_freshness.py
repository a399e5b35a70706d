"""How fresh policies of visits keep what was crawled, by budget, beside the best that can be.

    PYTHONPATH=. python benchmarks/bench_freshness.py [SEEDS [SVG]]
    PYTHONPATH=. python benchmarks/bench_freshness.py SEEDS --crawls
    PYTHONPATH=. python benchmarks/bench_freshness.py DAYS --hints

For each seed, 286 pages on eight hosts change for 90 days, at the rates that Cho and Garcia-Molina
published, and are visited by a policy that has a tenth, a third or all of one visit a day to each
page. The policy and the rules of its queue are the product's own; only the fetch is simulated. The
optimum knows the rates, and visits each page at a fixed interval (Cho and Garcia-Molina 2003), so
that one visit more of any page is worth the same. It has as many visits to each host as equal
visits make. Each line is the mean of all seeds. A page is fresh while it has not changed since its
last visit, and has an age from its next change on. CPU: 4 seconds for a seed.

With --crawls whole crawls in virtual time, next to the same pages as simulated: 3 minutes a seed.

With --hints Greedy alone, without hints and with those of sitemaps that tell 70 % of the changes
and are right in 90 %; requests are those of sitemaps, too.
"""

from __future__ import annotations

import heapq
import math
import random
import sys
import tempfile
from bisect import bisect
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit
from zlib import crc32

sys.path.extend(map(str, Path(__file__).parents[1].glob("tests/rigs/*/")))

from virtual_crawl import VirtualCrawl
from web_truth import fetchable_urls

from webcrawl.frontier import Entry
from webcrawl.frontier.due import due_hour
from webcrawl.jobs.report.chart import Chart
from webcrawl.jobs.report.figures import Figure
from webcrawl.jobs.report.page import render
from webcrawl.revisit.history import CHANGED, History, history_of
from webcrawl.revisit.policies import Greedy, Uniform, visit_value
from webcrawl.revisit.visits import Visits
from webcrawl.signals import UNCHANGED
from webcrawl.sim.loop import BEGAN
from webcrawl.simweb.changes import change_rate, changes
from webcrawl.simweb.pages import find_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

DAY = 86_400.0
DAYS = 90.0
# Those of a whole crawl: its rig keeps all files open that were ever synced.
CRAWL_DAYS = 60.0
AGENT = "webcrawl/0.5"
EQUAL = "equal visits"
# The days between two visits of a page, by the share of one visit a day.
BUDGETS = {10: 10.0, 30: 10 / 3, 100: 1.0}
# REVISIT_MIN_SECS, also of the optimum, and the pause of a host, in days.
SHORTEST = 0.25
PAUSE = 15 / DAY
# The pages of each host: an assumption.
SIZES = (3, 3, 10, 10, 30, 30, 100, 100)
# The shares of pages by the days between their changes: those with which Cho and Garcia-Molina
# ("Effective page refresh policies", 2003) predict freshness, from their crawl of 1999. Quoted from
# memory, and checked: ``best_intervals`` for a visit a month gives their 62 % and 4.3 days.
PUBLISHED = {1.0: 0.23, 7.0: 0.15, 30.0: 0.16, 120.0: 0.16, 365.0: 0.30}
# An assumption: half of the first group changes each hour. That many pages that people read do is
# said by Adar and others (2009).
HOURLY = {1 / 24: 0.115, **PUBLISHED, 1.0: 0.115}
RATES = {"as published": PUBLISHED, "half of the daily ones hourly": HOURLY}
TOLD = {"lastmod_recall": 0.7, "lastmod_precision": 0.9}
HINTS = {"without": ("48h", {}), "with hints": ("110h", TOLD)}
WEB = {"name": "bench", "hosts": 6, "mean_pages": 40, "max_pages": 120, "changes_per_day": 0.15}
HEAD = ("budget", "policy", "visits", "fresh", "age, days", "changes seen", "seeds worse")


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

    def seen(self) -> int:
        """How many visits found a change."""
        counts = [bisect(self.changed, at) for at in self.fetched]
        return sum(before < after for before, after in pairwise(counts))


class Measures(NamedTuple):
    """What a policy makes of pages: its visits, their shares that are fresh and whose changes are
    seen, and their age in days."""

    visits: float
    fresh: float
    age: float
    seen: float

    def cells(self) -> tuple[str, ...]:
        return (
            f"{self.visits:,.0f}",
            f"{100 * self.fresh:.1f} %",
            f"{self.age:.3f}",
            f"{100 * self.seen:.1f} %",
        )

    def worse(self, other: Measures) -> tuple[bool, ...]:
        """Whether it is worse than *other* in freshness, age and changes seen."""
        return self.fresh < other.fresh, self.age > other.age, self.seen < other.seen


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
        CHECKPOINT_INTERVAL_SECS=5 * DAY,
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


def measures(pages: Sequence[Page], days: float) -> Measures:
    visits = sum(len(page.fetched) for page in pages)
    happened = sum(len(page.changed) for page in pages)
    return Measures(
        visits,
        *freshness(pages, 0, days),
        sum(page.seen() for page in pages) / happened,
    )


def pages_of(seed: int, rates: Mapping[float, float]) -> list[Page]:
    """The pages of the hosts, and when they change. *rates*: shares by days between changes."""
    rng = random.Random(seed)
    pages = []
    for number, size in enumerate(SIZES):
        for every in rng.choices([*rates], [*rates.values()], k=size):
            times = []
            at = rng.expovariate(1 / every)
            while at < DAYS:
                times.append(at)
                at += rng.expovariate(1 / every)
            pages.append(Page(f"h{number}.test", 1 / every, [], times))
    return pages


def simulated(
    pages: Sequence[Page], policy: type[Uniform], every: float, days: float
) -> list[Page]:
    """The *pages* with the visits that *policy* makes in *days*, of *every* days at first."""
    secs = every * DAY
    visits = Visits(policy=policy(secs), first=secs, shortest=SHORTEST * DAY, longest=90 * DAY)
    free: dict[str, float] = defaultdict(float)
    visited = [page._replace(fetched=[]) for page in pages]
    due = [
        (0.0, number, Entry(f"http://{page.host}/{number}", page.host))
        for number, page in enumerate(visited)
    ]
    while due and due[0][0] < days:
        from_, number, entry = heapq.heappop(due)
        page = visited[number]
        at = max(from_, free[page.host])
        free[page.host] = at + PAUSE
        found = ""
        if page.fetched:
            is_same = bisect(page.changed, at) == bisect(page.changed, page.fetched[-1])
            found = UNCHANGED if is_same else CHANGED
        page.fetched.append(at)
        history = history_of(entry) or History(content=1, stored_at=1.0)
        now = BEGAN + at * DAY
        later = visits.next(entry, history, found, outcome="http_200", at=now)
        assert later is not None
        entry, when = later
        draw = crc32(entry.url.encode() + entry.history)
        hour = due_hour(max(when, now + 1), now, draw)
        heapq.heappush(due, ((hour * 3600 - BEGAN) / DAY, number, entry))
    return visited


def age_value(rate: float, days: float) -> float:
    """What a visit after *days* saves of age, for each visit a day."""
    return days**2 / 2 - visit_value(rate, days) / rate


def interval_at(
    rate: float, worth: float, value: Callable[[float, float], float], longest: float
) -> float:
    """The interval at which one visit more is worth so much by *value*; inf if none is."""
    if value(rate, longest) < worth:
        return math.inf
    low, high = SHORTEST, longest
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if value(rate, middle) < worth else (low, middle)
    return high


def best_intervals(
    rates: Iterable[float], visits: float, value: Callable[[float, float], float]
) -> dict[float, float]:
    """The best interval of each of *rates*, by *visits* a day to all of them."""
    counts: dict[float, int] = defaultdict(int)
    for rate in rates:
        counts[rate] += 1
    low, high = 1e-9, 1e9
    for _ in range(60):
        worth = math.sqrt(low * high)
        times = {rate: interval_at(rate, worth, value, 10 * DAYS) for rate in counts}
        used = sum(count / times[rate] for rate, count in counts.items())
        low, high = (worth, high) if used > visits else (low, worth)
    return {rate: interval_at(rate, high, value, 10 * DAYS) for rate in counts}


def best(pages: Sequence[Page], value: Callable[[float, float], float]) -> list[Page]:
    """The *pages*, visited as is best by *value* with as many visits to each host as they had."""
    rng = random.Random(1)
    hosts = defaultdict(list)
    for page in pages:
        hosts[page.host].append(page)
    visited = []
    for some in hosts.values():
        visits = sum(len(page.fetched) - 1 for page in some) / DAYS
        times = best_intervals((page.rate for page in some), visits, value)
        for page in some:
            fetched = [0.0]
            at = min(times[page.rate], 10 * DAYS) * rng.random()
            while at < DAYS:
                fetched.append(at)
                at += times[page.rate]
            visited.append(page._replace(fetched=fetched))
    return visited


def judge(seeds: int, rates: Mapping[float, float]) -> dict[tuple[int, str], list[Measures]]:
    """The measures of each seed, by budget and policy."""
    found = defaultdict(list)
    for seed in range(seeds):
        pages = pages_of(seed, rates)
        for budget, every in BUDGETS.items():
            equal = simulated(pages, Uniform, every, DAYS)
            made = {
                EQUAL: equal,
                "Greedy": simulated(pages, Greedy, every, DAYS),
                "optimum for freshness": best(equal, visit_value),
                "optimum for age": best(equal, age_value),
            }
            for name, visited in made.items():
                found[budget, name].append(measures(visited, DAYS))
    return found


def average(of_seeds: Iterable[Measures]) -> Measures:
    return Measures(*map(mean, zip(*of_seeds, strict=True)))


def table(found: Mapping[tuple[int, str], Sequence[Measures]]) -> str:
    """One line for each budget and policy. The last column counts the seeds in which it is worse
    than equal visits in freshness, age and changes seen."""
    lines = [f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    for (budget, name), of_seeds in found.items():
        equal = found[budget, EQUAL]
        worse = [one.worse(other) for one, other in zip(of_seeds, equal, strict=True)]
        counts = ", ".join(str(sum(column)) for column in zip(*worse, strict=True))
        cells = (f"{budget} %", name, *average(of_seeds).cells(), counts)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(found: Mapping[tuple[int, str], Sequence[Measures]]) -> str:
    """The pages that are not fresh, by budget."""
    names = (EQUAL, "Greedy", "optimum for freshness")
    series = {
        name: ([*BUDGETS], [100 - 100 * average(found[budget, name]).fresh for budget in BUDGETS])
        for name in names
    }
    title, y = "Pages that are stale", "% of pages that are stale"
    x = "budget, % of one visit a day to each page"
    figure = Figure("freshness", title, "", chart=Chart(series, x=x, y=y))
    return render("drawing.svg", figure=figure)


def judge_crawls(seeds: int) -> None:
    """Whole crawls, and the same pages as simulated."""
    print("| seed | budget | policy | | visits | fresh | age, days | changes seen |")
    print(f"|{'---|' * 8}")
    for seed in range(seeds):
        for budget, every in BUDGETS.items():
            for policy in (Uniform, Greedy):
                name = policy.__name__
                with tempfile.TemporaryDirectory() as scratch:
                    first = f"{24 * every}h"
                    pages, _ = crawled(Path(scratch, "job"), name, CRAWL_DAYS, first, seed=seed + 1)
                for kind, some in (
                    ("crawled", pages),
                    ("simulated", simulated(pages, policy, every, CRAWL_DAYS)),
                ):
                    cells = (
                        seed + 1,
                        f"{budget} %",
                        name,
                        kind,
                        *measures(some, CRAWL_DAYS).cells(),
                    )
                    print(f"| {' | '.join(map(str, cells))} |", flush=True)


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


def main(seeds: int, svg: Path | None = None) -> None:
    for name, rates in RATES.items():
        found = judge(seeds, rates)
        print(f"Rates {name}, {seeds} seeds:\n\n{table(found)}\n", flush=True)
        if svg is not None and rates is PUBLISHED:
            svg.write_text(draw(found))


if __name__ == "__main__":
    if sys.argv[2:] == ["--hints"]:
        judge_hints(float(sys.argv[1]))
    elif sys.argv[2:] == ["--crawls"]:
        judge_crawls(int(sys.argv[1]))
    else:
        main(int([*sys.argv, "20"][1]), *map(Path, sys.argv[2:3]))
