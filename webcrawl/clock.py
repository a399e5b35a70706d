"""Epoch time that goes on evenly, whatever is done to the clock of the machine meanwhile.

Handed by crawl/builder.py to all that store when something ends: rests, penalties, robots.txt,
addresses. A clock that is set, by hand or by a time server, must neither end these early nor draw
them out: the machine's clock is read once, and from then on what counts is the time since it was
started. A later process goes on with the same reckoning (crawl/opening.py) until the machine is
started anew.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def since_boot() -> float:
    """Seconds since the machine was started, the same to all processes; nobody sets them."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class SteadyWall:
    """Epoch seconds: *wall* as it is now, and from now on as *clock* goes on. 0.2 us a call."""

    def __init__(
        self,
        *,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = since_boot,
    ) -> None:
        self._clock = clock
        #: To be saved, and given to ``go_on`` by a later process of the same boot.
        self.offset = wall() - clock()

    def __call__(self) -> float:
        return self._clock() + self.offset

    def go_on(self, offset: float) -> None:
        """Reckon as the process did that saved *offset* since the machine was started."""
        self.offset = offset
