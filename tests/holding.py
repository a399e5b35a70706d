"""Whether an iterator gives way to who asks it, in CPU time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# On a busy machine, and with coverage measured, one of them may have bad luck.
_RUNS = 3


def gives_way(begin: Callable[[], Iterator[object]], *, secs: float) -> bool:
    """Whether no step takes *secs* of this thread's time, in one of several runs."""
    return any(_longest_step(begin()) < secs for _ in range(_RUNS))


def _longest_step(found: Iterator[object]) -> float:
    longest = 0.0
    started = time.thread_time()
    for _ in found:
        now = time.thread_time()
        longest = max(longest, now - started)
        started = now
    return longest
