"""How early the important pages come: `python benchmarks/bench_ranks.py`.

A graph like cnr-2000, the web of one organization's domain: 325,557 pages and 3.2 million links,
most of them within their host, in-degrees by a power law; generated, always the same. It is crawled
by the real frontier, with a clock that is simulated and nothing fetched: breadth-first (no host has
a rank); with the ranks of hosts of `scrapy pagerank`, made when a tenth of the pages is there, and
anew at each further tenth; and with those of hosts, and of pages, of an earlier crawl of all of it
from the start. What is printed is the share of all PageRank, of pages and by the whole graph, that
the first 10, 20, ... per cent of the pages have; and what the best order would have. "Ranks alone"
is with RankPrioritizer in the place of DepthRankPrioritizer. With many `--workers` for the
number of hosts it is politeness that says what comes next, and no order of the queue matters.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from webcrawl.crawl.shard.ranks_file import RankedPrioritizer, RanksFile
from webcrawl.frontier import (
    DepthRankPrioritizer,
    Entry,
    Frontier,
    FrontierPolicies,
    FrontierSizes,
    GeometricSelector,
    LargestDelay,
    Prioritizer,
    encode,
)
from webcrawl.frontier.prioritizer import RankPrioritizer
from webcrawl.jobs.pagerank.ranking import rank

SHARES = (0.1, 0.2, 0.3, 0.5, 0.7)
REST = 2.0


class Graph:
    """Pages 0..n-1 of hosts, with links; the pages of a host have numbers in a row."""

    def __init__(self, pages: int, links: int, hosts: int) -> None:
        rng = np.random.default_rng(2000)
        sizes = 1.0 / np.arange(1, hosts + 1)
        sizes = np.maximum(1, sizes / sizes.sum() * pages).astype(np.int64)
        sizes[0] += pages - sizes.sum()
        sizes = sizes[rng.permutation(hosts)]
        first = np.cumsum(sizes) - sizes
        self.pages, self.hosts = pages, hosts
        self.host = np.repeat(np.arange(hosts), sizes)
        # A page is linked from one before it in its host, the first page of a host from one of the
        # hosts before: all can be found from page 0.
        place = np.arange(pages) - first[self.host]
        parents = first[self.host] + (place * rng.random(pages) ** 1.5).astype(np.int64)
        before = rng.integers(0, np.maximum(1, np.arange(hosts)))
        parents[first] = first[before] + (sizes[before] * rng.random(hosts) ** 2).astype(np.int64)
        sources = [parents[1:]]
        targets = [np.arange(1, pages)]
        # The others: pages by lot, some with many links; nine in ten stay in their host. Popular
        # pages are those early in their host, popular hosts have nothing to do with their size.
        more = int(1.5 * links)
        source = rng.permutation(pages)[(pages * rng.random(more) ** 2).astype(np.int64)]
        popular = rng.permutation(hosts)
        goes = rng.random(more) < 0.1
        host = np.where(
            goes, popular[(hosts * rng.random(more) ** 4).astype(np.int64)], self.host[source]
        )
        home = goes & (rng.random(more) < 0.6)
        at = np.where(home, 0, (sizes[host] * rng.random(more) ** 4).astype(np.int64))
        sources.append(source)
        targets.append(first[host] + at)
        kept, others = (np.unique(a << 32 | b) for a, b in zip(sources, targets, strict=True))
        others = rng.permutation(np.setdiff1d(others, kept))[: links - len(kept)]
        keys = np.sort(np.concatenate((kept, others)))
        self.sources, self.targets = keys >> 32, keys & 0xFFFF_FFFF
        self.begins = np.searchsorted(self.sources, np.arange(pages + 1))

    def links(self, page: int) -> list[int]:
        return self.targets[self.begins[page] : self.begins[page + 1]].tolist()

    def url(self, page: int) -> str:
        return f"http://h{self.host[page]}.test/{page}"

    def write_page_ranks(self, path: Path) -> None:
        """The ranks of all pages."""
        shares = rank(self.sources, self.targets, self.pages).pagerank
        _write(path, [self.url(page) for page in np.argsort(-shares, kind="stable")])

    def write_ranks(self, fetched: np.ndarray, path: Path) -> None:
        """The ranks of hosts by the links of the pages that were fetched."""
        known = fetched[self.sources]
        sources, targets = self.host[self.sources[known]], self.host[self.targets[known]]
        pairs = np.unique((sources << 32 | targets)[sources != targets])
        shares = rank(pairs >> 32, pairs & 0xFFFF_FFFF, self.hosts).pagerank
        _write(path, [f"h{host}.test" for host in np.argsort(-shares, kind="stable")])


def _write(path: Path, names: list[str]) -> None:
    path.write_text("".join(f"{rank},{name}\n" for rank, name in enumerate(names, 1)))


def crawl(
    graph: Graph, path: Path, *, ranks: str, workers: int, kind: type[Prioritizer]
) -> list[int]:
    """The pages in the order in which they are fetched; *ranks* are "none", "own", "hosts" or
    "pages"."""
    now = [1.7e9]
    fetched = np.zeros(graph.pages, np.bool_)
    csv = path / "ranks.csv"
    csv.write_text("")
    if ranks == "hosts":
        graph.write_ranks(~fetched, csv)
    if ranks == "pages":
        graph.write_page_ranks(csv)
    file = RanksFile(path=csv, clock=lambda: now[0])
    file.open()
    plain = kind(levels=16)
    frontier = Frontier(
        path=path / "frontier",
        clock=lambda: now[0],
        policies=FrontierPolicies(
            prioritizer=plain if ranks == "none" else RankedPrioritizer(plain, file),
            selector=GeometricSelector(rng=random.Random(7)),
            delay=LargestDelay(factor=0.0, floor=REST, ceiling=REST),
        ),
        sizes=FrontierSizes(queues=3 * workers, max_queues=3 * workers),
    )
    frontier.open(None)
    seen = bytearray(graph.pages)
    seen[0] = 1
    order: list[int] = []
    frontier.push([_entry(graph, 0, 0)])
    while len(order) < graph.pages:
        lease = frontier.acquire()
        if lease is None:
            frontier.refill(1000)
            ready = frontier.ready_at()
            now[0] = max(now[0], now[0] if ready is None else ready)
            continue
        page = int(lease.entry.url.rpartition("/")[2])
        now[0] += REST / workers
        frontier.release(lease.entry.host, rest=REST, min_rest=0.0)
        frontier.finish(lease)
        order.append(page)
        fetched[page] = True
        new = [one for one in graph.links(page) if not seen[one]]
        for one in new:
            seen[one] = 1
        frontier.push([_entry(graph, one, lease.entry.depth + 1) for one in new])
        if ranks == "own" and len(order) % (graph.pages // 10) == 0:
            graph.write_ranks(fetched, csv)
            for _ in range(3):  # two looks find it changed and the same
                now[0] += 1
                file.reload_if_changed()
            if file.reading is not None:
                file.reading.result()
    frontier.close()
    file.close()
    return order


def _entry(graph: Graph, page: int, depth: int) -> bytes:
    return encode(Entry(graph.url(page), f"h{graph.host[page]}.test", depth))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pages", type=int, default=325_557)
    parser.add_argument("--links", type=int, default=3_216_152)
    parser.add_argument("--hosts", type=int, default=2_000)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    graph = Graph(options.pages, options.links, options.hosts)
    shares = rank(graph.sources, graph.targets, graph.pages).pagerank
    degrees = np.bincount(graph.targets, minlength=graph.pages)
    inside = (graph.host[graph.sources] == graph.host[graph.targets]).mean()
    best = np.argsort(-shares)
    print(
        f"{graph.pages:,} pages, {len(graph.sources):,} links, {inside:.0%} within their host, "
        f"{graph.hosts:,} hosts; in-degree {degrees.max():,} at most, median "
        f"{int(np.median(degrees))}; the best 1 % of pages have {_first(shares, best, 0.01):.0%}"
    )
    print(f"{'':<34}" + "".join(f"{share:>8.0%}" for share in SHARES))
    depth, alone = DepthRankPrioritizer, RankPrioritizer
    for ranks, kind, what in (
        ("none", depth, "breadth-first"),
        ("own", depth, "hosts, from the first tenth on"),
        ("own", alone, "the same, ranks alone"),
        ("hosts", depth, "hosts, by an earlier crawl"),
        ("pages", depth, "pages, by an earlier crawl"),
        ("pages", alone, "the same, ranks alone"),
    ):
        began = time.process_time()
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory)
            order = crawl(graph, path, ranks=ranks, workers=options.workers, kind=kind)
        assert sorted(order) == list(range(graph.pages))
        _print(what, shares, np.array(order), time.process_time() - began)
    _print("the best order", shares, best, 0.0)


def _print(what: str, shares: np.ndarray, order: np.ndarray, secs: float) -> None:
    cells = "".join(f"{_first(shares, order, share):>8.1%}" for share in SHARES)
    print(f"{what:<34}{cells}   {secs:6.0f} CPU-s", flush=True)


def _first(shares: np.ndarray, order: np.ndarray, share: float) -> float:
    return float(shares[order[: int(share * len(order))]].sum())


if __name__ == "__main__":
    main()
