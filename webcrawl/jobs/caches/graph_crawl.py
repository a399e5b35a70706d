"""Simulates the crawl of a link graph, to get its URL trace.

A graph is a file of ``source target`` lines (plain or gzip), one link each: URLs, host names or
numbers. The real frontier decides the order of the pages, with a simulated clock. No host is
contacted.

The model: the seeds are the first page of each host in the file. Pages near the seeds are fetched
first (DepthRankPrioritizer). There are *hosts_at_once* back-end queues. A fetch takes one turn, and
then its host pauses for as many turns as there are queues. The links of a page are submitted when
it is fetched, in the file's order, and new links are in the frontier immediately. Pages that cannot
be reached from a seed are not fetched.
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

#: Most links of a graph. Each link takes 50 bytes of memory, and each page 0.5 kB.
MAX_LINKS = 1 << 27
# Numbers have no host. As lists of pages are usually sorted by URL, this many consecutive numbers
# are taken for the pages of one host.
_PAGES_PER_HOST = 100
_LEVELS = 16
_PAUSE_SECS = 1.0
_REFILL_ENTRIES = 1000
_PROGRESS_LINES = 100_000


class Graph(NamedTuple):
    """A link graph. Its pages are numbered in the order in which the file first names them.

    The links of page *i* are ``targets[begins[i]:begins[i + 1]]``.
    """

    hosts: list[str]
    begins: NDArray[np.int64]
    targets: NDArray[np.int64]


def read_graph(path: Path, *, on_progress: Callable[[int, str], object]) -> Graph:
    """Read the graph in the file *path*; comments begin with ``#``.

    Raises FatalError with one sentence if the file is not a graph.
    """
    numbers: dict[bytes, int] = {}
    number_or_add = numbers.setdefault
    sources_and_targets = array("q"), array("q")
    try:
        for line_number, line in enumerate(chain.from_iterable(blocks_of_lines(path)), 1):
            names = line.split(None, 2)
            if not names or names[0].startswith(b"#"):
                continue
            if len(names) < 2:
                raise FatalError(
                    f"{path}, line {line_number}: a link must be two names, SOURCE TARGET."
                )
            if len(sources_and_targets[0]) == MAX_LINKS:
                raise FatalError(f"{path} has more than {MAX_LINKS:,} links: shorten it.")
            sources_and_targets[0].append(number_or_add(names[0], len(numbers)))
            sources_and_targets[1].append(number_or_add(names[1], len(numbers)))
            if line_number % _PROGRESS_LINES == 0:
                on_progress(line_number, "links")
    except (OSError, EOFError, zlib.error) as error:
        raise FatalError(f"The graph {path} cannot be read: {error}.") from error
    if not numbers:
        raise FatalError(f"The graph {path} is empty: give a file of SOURCE TARGET lines.")

    sources, targets = (np.frombuffer(pages, dtype=np.int64) for pages in sources_and_targets)
    order = np.argsort(sources, kind="stable")
    begins = np.searchsorted(sources[order], np.arange(len(numbers) + 1))
    return Graph([_host_of_name(name) for name in numbers], begins, targets[order])


def _host_of_name(name: bytes) -> str:
    """Return the host of *name*, a URL, host name or number.

    >>> [_host_of_name(name) for name in (b"http://a.test/b", b"a.test", b"1234")]
    ['a.test', 'a.test', '12']
    """
    if name.isdigit():
        return str(int(name) // _PAGES_PER_HOST)
    return (name.partition(b"://")[2] or name).partition(b"/")[0].decode("latin-1")


def crawl(
    graph: Graph,
    *,
    hosts_at_once: int,
    submit: Callable[[list[int], list[bool]], object],
    on_progress: Callable[[int, str], object],
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
            path=Path(directory) / "frontier",
            clock=lambda: clock[0],
            policies=FrontierPolicies(
                prioritizer=DepthRankPrioritizer(levels=_LEVELS),
                selector=GeometricSelector(rng=random.Random(1)),
                delay=LargestDelay(factor=0.0, floor=_PAUSE_SECS, ceiling=_PAUSE_SECS),
            ),
            sizes=FrontierSizes(queues=hosts_at_once, max_queues=hosts_at_once),
        )
        frontier.open(None)
        frontier.push([encode(Entry(str(page), hosts[page], 0)) for page in new_pages])
        pages = 0
        while len(frontier):
            lease = frontier.acquire()
            if lease is None:
                # If nothing is left to refill, let time pass until a host is ready.
                if not frontier.refill(_REFILL_ENTRIES):
                    clock[0] = max(clock[0], frontier.ready_at() or 0.0)
                continue
            clock[0] += _PAUSE_SECS / hosts_at_once
            entry = lease.entry
            frontier.release(entry.host, rest=_PAUSE_SECS, min_rest=0.0)
            frontier.finish(lease)
            pages += 1

            page = int(entry.url)
            links = targets[begins[page] : begins[page + 1]]
            if len(links):
                submit(links.tolist(), (host_numbers[links] != host_numbers[page]).tolist())
                new_pages = [*dict.fromkeys(links[is_new[links]].tolist())]
                is_new[new_pages] = False
                depth = entry.depth + 1
                frontier.push([encode(Entry(str(new), hosts[new], depth)) for new in new_pages])
                on_progress(pages, "pages")
        frontier.close()
