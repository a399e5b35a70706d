"""The crawler's only clock: epoch seconds that go on evenly, whatever the machine's clock does.

``now`` is the clock of this process: the machine's clock as it was when the process began, and from
then on the time since the machine was started, which nothing sets. A clock that is set, by hand or
by a time server, neither ends a rest early nor draws it out. What is stored is told by a ``Clock``
of its own, which goes on with the reckoning of the process before (crawl/shard/shard.py) until the
machine is started anew.

Components are given their clock. ``wall_time`` is for dates that people and archives read, not for
a comparison. A rehearsal has a time of its own (``take_from``). A test keeps every other way to the
time out of the package.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

#: Type of the clocks that components are given; they return seconds.
TimeSource: TypeAlias = Callable[[], float]


class _Source:
    """Where the time comes from."""

    wall: TimeSource = time.time
    boot: TimeSource = partial(
        time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    )
    cpu: TimeSource = time.thread_time
    cpu_of_process: TimeSource = time.process_time


def wall_time() -> float:
    """Epoch seconds as the machine's clock is set."""
    return _Source.wall()


def since_boot() -> float:
    """Seconds since the machine was started, the same to all processes."""
    return _Source.boot()


def cpu_time() -> float:
    """Seconds of CPU that the calling thread has taken."""
    return _Source.cpu()


def cpu_time_of_process() -> float:
    """Seconds of CPU that all threads of this process have taken."""
    return _Source.cpu_of_process()


class Clock:
    """Epoch seconds: *wall* as it is now, and from now on as *boot* goes on. 0.2 us a call."""

    def __init__(self, *, wall: TimeSource = wall_time, boot: TimeSource | None = None) -> None:
        self._boot = boot or _Source.boot  # not by since_boot, which takes 0.15 us more
        #: To be saved, and given to ``go_on`` by a later process of the same boot.
        self.offset = wall() - self._boot()

    def __call__(self) -> float:
        return self._boot() + self.offset

    def go_on(self, offset: float) -> None:
        """Reckon as the process did that saved *offset* since the machine was started."""
        self.offset = offset


#: The clock of this process; it is never moved.
now = Clock()


def take_from(*, boot: TimeSource, wall: TimeSource) -> None:
    """Take all time from these: in a rehearsal. Work of the CPU takes none."""
    _Source.boot, _Source.wall = staticmethod(boot), staticmethod(wall)
    _Source.cpu = _Source.cpu_of_process = staticmethod(lambda: 0.0)
    now._boot = boot
    now.go_on(wall() - boot())
