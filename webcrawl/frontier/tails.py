"""Tails: the back-end queues that will take the longest time to finish.

As there may be 100,000 queues, they are searched in slices: each call looks at the next 500 of them
and again at the longest so far, 1.3 us for each.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webcrawl.frontier.back_queue import BackQueue

_CHECKED_PER_CALL = 500
_MAX_KEPT = 32
# Seconds assumed between two contacts of an unknown host.
_USUAL = 3.0


class Tails:
    """Finder of the longest queues in *table*."""

    def __init__(self, table: Mapping[str, BackQueue]) -> None:
        self._table = table
        self._unchecked: list[str] = []
        self._longest: list[str] = []

    def longest(self) -> list[BackQueue]:
        """Return the longest queues found so far, longest first."""
        self._unchecked = self._unchecked or [*self._table]
        keys = {*self._longest, *self._unchecked[-_CHECKED_PER_CALL:]}
        del self._unchecked[-_CHECKED_PER_CALL:]
        queues = [queue for key in keys if (queue := self._table.get(key))]
        found = heapq.nlargest(_MAX_KEPT, queues, key=_estimated_secs)
        self._longest = [queue.host for queue in found]
        return found


def _estimated_secs(queue: BackQueue) -> float:
    return len(queue) * max(queue.min_rest, queue.period, _USUAL)
