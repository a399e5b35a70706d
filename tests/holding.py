"""How long an iterator keeps who asks it, in CPU time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# On a busy machine, and with coverage measured, one of them may have bad luck.
_RUNS = 3


def longest_hold(begin: Callable[[], Iterator[object]]) -> float:
    """Seconds of this thread's time that the slowest step takes, of several runs the best."""
    return min(_longest_step(begin()) for _ in range(_RUNS))


def _longest_step(found: Iterator[object]) -> float:
    longest = 0.0
    started = time.thread_time()
    for _ in found:
        now = time.thread_time()
        longest = max(longest, now - started)
        started = now
    return longest
