"""Selectors: from which front-end queue the next URL is taken (Mercator's biased choice).

Called by the front end once for each entry that moves to the back end. The invariant: every
non-empty level has a positive probability, or all before it have an end, so nothing starves.
"""

from __future__ import annotations

from bisect import bisect
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
    """Of the non-empty levels, in order of urgency, each gets *share* of what the ones before left.

    With the default share of one half: the most urgent non-empty level is chosen in 1/2 of the
    cases, the next in 1/4, and so on; the last takes the rest. Counted over the non-empty levels,
    not over level numbers: with only levels 1 and 16 filled, 16 still gets half of the choices
    rather than one in 32,768.
    """

    def __init__(self, *, rng: random.Random, share: float = 0.5) -> None:
        if not 0 < share < 1:
            raise ValueError(f"a selector's share lies between 0 and 1, not {share}")
        self._random = rng.random
        self._share = share
        # With what probability one of the first 1, 2, ... levels is chosen, as far as was needed.
        self._up_to: list[float] = []

    def choose(self, levels: Sequence[int]) -> int:
        last = len(levels) - 1
        if not last:
            return levels[0]
        up_to = self._up_to
        while len(up_to) < last:
            up_to.append(1 - (1 - self._share) ** (len(up_to) + 1))
        return levels[bisect(up_to, self._random(), 0, last)]
