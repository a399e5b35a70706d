"""Selectors: from which front-end queue the next URL is taken (Mercator's biased choice).

Called by the front end once for each entry that moves to the back end. The invariant: every
non-empty level has a positive probability, or all before it have an end, so nothing starves.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence


class Selector(Protocol):
    """Interface of a selector."""

    def choose(self, levels: Sequence[int]) -> int:
        """One of *levels*: the non-empty ones, ascending, at least one."""
        ...


class FirstSelector:
    """The most urgent level, as long as it has a URL.

    For DepthPrioritizer: each of its levels comes to an end.
    """

    def choose(self, levels: Sequence[int]) -> int:
        return levels[0]


class GeometricSelector:
    """Of the non-empty levels, in order of urgency, each gets half of what the ones before left.

    The most urgent non-empty level is chosen in 1/2 of the cases, the next in 1/4, and so on; the
    last takes the rest. Counted over the non-empty levels, not over level numbers: with only levels
    1 and 16 filled, 16 still gets half of the choices rather than one in 32,768.
    """

    def __init__(self, *, rng: random.Random) -> None:
        self._random = rng.random

    def choose(self, levels: Sequence[int]) -> int:
        last = len(levels) - 1
        return levels[min(int(-math.log2(1 - self._random())), last)] if last else levels[0]
