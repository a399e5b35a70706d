"""Measures the CPU use of a process and of its event loop."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from webcrawl.clock import TimeSource, cpu_time, cpu_time_of_process

# Linux file with three numbers: nanoseconds on a CPU, nanoseconds waiting for one, time slices.
_SCHEDULED = Path("/proc/thread-self/schedstat")


class ProcessUse(NamedTuple):
    """CPU use of a process between two measurements, in shares of one core.

    loop: CPU time of the event loop's thread.
    waited: time in which that thread waited for a core that others used.
    process: CPU time of all threads.
    lag: delay of the event loop, in seconds.
    """

    loop: float = 0.0
    waited: float = 0.0
    process: float = 0.0
    lag: float = 0.0


class ProcessMeter:
    """Measures the CPU use of the calling thread and its process. *clock* returns seconds."""

    def __init__(self, *, clock: TimeSource) -> None:
        self._clock = clock
        self._last = self._read()

    def look(self, lag: float) -> ProcessUse:
        """Return the CPU use since the last call, or since the meter was created, with *lag*."""
        last = self._last
        self._last = self._read()
        elapsed, *used = (after - before for before, after in zip(last, self._last, strict=True))
        if elapsed <= 0:
            return ProcessUse(lag=lag)
        # The limit is for two calls so close together that the clocks are not exact enough.
        loop, waited, process = (min(secs / elapsed, 64.0) for secs in used)
        # In virtual time the CPU times stay 0, but Linux still counts the waiting time.
        return ProcessUse(loop, waited if loop else 0.0, process, lag)

    def _read(self) -> tuple[float, float, float, float]:
        """Return (time, the thread's CPU time, its waiting time, the process's CPU time)."""
        waited = 0.0
        with suppress(OSError, ValueError, IndexError):
            waited = int(_SCHEDULED.read_bytes().split()[1]) / 1e9
        return self._clock(), cpu_time(), waited, cpu_time_of_process()
