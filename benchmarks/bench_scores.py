"""How soon orders of URLs find the good pages of a web with text of known quality, in virtual time.

    PYTHONPATH=. python benchmarks/bench_scores.py [SVG [HOSTS PAGES]]

The web is that of benchmarks/quality_web.py: 400 hosts with 15 pages each, or as many as given. The
oracle knows which pages are good. In-degrees are those of the whole web, as from an earlier crawl.
Contacts are all requests, those for robots.txt included. CPU: half a minute for each order.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from quality_web import QualityWeb

from webcrawl.jobs.report.chart import Chart
from webcrawl.jobs.report.figures import Figure
from webcrawl.jobs.report.page import render

if TYPE_CHECKING:
    from collections.abc import Sequence

ORDERS = {
    "oracle": "quality_web.Oracle",
    "linking page's score": "webcrawl.frontier.prioritizer.ScorePrioritizer",
    "in-degree": "webcrawl.frontier.prioritizer.RankPrioritizer",
    "breadth first": "webcrawl.frontier.prioritizer.DepthPrioritizer",
}
JUDGED = (10, 20, 40)


def found(web: QualityWeb, requests: Sequence[str]) -> list[float]:
    """The good pages found, in %, after each hundredth of the *requests*."""
    is_good = [url in web.pages and web.pages[url].is_good for url in requests]
    sums = [0, *accumulate(is_good)]
    return [100 * sums[len(requests) * part // 100] / sums[-1] for part in range(101)]


def linked(web: QualityWeb) -> tuple[float, float]:
    """The share of good pages among the links of good pages, and among those of others."""
    ends: dict[bool, list[bool]] = {True: [], False: []}
    for url, links in web.links.items():
        ends[web.pages[url].is_good] += [web.pages[link].is_good for link in links]
    return mean(ends[True]), mean(ends[False])


def main(svg: str = "", hosts: str = "400", pages: str = "15") -> None:
    web = QualityWeb(int(hosts), int(pages))
    good = mean(page.is_good for page in web.pages.values())
    of_good, of_others = linked(web)
    print(f"{good:.1%} of the pages are good, {of_good:.1%} of those that good pages link to,")
    print(f"{of_others:.1%} of those that other pages link to")
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(2) as pool:
        ranks = Path(scratch, "ranks.csv")
        rows = (f"{rank},{url}\n" for rank, url in enumerate(web.by_in_degree(), 1))
        ranks.write_text("".join(rows))
        crawls = {}
        for number, (name, prioritizer) in enumerate(ORDERS.items()):
            settings = {"FRONTIER_PRIORITIZER": prioritizer}
            if name == "in-degree":
                settings["RANKS_FILE"] = str(ranks)
            crawls[name] = pool.submit(web.crawl, Path(scratch, str(number)), **settings)
        requests = {name: crawl.result() for name, crawl in crawls.items()}
    assert len({frozenset(urls) for urls in requests.values()}) == 1
    curves = {name: found(web, urls) for name, urls in requests.items()}
    print(f"| order | {' | '.join(f'{part} %' for part in JUDGED)} |\n|{'---|' * 4}")
    for name, curve in curves.items():
        print(f"| {name} | {' | '.join(f'{curve[part]:.0f} %' for part in JUDGED)} |")
    if svg:
        x, y = "% of the contacts", "% of the good pages found"
        series = {name: ([*range(101)], curve) for name, curve in curves.items()}
        figure = Figure("scores", "Good pages found", "", chart=Chart(series, x=x, y=y))
        Path(svg).write_text(render("drawing.svg", figure=figure))


if __name__ == "__main__":
    main(*sys.argv[1:])
