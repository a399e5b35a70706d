"""The URL trace of a simulated crawl of a graph: `python benchmarks/crawl_graph.py EDGES TRACE`

EDGES is a file of ``source target`` lines (plain or gzip), one link each, as html_edges.py and
paper_web.py write them: URLs, host names or numbers; a hundred consecutive numbers form a host.
TRACE is for `scrapy urltrace` and cachelab.py. The real frontier decides the order of the
pages, with a simulated clock. No host is contacted.

The model: the seeds are the first page of each host in the file. Pages near the seeds are fetched
first (DepthRankPrioritizer). There are ``--queues`` back-end queues. A fetch takes one turn, and
then its host pauses for as many turns as there are queues. The links of a page are submitted when
it is fetched, in the file's order, and new links are in the frontier immediately. Pages that cannot
be reached from a seed are not fetched. Each link takes 50 bytes of memory, and each page 0.5 kB.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from array import array
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from webcrawl.crawl.seeds.line_reader import open_list
from webcrawl.frontier import (
    DepthRankPrioritizer,
    Entry,
    Frontier,
    FrontierParts,
    FrontierPolicies,
    FrontierSizes,
    GeometricSelector,
    LargestDelay,
    encode,
)
from webcrawl.seen.url_trace import UrlTrace

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

# Numbers have no host. As lists of pages are usually sorted by URL, this many consecutive numbers
# are taken for the pages of one host.
_PAGES_PER_HOST = 100
_LEVELS = 16
_PAUSE_SECS = 1.0
_REFILL_ENTRIES = 1000


class Graph(NamedTuple):
    """A link graph. Its pages are numbered in the order in which the file first names them.

    The links of page *i* are ``targets[begins[i]:begins[i + 1]]``.
    """

    hosts: list[str]
    begins: NDArray[np.int64]
    targets: NDArray[np.int64]


def read_graph(path: Path) -> Graph:
    """Read the graph in the file *path*."""
    numbers: dict[bytes, int] = {}
    ends = array("q")
    with open_list(path) as file:
        for line in file:
            ends.extend(numbers.setdefault(name, len(numbers)) for name in line.split()[:2])
    sources, targets = np.frombuffer(ends, dtype=np.int64).reshape(-1, 2).T
    order = np.argsort(sources, kind="stable")
    begins = np.searchsorted(sources[order], np.arange(len(numbers) + 1))
    return Graph([_host_of_name(name) for name in numbers], begins, targets[order])


def _host_of_name(name: bytes) -> str:
    """Return the host of *name*, a URL, host name or number."""
    if name.isdigit():
        return str(int(name) // _PAGES_PER_HOST)
    return (name.partition(b"://")[2] or name).partition(b"/")[0].decode("latin-1")


def crawl(
    graph: Graph,
    *,
    hosts_at_once: int,
    submit: Callable[[list[int], list[bool]], object],
) -> None:
    """Simulate a crawl of *graph*; the same graph always gives the same crawl.

    *submit* is called first with the seeds, then with the links of each page, and each time with
    whether each link leaves the page's host.
    """
    hosts, begins, targets = graph
    host_numbers = np.unique(hosts, return_inverse=True)[1]
    first_pages = dict(zip(reversed(hosts), reversed(range(len(hosts))), strict=True))
    new_pages = [*reversed(first_pages.values())]
    is_new = np.ones(len(hosts), dtype=np.bool_)
    is_new[new_pages] = False
    submit(new_pages, [False] * len(new_pages))
    clock = [0.0]  # a list, so that the frontier's clock sees changes
    with tempfile.TemporaryDirectory() as directory:
        frontier = Frontier(
            FrontierParts(
                path=Path(directory) / "frontier",
                clock=lambda: clock[0],
                policies=FrontierPolicies(
                    prioritizer=DepthRankPrioritizer(levels=_LEVELS),
                    selector=GeometricSelector(rng=random.Random(1)),
                    delay=LargestDelay(factor=0.0, floor=_PAUSE_SECS, ceiling=_PAUSE_SECS),
                ),
                sizes=FrontierSizes(queues=hosts_at_once, max_queues=hosts_at_once),
            )
        )
        frontier.open(None)
        frontier.push([encode(Entry(str(page), hosts[page], 0)) for page in new_pages])
        while len(frontier):
            lease = frontier.acquire()
            if lease is None:
                # If nothing is left to refill, let time pass until a host is ready.
                if not frontier.refill(_REFILL_ENTRIES):
                    clock[0] = max(clock[0], frontier.ready_at() or 0.0)
                continue
            clock[0] += _PAUSE_SECS / hosts_at_once
            entry = lease.entry
            frontier.contacts.release(entry.host, rest=_PAUSE_SECS, min_rest=0.0)
            frontier.leases.finish(lease)

            page = int(entry.url)
            links = targets[begins[page] : begins[page + 1]]
            if len(links):
                submit(links.tolist(), (host_numbers[links] != host_numbers[page]).tolist())
                new_pages = [*dict.fromkeys(links[is_new[links]].tolist())]
                is_new[new_pages] = False
                depth = entry.depth + 1
                frontier.push([encode(Entry(str(new), hosts[new], depth)) for new in new_pages])
        frontier.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("edges", type=Path)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--queues", type=int, default=600, help="hosts that take turns")
    options = parser.parse_args()
    options.trace.unlink(missing_ok=True)
    trace = UrlTrace(path=options.trace)
    trace.open()
    with closing(trace):
        crawl(
            read_graph(options.edges),
            hosts_at_once=options.queues,
            submit=lambda fps, leaves: trace.add(fps, leaves, 0.0),
        )


if __name__ == "__main__":
    main()
