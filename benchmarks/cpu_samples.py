"""Stacks by CPU time: ``python cpu_samples.py OUT PYTHON SCRIPT [ARGUMENT ...]``.

Runs SCRIPT in this process; PYTHON, which a command begins with, is left out. Each millisecond of
the process's CPU time the main thread's stack, and the name of each other thread, gets what the
thread has taken since the last time. A profiler that looks by the clock, as py-spy does, takes a
thread that waits for a processor for a busy one: a UDP packet, after which the kernel often goes on
with its receiver, took 34 us by that, and takes 6. What C code takes is the next Python frame's.

OUT gets a line for each stack: the frames from the outermost on, and microseconds.
"""

from __future__ import annotations

import atexit
import runpy
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import CodeType, FrameType

_SECS = 0.001


class Samples:
    """The CPU seconds of stacks, and of threads."""

    def __init__(self) -> None:
        self._secs: Counter[tuple[str | CodeType, ...]] = Counter()
        self._taken: dict[int, float] = {}

    def take(self, _number: int, frame: FrameType | None) -> None:
        """Handler of the signal, in the main thread, which was at *frame*."""
        main, taken = threading.main_thread().ident, {}
        for thread in threading.enumerate():
            ident = thread.ident
            if ident is None:
                continue  # it is being started
            secs = cpu_secs(ident) - self._taken.get(ident, 0.0)
            self._secs[stack_of(frame) if ident == main else (thread.name,)] += secs
            taken[ident] = cpu_secs(ident)  # what this has taken is not the script's
        self._taken = taken  # a later thread may get the ident of one that has ended

    def write(self, path: Path) -> None:
        """Write all to *path*."""
        with path.open("w", encoding="utf-8") as file:
            for stack, secs in self._secs.items():
                frames = [
                    one if isinstance(one, str) else f"{one.co_qualname} ({one.co_filename})"
                    for one in stack
                ]
                file.write(f"{';'.join(frames)} {round(secs * 1e6)}\n")


def cpu_secs(thread: int) -> float:
    """CPU seconds that *thread* has taken."""
    return time.clock_gettime(time.pthread_getcpuclockid(thread))


def stack_of(frame: FrameType | None) -> tuple[CodeType, ...]:
    """What runs in *frame*, and what has called it, the outermost first."""
    codes = []
    while frame is not None:
        codes.append(frame.f_code)
        frame = frame.f_back
    return tuple(reversed(codes))


def main() -> None:
    out, _, *sys.argv = sys.argv[1:]
    samples = Samples()
    signal.signal(signal.SIGPROF, samples.take)
    signal.siginterrupt(signal.SIGPROF, False)
    atexit.register(samples.write, Path(out).absolute())
    atexit.register(signal.setitimer, signal.ITIMER_PROF, 0)
    signal.setitimer(signal.ITIMER_PROF, _SECS, _SECS)
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
