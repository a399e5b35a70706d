"""The two clocks of the frontier and the way between them.

Politeness is measured on a monotonic clock, which means nothing to another process; what is
stored is epoch time. Used by everything in the frontier that is written to disk. The invariant:
a time that went to disk and came back is never earlier than it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# An epoch time in a double is exact to 2.4e-7 s; what is lost in rounding must not make a host's
# rest shorter.
_ROUNDING = 1e-6


@dataclass(slots=True, frozen=True)
class Clocks:
    """*clock* is monotonic seconds, *wall* epoch seconds."""

    clock: Callable[[], float]
    wall: Callable[[], float]

    def to_wall(self, at: float) -> float:
        """The epoch time of the monotonic time *at*."""
        return self.wall() + (at - self.clock())

    def from_wall(self, at: float, *, longest: float) -> float:
        """The monotonic time of the epoch time *at*.

        *longest* is how far ahead it lay when it was written: a wall clock that was set back
        since then must not put a host to rest for days.
        """
        rest = min(at - self.wall(), longest)
        return self.clock() + (rest + _ROUNDING if rest > 0 else rest)
