"""Simulated crawl of a link graph, to get its URL trace.

A graph is a file of ``source target`` lines (plain or gzip), one link each: URLs, host names or
numbers. The real frontier decides the order of the pages, with a simulated clock. No host is
contacted.

The model: seeds are the first page of each host in the file. Pages near them come first
(DepthRankPrioritizer). There are *hosts_at_once* back-end queues. A fetch takes one turn, and then
its host pauses for as many turns as there are queues. The links of a page are submitted when it is
fetched, in the file's order, and the new ones are in the frontier immediately. Pages that cannot be
reached from a seed are left out.
"""

from __future__ import annotations

import random
import tempfile
import zlib
from array import array
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from webcrawl.errors import FatalError
from webcrawl.frontier import (
    DepthRankPrioritizer,
    Entry,
    Frontier,
    FrontierPolicies,
    FrontierSizes,
    GeometricSelector,
    LargestDelay,
    encode,
)
from webcrawl.jobs.caches.trace_files import blocks_of_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

#: Limit for a graph: each link takes 50 bytes of memory, and each page 0.5 kB.
MAX_LINKS = 1 << 27
# Numbers have no host. Lists of pages are usually sorted by URL, so a run of numbers is a host.
_HOST_NUMBERS = 100
_LEVELS = 16
_REST = 1.0
_REFILLED = 1000
_TOLD = 100_000


class Graph(NamedTuple):
    """Link graph whose pages are numbered in the order in which the file first names them.

    The links of page *i* are ``targets[begins[i]:begins[i + 1]]``.
    """

    hosts: list[str]
    begins: NDArray[np.int64]
    targets: NDArray[np.int64]


def read_graph(path: Path, *, on_progress: Callable[[int, str], object]) -> Graph:
    """Read the graph in the file *path*; comments begin with ``#``.

    Raises FatalError with one sentence if it contains none.
    """
    numbers: dict[bytes, int] = {}
    number_of = numbers.setdefault
    ends = array("q"), array("q")
    try:
        for count, line in enumerate(chain.from_iterable(blocks_of_lines(path)), 1):
            names = line.split(None, 2)
            if not names or names[0].startswith(b"#"):
                continue
            if len(names) < 2:
                raise FatalError(f"{path}, line {count}: a link must be two names, SOURCE TARGET.")
            if len(ends[0]) == MAX_LINKS:
                raise FatalError(f"{path} has more than {MAX_LINKS:,} links: shorten it.")
            ends[0].append(number_of(names[0], len(numbers)))
            ends[1].append(number_of(names[1], len(numbers)))
            if count % _TOLD == 0:
                on_progress(count, "links")
    except (OSError, EOFError, zlib.error) as error:
        raise FatalError(f"The graph {path} cannot be read: {error}.") from error
    if not numbers:
        raise FatalError(f"The graph {path} is empty: give a file of SOURCE TARGET lines.")
    sources, targets = (np.frombuffer(end, dtype=np.int64) for end in ends)
    order = np.argsort(sources, kind="stable")
    begins = np.searchsorted(sources[order], np.arange(len(numbers) + 1))
    return Graph([_host(name) for name in numbers], begins, targets[order])


def _host(name: bytes) -> str:
    """Return the host of a URL, host name or number.

    >>> [_host(name) for name in (b"http://a.test/b", b"a.test", b"1234")]
    ['a.test', 'a.test', '12']
    """
    if name.isdigit():
        return str(int(name) // _HOST_NUMBERS)
    return (name.partition(b"://")[2] or name).partition(b"/")[0].decode("latin-1")


def crawl(
    graph: Graph,
    *,
    hosts_at_once: int,
    submit: Callable[[list[int], list[bool]], object],
    on_progress: Callable[[int, str], object],
) -> None:
    """Simulate a crawl of *graph*; the same graph always gives the same crawl.

    *submit* is called first with the seeds, then for each page with its links and with whether they
    leave its host.
    """
    hosts, begins, targets = graph
    host_numbers = np.unique(hosts, return_inverse=True)[1]
    first = dict(zip(reversed(hosts), reversed(range(len(hosts))), strict=True))
    new = [*reversed(first.values())]
    is_new = np.ones(len(hosts), dtype=np.bool_)
    is_new[new] = False
    submit(new, [False] * len(new))
    now = [0.0]
    with tempfile.TemporaryDirectory() as directory:
        frontier = Frontier(
            path=Path(directory) / "frontier",
            clock=lambda: now[0],
            policies=FrontierPolicies(
                prioritizer=DepthRankPrioritizer(levels=_LEVELS),
                selector=GeometricSelector(rng=random.Random(1)),
                delay=LargestDelay(factor=0.0, floor=_REST, ceiling=_REST),
            ),
            sizes=FrontierSizes(queues=hosts_at_once, max_queues=hosts_at_once),
        )
        frontier.open(None)
        frontier.push([encode(Entry(str(page), hosts[page], 0)) for page in new])
        pages = 0
        while len(frontier):
            lease = frontier.acquire()
            if lease is None:
                if not frontier.refill(_REFILLED):
                    now[0] = max(now[0], frontier.ready_at() or 0.0)
                continue
            now[0] += _REST / hosts_at_once
            entry = lease.entry
            frontier.release(entry.host, rest=_REST, min_rest=0.0)
            frontier.finish(lease)
            pages += 1
            page = int(entry.url)
            links = targets[begins[page] : begins[page + 1]]
            if len(links):
                submit(links.tolist(), (host_numbers[links] != host_numbers[page]).tolist())
                new = [*dict.fromkeys(links[is_new[links]].tolist())]
                is_new[new] = False
                depth = entry.depth + 1
                frontier.push([encode(Entry(str(one), hosts[one], depth)) for one in new])
                on_progress(pages, "pages")
        frontier.close()
