"""Meter of a process: how much CPU it and its event loop take, and by how much the loop is late."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from webcrawl.clock import TimeSource, cpu_time, cpu_time_of_process

# Nanoseconds on a CPU and ready for one, and the times it was given one (Linux).
_SCHEDULED = Path("/proc/thread-self/schedstat")


class ProcessUse(NamedTuple):
    """A process between two looks at it: shares of one core, and seconds.

    *loop* is the CPU of the event loop's thread, *waited* what that waited for a core that others
    had, *process* the CPU of all threads. *lag* is by how much the loop was late this time.
    """

    loop: float = 0.0
    waited: float = 0.0
    process: float = 0.0
    lag: float = 0.0


class ProcessMeter:
    """Meter of the thread that calls it and of its process. *clock* gives seconds."""

    def __init__(self, *, clock: TimeSource) -> None:
        self._clock = clock
        self._last = self._read()

    def look(self, lag: float) -> ProcessUse:
        """Since the last look, or since it was made; *lag* is the caller's."""
        last, self._last = self._last, self._read()
        at, *used = (after - before for before, after in zip(last, self._last, strict=True))
        if at <= 0:
            return ProcessUse(lag=lag)
        loop, waited, process = (min(secs / at, 64.0) for secs in used)
        return ProcessUse(loop, waited if loop else 0.0, process, lag)

    def _read(self) -> tuple[float, float, float, float]:
        waited = 0.0
        with suppress(OSError, ValueError, IndexError):
            waited = int(_SCHEDULED.read_bytes().split()[1]) / 1e9
        return self._clock(), cpu_time(), waited, cpu_time_of_process()
