"""The crawler's only clock: epoch seconds that advance evenly.

``now`` is the clock of this process. It reads the system clock once, when the process starts, and
then adds the time since boot, which nothing can set. So when the system clock is set, no pause ends
early and none takes longer. A shard has a ``Clock`` of its own for what it stores. That clock
continues from the previous process's (crawl/shard/shard.py). If the machine has rebooted, it is set
by the system clock again, but never to a time before the last checkpoint.

Components are given their clock. ``wall_time`` is for dates that people and archives read, not for
comparisons. A rehearsal has its own time (``take_from``). A test ensures that the package gets the
time in no other way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

#: Type of the clocks that components are given; each returns seconds.
TimeSource = Callable[[], float]


class _Source:
    """The functions that every time in the package is read from."""

    wall: TimeSource = time.time
    boot: TimeSource = partial(
        time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    )
    cpu: TimeSource = time.thread_time
    cpu_of_process: TimeSource = time.process_time


def wall_time() -> float:
    """Return the time of the system clock in epoch seconds."""
    return _Source.wall()


def since_boot() -> float:
    """Return the seconds since the machine booted; all processes see the same value."""
    return _Source.boot()


def cpu_time() -> float:
    """Return the CPU time of the calling thread in seconds."""
    return _Source.cpu()


def cpu_time_of_process() -> float:
    """Return the CPU time of all threads of this process in seconds."""
    return _Source.cpu_of_process()


class Clock:
    """Clock that starts at the epoch seconds of *wall* and then advances with *boot*.

    A call takes 0.2 us.
    """

    def __init__(self, *, wall: TimeSource = wall_time, boot: TimeSource | None = None) -> None:
        self._boot = boot or _Source.boot  # since_boot would take 0.15 us more
        #: Saved, and given to ``continue_from`` by a later process of the same boot.
        self.offset = wall() - self._boot()

    def __call__(self) -> float:
        return self._boot() + self.offset

    def continue_from(self, offset: float) -> None:
        """Add *offset* to the time since boot from now on, as an earlier process did."""
        self.offset = offset


#: The clock of this process; it is never set.
now = Clock()


def take_from(*, boot: TimeSource, wall: TimeSource) -> None:
    """Read all times from *boot* and *wall* from now on, for a rehearsal. CPU time is then 0."""
    _Source.boot = staticmethod(boot)
    _Source.wall = staticmethod(wall)
    _Source.cpu = staticmethod(lambda: 0.0)
    _Source.cpu_of_process = _Source.cpu
    now._boot = boot
    now.continue_from(wall() - boot())
