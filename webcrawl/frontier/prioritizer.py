"""Prioritizers: decide which front-end queue a URL is added to (Mercator).

Called by the front end once for each pushed entry. The invariant: a level is an integer from 1, the
most urgent, to ``levels``, and depends only on the entry.
"""

from __future__ import annotations

import bisect
from typing import Protocol

from webcrawl.frontier.entry import Entry


class Prioritizer(Protocol):
    """Interface of a prioritizer."""

    levels: int

    def level(self, entry: Entry) -> int:
        """Return the number of the front-end queue for *entry*, from 1 to ``levels``.

        It is called for every pushed URL, so it must be fast. If the prioritizer has a true
        attribute ``judges_groups``, its levels do not depend on the URL, and it is called once for
        the links of a page to one host that are of one kind.
        """
        ...


# The last rank of each rank class but the last, which has all others.
_LAST_RANKS = [10**power for power in range(1, 7)]
# A host that is not in the seed list is treated like one beyond rank 1,000,000.
_UNRANKED = len(_LAST_RANKS)
# One link further from a seed counts as much as being a hundred times less popular.
_PER_DEPTH = 2
_RANK_BITS = 24


class _WithLevels:
    """Base class of prioritizers that are created with their number of *levels*."""

    judges_groups = True

    def __init__(self, *, levels: int) -> None:
        self.levels = levels


class DepthRankPrioritizer(_WithLevels):
    """Prioritizer that prefers URLs near the seeds, then hosts early in the seed list.

    ``level = 1 + 2 * depth + rank class``, at most *levels*. The rank class is a power of ten,
    because popularity in a top list falls like 1/rank. It is 0 for ranks 1 to 10, 1 up to 100, ...,
    5 up to a million, and 6 beyond that and for hosts not in the list.

    >>> from webcrawl.frontier.entry import Entry
    >>> by = DepthRankPrioritizer(levels=16)
    >>> by.level(Entry("http://first.test/", "first.test", 0, 1))
    1
    >>> by.level(Entry("http://last.test/", "last.test", 0, 1_000_000))
    6
    >>> by.level(Entry("http://first.test/a/b", "first.test", 2, 1))
    5
    >>> by.level(Entry("http://unranked.test/far", "unranked.test", 9))
    16
    """

    def level(self, entry: Entry) -> int:
        level = 1 + _PER_DEPTH * entry.depth + rank_class(entry.rank)
        # For each URL of the crawl: min() would take as long as all the rest.
        if level > self.levels:
            return self.levels
        return level


class DepthPrioritizer(_WithLevels):
    """Prioritizer with one level per depth, for crawls with URL_MAX_DEPTH.

    In such a crawl a page that is first reached by a detour has fewer links left to follow.

    >>> from webcrawl.frontier.entry import Entry
    >>> by = DepthPrioritizer(levels=3)
    >>> [by.level(Entry("http://a.test/", "a.test", depth)) for depth in (0, 1, 2, 9)]
    [1, 2, 3, 3]
    """

    def level(self, entry: Entry) -> int:
        return min(1 + entry.depth, self.levels)


class RankPrioritizer(_WithLevels):
    """Prioritizer by the rank of a URL or host in RANKS_FILE, at any distance from the seeds.

    The levels divide the powers of two up to 16 million evenly; URLs without a rank come last.

    >>> from webcrawl.frontier.entry import Entry
    >>> by = RankPrioritizer(levels=16)
    >>> [by.level(Entry("http://a.test/", "a.test", 9, rank)) for rank in (1, 2, 1000, 10**6, 0)]
    [1, 2, 7, 14, 16]
    """

    def level(self, entry: Entry) -> int:
        if entry.rank <= 0:
            return self.levels
        return min(1 + self.levels * entry.rank.bit_length() // _RANK_BITS, self.levels)


class ScorePrioritizer(_WithLevels):
    """Prioritizer by the score of the page that linked to a URL first; seeds are most urgent.

    The scores are those of a processing module, such as ``PageScore``. URLs from sitemaps and from
    pages without a score come last.

    >>> from webcrawl.frontier.entry import Entry
    >>> by = ScorePrioritizer(levels=16)
    >>> [by.level(Entry("http://a.test/", "a.test", 1, score=score)) for score in (100, 50, 0)]
    [1, 9, 16]
    >>> by.level(Entry("http://seed.test/", "seed.test"))
    1
    """

    def level(self, entry: Entry) -> int:
        score = max(entry.score, 0 if entry.depth else 100)
        return self.levels - (self.levels - 1) * score // 100


def rank_class(rank: int) -> int:
    """Return the rank class of *rank*, from 0 to 6: one class for each power of ten.

    >>> [rank_class(rank) for rank in (1, 10, 11, 100, 1_000_000, 1_000_001, 10**9, 0)]
    [0, 0, 1, 1, 5, 6, 6, 6]
    """
    return bisect.bisect_left(_LAST_RANKS, rank) if rank > 0 else _UNRANKED
