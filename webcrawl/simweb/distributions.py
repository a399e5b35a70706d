"""Distributions of documents in the simulated web: content types, sizes, links per page.

``mercator`` follows figures 7 and 8 of the Mercator paper (725 million documents of December 2000).
``today`` has HTML with a mean of 240 kB, as in large crawls in 2025, sent with gzip.

The other profiles are for measuring crawlers. ``bench`` has only one kind of page, with 20 kB and
40 links. ``dense`` is the same with 120 links, so that a crawl grows fast. ``graph`` has small
pages with eleven links. ``bench-today`` has the HTML of ``today``, without pages so large that a
crawler may cut them off. ``broad`` is ``bench`` with realistic titles: on half of the hosts the
titles of pages differ only by a number, on a quarter all pages have the same title, and on a
quarter titles are words.
``broad-numbers``, ``broad-one`` and ``broad-words`` have one of these kinds each.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum, auto
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HTML = "text/html"

# Mercator, figure 8: percent of the documents in bins labelled 0, 1, 2, 4 ... 512K, 1M bytes. A
# document of size n is in the last bin whose label is not above n. The paper says that the four
# bins from 2K to 16K have 67 % and that no bar is above 20 %. The other heights were read from the
# figure.
# fmt: off
FIGURE_8 = (
    0.35, 0.01, 0.01, 0.02, 0.03, 0.06, 0.15, 0.5, 1.2, 2.6, 4.6, 8.6,  # 0, 1 ... 512, 1K
    15.4, 18.4, 18.6, 14.6,                                            # 2K, 4K, 8K, 16K
    8.0, 3.9, 1.7, 0.7, 0.32, 0.25,                                    # 32K ... 512K, 1M
)
# fmt: on
_BINS = [0.0, *itertools.accumulate(share / 100 for share in FIGURE_8)]
_LAST_BIN = len(FIGURE_8) - 1

# Mercator, figure 7, with "Other (2.26 %)" spread over types like those that the paper mentions.
# That crawl met 3,173 different types, many of them misspellings of common ones.
FIGURE_7 = {
    HTML: 65.34,
    "image/gif": 15.77,
    "image/jpeg": 14.36,
    "text/plain": 1.24,
    "application/pdf": 1.04,
    "application/octet-stream": 0.70,
    "application/zip": 0.30,
    "application/postscript": 0.25,
    "audio/mpeg": 0.25,
    "application/msword": 0.20,
    "video/mpeg": 0.20,
    "text/htm": 0.12,
    "image/jpg": 0.12,
    "x-unknown": 0.06,
    "": 0.06,
}

EXTENSIONS = {
    "image/gif": ".gif",
    "image/jpeg": ".jpg",
    "image/jpg": ".jpg",
    "image/png": ".png",
    "image/webp": ".webp",
    "text/plain": ".txt",
    "application/pdf": ".pdf",
    "application/octet-stream": ".bin",
    "application/zip": ".zip",
    "application/postscript": ".ps",
    "application/msword": ".doc",
    "application/json": ".json",
    "audio/mpeg": ".mp3",
    "video/mpeg": ".mpg",
}

# A smaller document has no space for the links that connect a host's pages.
TRUNK_MIN_SIZE = 2048

_NORMAL = NormalDist()


def mercator_size(quantile: float, _content_type: str) -> int:
    """Return the document size in bytes at *quantile* (0 to 1) of figure 8."""
    bin_number = min(bisect_right(_BINS, quantile) - 1, _LAST_BIN)
    if bin_number == 0:
        return 0
    position = (quantile - _BINS[bin_number]) / (_BINS[bin_number + 1] - _BINS[bin_number])
    doublings = 2.0 if bin_number == _LAST_BIN else 1.0  # the last bin is open; here up to 4 MiB
    return int(2.0 ** (bin_number - 1 + doublings * min(max(position, 0.0), 1.0 - 1e-9)))


def _log_normal(quantile: float, mean: float, max_size: int) -> int:
    """Return the size at *quantile* of a log-normal distribution with sigma 1 and *mean*.

    It is limited to *max_size*.
    """
    size = mean * math.exp(_NORMAL.inv_cdf(min(max(quantile, 1e-9), 1 - 1e-9)) - 0.5)
    return max(TRUNK_MIN_SIZE, min(int(size), max_size))


def _today_size(quantile: float, content_type: str) -> int:
    """Return the size, at *quantile*, of a document of *content_type* on today's web."""
    mean = {HTML: 240_000, "application/pdf": 500_000}.get(content_type, 50_000)
    # The factor compensates for the 0.4 % that the limit cuts off.
    return _log_normal(quantile, mean * 1.004, 4 << 20)


def _bench_today_size(quantile: float, _content_type: str) -> int:
    """Return the size, at *quantile*, of an HTML page on today's web, at most 1 MB."""
    # The factor compensates for the 6.4 % that the limit cuts off.
    return _log_normal(quantile, 240_000 * 1.08, 1_000_000)


class Titles(Enum):
    """How the titles of a host's pages differ."""

    NAMED = auto()  # by a word and by the numbers of host and page
    NUMBERED = auto()  # by a number alone
    ONE = auto()  # not at all
    WORDS = auto()  # each is a few words


@dataclass(frozen=True, slots=True)
class WebProfile:
    """Kind of web: shares of content types in percent, sizes, links, markup.

    *size* returns the size of a document for a quantile (0 to 1) and a content type.
    """

    types: dict[str, float]
    size: Callable[[float, str], int]
    links_base: int
    links_per_kib: float
    links_max: int
    small: float = 0.0  # share of documents below TRUNK_MIN_SIZE
    modern: bool = False  # markup of today, sent with gzip
    titles: tuple[Titles, ...] = (Titles.NAMED,)  # hosts use these kinds in turn
    has_lengths: bool = False  # whether all answers have a Content-Length

    def links(self, size: int) -> int:
        """Return how many links an HTML page of *size* bytes should have, if they fit."""
        return min(self.links_base + int(self.links_per_kib * size / 1024), self.links_max)


_TODAY = {
    HTML: 92.0,
    "image/jpeg": 2.0,
    "application/pdf": 1.5,
    "image/png": 1.5,
    "application/json": 1.2,
    "image/webp": 1.0,
    "text/plain": 0.8,
}


def _bench(
    *,
    size: int = 20_000,
    links: int = 40,
    titles: tuple[Titles, ...] = (Titles.NAMED,),
) -> WebProfile:
    """Return a profile in which all pages are HTML of *size* bytes with *links* links."""
    return WebProfile(_PAGES, lambda *_: size, links, 0.0, links, titles=titles, has_lengths=True)


_PAGES = {HTML: 100.0}
PROFILES = {
    "mercator": WebProfile(FIGURE_7, mercator_size, 4, 2.5, 80, small=_BINS[12]),
    "today": WebProfile(_TODAY, _today_size, 40, 0.45, 200, modern=True),
    "bench": _bench(),
    "broad": _bench(titles=(Titles.NUMBERED, Titles.ONE, Titles.NUMBERED, Titles.WORDS)),
    "broad-numbers": _bench(titles=(Titles.NUMBERED,)),
    "broad-one": _bench(titles=(Titles.ONE,)),
    "broad-words": _bench(titles=(Titles.WORDS,)),
    "graph": _bench(size=2_500, links=11),
    "bench-today": WebProfile(_PAGES, _bench_today_size, 40, 0.45, 200, modern=True),
    "dense": _bench(links=120),
}
