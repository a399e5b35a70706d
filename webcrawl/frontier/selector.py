"""From which front-end queue the next URL is taken: Mercator's biased random choice.

Called by the front end once for each entry that moves to the back end. The invariant: every
non-empty level has a positive probability, so nothing starves.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence


class Selector(Protocol):
    """Any object with this is a selector."""

    def choose(self, levels: Sequence[int]) -> int:
        """One of *levels*: the non-empty ones, ascending, at least one."""
        ...


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
        self._scale = 1 / math.log(1 - share)

    def choose(self, levels: Sequence[int]) -> int:
        last = len(levels) - 1
        if not last:
            return levels[0]
        # One random number and a logarithm instead of a coin per level: random() < 1, so that
        # the logarithm exists, and the number of lost coin tosses is its scaled size.
        tosses = int(math.log(1 - self._random()) * self._scale)
        return levels[min(tosses, last)]
