"""How well crawls project their own ends: twenty webs, each crawled to its end in virtual time.

    PYTHONPATH=. python benchmarks/bench_projection.py [SVG]
    PYTHONPATH=. python benchmarks/bench_projection.py - WEB ...

A range is right if the true end lies in it. Judged are those given after the first tenth of the
time; "none" is the share of it with no end in sight. The width is what the range spans, as a share
of the time that the crawl takes. Jumps are the times in an hour that the end came into sight or out
of sight, or its latest time moved by more than half of the time that was left. CPU: half a minute
for each web.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

sys.path.extend(map(str, Path(__file__).parents[1].glob("tests/rigs/*/")))

from stats_lines import EXTENSION, NAME
from virtual_crawl import VirtualCrawl

from webcrawl.jobs.report.chart import Chart
from webcrawl.jobs.report.figures import Figure
from webcrawl.jobs.report.page import render
from webcrawl.sim.loop import BEGAN

if TYPE_CHECKING:
    from collections.abc import Sequence

SEED = 2
DAYS = 6.0
# Parts of a crawl's time in the drawing.
POINTS = 40
USUAL = {"POLITENESS_MIN_DELAY": 3, "POLITENESS_MAX_DELAY": 120, "REPUTATION_BASE_PAGES": 0}
ROUNDS = {"REPUTATION_BASE_PAGES": 4, "REPUTATION_ROUNDS": 12}
TROUBLED = {"name": "mercator", "large_files": 0.0}


def slow(secs: float) -> dict[str, float]:
    return {"POLITENESS_MIN_DELAY": secs}


def web(hosts: int, mean: int, most: int, **others: Any) -> dict[str, Any]:
    return {"hosts": hosts, "mean_pages": mean, "max_pages": most, **others}


#: The webs, and settings.
WEBS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one host": (web(1, 700, 700), {}),
    "three hosts": (web(3, 250, 500), {}),
    "long tail": (web(12, 80, 500), slow(20)),
    "long tail, rounds": (web(8, 120, 600), ROUNDS),
    "many small": (web(200, 6, 120), slow(5)),
    "many alike": (web(60, 20, 25), slow(30)),
    "found late": (web(200, 6, 100, seed_share=0.1), slow(15)),
    "by domain, 70 s": (web(40, 25, 200), {"POLITENESS_PROFILE": "nielsen"} | slow(70)),
    "2 workers": (web(120, 10, 60), {"CONCURRENT_REQUESTS": 2}),
    "1 contact/s": (web(120, 8, 60), {"CONTACTS_MAX": 1}),
    "Crawl-delay 120": (web(40, 12, 200, crawl_delays=0.8, max_crawl_delay=120), {}),
    "Crawl-delay 240": (web(60, 8, 60, crawl_delays=1.0, max_crawl_delay=240), ROUNDS),
    "host budget": (web(30, 50, 600), {"BUDGET_HOST_PAGES": 100} | slow(10)),
    "domain budget": (web(20, 60, 500), {"BUDGET_DOMAIN_PAGES": 150} | slow(10)),
    "endless, budget": (web(16, 20, 80, endless=0.3), {"BUDGET_HOST_PAGES": 200}),
    "endless, rounds": (web(20, 10, 60, endless=0.1), ROUNDS | {"REPUTATION_ROUNDS": 4}),
    "slow hosts": (web(60, 15, 200, slow_secs=2.0, endless=0.0, **TROUBLED), {}),
    "troubled": (web(100, 10, 100, **TROUBLED), ROUNDS | slow(10) | {"REPUTATION_ROUNDS": 3}),
    "large pages": (web(20, 40, 300, profile="today"), slow(10)),
    "shallow": (web(25, 40, 400), {"URL_MAX_DEPTH": 3} | slow(8)),
}


class Said(NamedTuple):
    """What a crawl said of its end, as shares of its time: when, from when to when; 0 for none."""

    at: float
    earliest: float
    latest: float


class Judged(NamedTuple):
    """Shares of what was said after the first tenth: right, too early, too late; the range's width
    in the median; and of the time, how much there was no end in sight. *jumps* are per hour."""

    right: float
    early: float
    late: float
    width: float
    none: float
    jumps: float


def said(directory: Path, name: str, seed: int = SEED) -> tuple[list[Said], float, int]:
    """What the crawl of the web called *name* said, its time in seconds and its pages."""
    directory.mkdir()
    world, settings = WEBS[name]
    crawl = VirtualCrawl(directory, **{"seed": seed, **world})
    # The time is virtual, but the disk is that of this machine.
    extensions = f'{{"webcrawl.extensions.disk_guard.DiskGuard": null, "{EXTENSION}": 0}}'
    intervals = {"STATISTICS_INTERVAL_SECS": 10, "STATS_FILE_INTERVAL_SECS": 30}
    told = crawl.run(DAYS, EXTENSIONS=extensions, **USUAL | intervals | settings)
    found = []
    for line in map(msgspec.json.decode, (crawl.job / NAME).read_bytes().splitlines()):
        ends = (line.get(f"projection/{one}", 0.0) for one in ("earliest", "latest"))
        times = [max(at - BEGAN, 0.0) / told.ended for at in (line["at"], *ends)]
        found.append(Said(*times))
    stats = crawl.stats()
    assert stats["finish_reason"] == "finished", name
    return found, told.ended, stats["item_scraped_count"]


def jumps(found: Sequence[Said]) -> int:
    """How often two subsequent ends differ much; 0 as the latest time means none in sight."""
    return sum(
        bool(before.latest) != bool(after.latest)
        or abs(after.latest - before.latest) > 0.5 * max(before.latest - before.at, 0.0) > 0
        for before, after in pairwise(found)
    )


def judged(found: Sequence[Said], secs: float) -> Judged:
    """What became of what was said by a crawl of *secs*."""
    late = [one for one in found if one.at >= 0.1]
    told = [one for one in late if one.latest]
    count = max(len(told), 1)
    return Judged(
        sum(one.earliest <= 1 <= one.latest for one in told) / count,
        sum(one.latest < 1 for one in told) / count,
        sum(one.earliest > 1 for one in told) / count,
        median([one.latest - one.earliest for one in told] or [0.0]),
        1 - len(told) / max(len(late), 1),
        jumps(late) / (0.9 * secs / 3600),
    )


def in_words(numbers: Sequence[float]) -> str:
    """The columns of *numbers*, of which the last one is no share."""
    return " | ".join([*(f"{one:.0%}" for one in numbers[:-1]), f"{numbers[-1]:.1f}"])


def draw(crawls: dict[str, list[Said]]) -> str:
    """The ranges of all crawls: their medians, and the widest."""
    bins: list[list[Said]] = [[] for _ in range(POINTS)]
    for one in (one for found in crawls.values() for one in found if one.latest):
        bins[min(int(one.at * POINTS), POINTS - 1)].append(one)
    filled = [place for place, some in enumerate(bins) if len(some) >= len(crawls) / 2]
    xs = [100 * (place + 0.5) / POINTS for place in filled]
    series = {
        name: (xs, [among(one[ends] for one in bins[place]) for place in filled])
        for name, ends, among in (
            ("earliest, median", 1, median),
            ("latest, median", 2, median),
            ("earliest of all", 1, min),
            ("latest of all", 2, max),
        )
    }
    x, y = "% of the crawl's time passed", "projected end / true end"
    chart = Chart(series, x=x, y=y)
    figure = Figure("projection", "Projected ends", "", chart=chart)
    return render("drawing.svg", figure=figure)


def main(svg: str = "-", *names: str) -> None:
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(2) as pool:
        crawls = {
            name: pool.submit(said, Path(scratch, str(number)), name)
            for number, name in enumerate(names or WEBS)
        }
        print(
            "| web | pages | hours | in range | ends later | ends earlier | width | none | jumps |"
        )
        print(f"|{'---|' * 9}")
        results = []
        for name, crawl in crawls.items():
            found, secs, pages = crawl.result()
            results.append(judged(found, secs))
            shares = in_words(results[-1])
            print(f"| {name} | {pages:,} | {secs / 3600:.1f} | {shares} |", flush=True)
        means = [sum(column) / len(results) for column in zip(*results, strict=True)]
        print(f"| mean | | | {in_words(means)} |")
        if svg != "-":
            Path(svg).write_text(draw({name: crawl.result()[0] for name, crawl in crawls.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
