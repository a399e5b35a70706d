"""Measures the CPU use of a process and of its event loop, idle cores and waits for disks."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from webcrawl.clock import TimeSource, cpu_time, cpu_time_of_process

# Linux file with three numbers: nanoseconds on a CPU, nanoseconds waiting for one, time slices.
_SCHEDULED = Path("/proc/thread-self/schedstat")
# Linux files: the microseconds in which some program waited for a disk; the ticks of each core.
_DISK_WAITS = Path("/proc/pressure/io")
_CORES = Path("/proc/stat")


class ProcessUse(NamedTuple):
    """CPU use of a process between two measurements, in shares of one core.

    loop: CPU time of the event loop's thread.
    waited: time in which that thread waited for a core that others used.
    process: CPU time of all threads.
    lag: delay of the event loop, in seconds.
    disk: time in which some program of the machine waited for a disk.
    idle: time in which the cores that the process may use were idle, added up.
    """

    loop: float = 0.0
    waited: float = 0.0
    process: float = 0.0
    lag: float = 0.0
    disk: float = 0.0
    idle: float = 0.0


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
        loop, waited, process, disk, idle = (min(secs / elapsed, 64.0) for secs in used)
        if not loop:
            # In virtual time the CPU times stay 0, but Linux still counts the other times.
            return ProcessUse(process=process, lag=lag)
        return ProcessUse(loop, waited, process, lag, disk, idle)

    def _read(self) -> tuple[float, ...]:
        """Return the time, and the seconds of each field of ``ProcessUse`` until now, but *lag*."""
        waited = 0.0
        with suppress(OSError, ValueError, IndexError):
            waited = int(_SCHEDULED.read_bytes().split()[1]) / 1e9
        disk = 0.0
        with suppress(OSError, ValueError, IndexError):
            disk = int(_DISK_WAITS.read_bytes().split(b"total=")[1].split()[0]) / 1e6
        idle = 0.0
        with suppress(OSError, ValueError, IndexError):
            cores = [line.split() for line in _CORES.read_text().splitlines()]
            names = {f"cpu{core}" for core in os.sched_getaffinity(0)}
            ticks = sum(int(core[4]) for core in cores if core and core[0] in names)
            idle = ticks / os.sysconf("SC_CLK_TCK")
        return self._clock(), cpu_time(), waited, cpu_time_of_process(), disk, idle
