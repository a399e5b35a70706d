"""A synthetic web by the figures of Broder, Najork and Wiener: `python benchmarks/paper_web.py`.

Writes an edge list of ``source target`` lines for crawl_graph.py; the same options make
the same web. From the paper: pages have 62.55 links in the mean and 23 in the median, three in ten
of them repeats of one on the page, and 81.5 % stay in their host. One URL in 6.5 is a page with
links. What the paper does not give: popularity by rank, within a host and of hosts, falls with the
exponent 0.92 (in-degrees of "Graph structure in the web", 2.09); of a page's links ``--shared`` are
its host's navigation, which all of its pages have, from its first link on; the length of pages
depends half on their host; sizes of hosts fall with 0.7, 200 URLs in the mean, so that no host
outlasts the others.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LINKS_MEAN: Final = 62.55
LINKS_MEDIAN: Final = 23
LINKS_MOST: Final = 2_000
INSIDE: Final = 0.815
WITH_LINKS: Final = 1 / 6.5
POPULARITY: Final = 0.92
HOST_SIZES: Final = 0.7
HOST_URLS: Final = 200
# With those that come by chance three links in ten are on their page already.
REPEATED: Final = 0.2
_LINES: Final = 100_000


def edges(
    urls: int, *, shared: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The host of each URL, and sources and targets of the links, page by page."""
    rng = np.random.default_rng(seed)
    hosts = max(2, urls // HOST_URLS)
    weights = np.arange(1, hosts + 1) ** -HOST_SIZES
    sizes = np.maximum(1, weights / weights.sum() * urls).astype(np.int64)
    first = np.cumsum(sizes) - sizes
    host = np.repeat(np.arange(hosts), sizes)
    has_links = rng.random(len(host)) < WITH_LINKS
    has_links[first] = True
    pages = np.flatnonzero(has_links)

    def popular(count: NDArray[np.int64]) -> NDArray[np.int64]:
        """A number below each of *count*, by Zipf's law."""
        rest = 1 - POPULARITY
        drawn = (1 + rng.random(len(count)) * ((count + 1.0) ** rest - 1)) ** (1 / rest)
        return np.minimum(drawn.astype(np.int64), count) - 1

    def targets(of: NDArray[np.int64]) -> NDArray[np.int64]:
        """A link of a page of each host."""
        to = np.where(rng.random(len(of)) < INSIDE, of, popular(np.full(len(of), hosts)))
        found: NDArray[np.int64] = first[to] + popular(sizes[to])
        return found

    spread = np.sqrt(2 * np.log(LINKS_MEAN / LINKS_MEDIAN))
    normal = rng.standard_normal(hosts)[host[pages]] + rng.standard_normal(len(pages))
    lengths = np.exp(spread * normal / np.sqrt(2)) * LINKS_MEDIAN
    lengths = np.clip(lengths, 1, LINKS_MOST).astype(np.int64)
    sources = np.repeat(pages, lengths)
    begins = np.repeat(np.cumsum(lengths) - lengths, lengths)
    place = np.arange(len(sources)) - begins
    found = targets(host[sources])

    # Navigation: to the host's most popular URLs, and to those of others that it links to.
    lists = np.zeros(hosts, np.int64)
    np.maximum.at(lists, host[pages], (lengths * shared).astype(np.int64))
    list_begins = np.cumsum(lists) - lists
    owner = np.repeat(np.arange(hosts), lists)
    menu = targets(owner)
    rank = np.arange(len(menu)) - list_begins[owner]
    menu = np.where(host[menu] == owner, first[owner] + rank % sizes[owner], menu)
    is_menu = place < np.repeat((lengths * shared).astype(np.int64), lengths)
    found[is_menu] = menu[list_begins[host[sources[is_menu]]] + place[is_menu]]

    again = np.flatnonzero(rng.random(len(sources)) < REPEATED)
    found[again] = found[begins[again] + (place[again] * rng.random(len(again))).astype(np.int64)]
    return host, sources, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--urls", type=int, default=1_300_000)
    parser.add_argument("--shared", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    host, sources, targets = edges(options.urls, shared=options.shared, seed=options.seed)
    name = [f"http://h{of}.test/{number}" for number, of in enumerate(host.tolist())]
    for at in range(0, len(sources), _LINES):
        pairs = zip(
            sources[at : at + _LINES].tolist(), targets[at : at + _LINES].tolist(), strict=True
        )
        sys.stdout.writelines(f"{name[source]} {name[target]}\n" for source, target in pairs)


if __name__ == "__main__":
    main()
