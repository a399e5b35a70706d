"""Selectors: choose the front-end queue of the next URL (Mercator's biased choice).

Called by the front end once for each entry that moves to the back end. The invariant: every
non-empty level has a positive probability, or all levels before it run empty eventually, so none
starves.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Sequence
from typing import Protocol

# The probability that GeometricSelector chooses one of the first 1, 2, ... levels. For the floats
# that are drawn, it is 1.0 after these.
_CUMULATIVE = [1 - 0.5**count for count in range(1, 54)]


class Selector(Protocol):
    """Interface of a selector."""

    def choose(self, levels: Sequence[int]) -> int:
        """Choose and return one of *levels*, the numbers of the non-empty levels.

        They are in ascending order, and there is at least one.
        """
        ...


class FirstSelector:
    """Selector of the most urgent level that has a URL.

    For DepthPrioritizer, each of whose levels runs empty eventually.
    """

    def choose(self, levels: Sequence[int]) -> int:
        return levels[0]


class GeometricSelector:
    """Selector that halves the probability from each non-empty level to the next: 1/2, 1/4, ...

    The last level gets the remainder. Only non-empty levels count: if only levels 1 and 16 have
    entries, 16 is chosen half of the time, not in one of 32,768 cases.
    """

    def __init__(self, *, rng: random.Random) -> None:
        self._random = rng.random

    def choose(self, levels: Sequence[int]) -> int:
        last = len(levels) - 1
        if not last:
            return levels[0]
        index = bisect.bisect(_CUMULATIVE, self._random())
        # Takes half the time of min().
        return levels[index] if index < last else levels[last]
