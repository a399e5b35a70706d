"""Epoch time that goes on evenly, whatever is done to the clock of the machine meanwhile.

Handed by wiring.py to all that store when something ends: rests, penalties, robots.txt, addresses.
A clock that is set while the crawl runs, by hand or by a time server, must neither end these early
nor draw them out. A later process begins with the clock as it is then; the frontier's rests are
bounded by their length then (frontier/clocks.py).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def steady_wall(
    *, wall: Callable[[], float] = time.time, clock: Callable[[], float] = time.monotonic
) -> Callable[[], float]:
    """A clock of epoch seconds: *wall* as it is now, and from now on as *clock* goes on."""
    offset = wall() - clock()
    return lambda: clock() + offset
