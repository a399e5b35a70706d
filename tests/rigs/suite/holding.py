"""Whether an iterator gives way to who asks it, in CPU time."""

import sys
import time

# On a busy machine one of them may have bad luck.
_RUNS = 3


def gives_way(begin, *, secs):
    """Whether no step takes *secs* of this thread's time, in one of several runs."""
    slower = 4 if sys.gettrace() else 1  # while coverage is measured
    return any(_longest_step(begin()) < secs * slower for _ in range(_RUNS))


def _longest_step(found):
    longest = 0.0
    started = time.thread_time()
    for _ in found:
        now = time.thread_time()
        longest = max(longest, now - started)
        started = now
    return longest
