"""Tails: the longest back-end queues by the time that they take.

Looked for in slices, as there may be 100,000 queues: each call looks at the next 500 of them, and
again at the longest so far. 1.3 us for each.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webcrawl.frontier.back_queue import BackQueue

_LOOKED_AT = 500
_KEPT = 32
# Seconds between two contacts of a host of which nothing is known.
_USUAL = 3.0


class Tails:
    """The longest of the queues in *table*."""

    def __init__(self, table: Mapping[str, BackQueue]) -> None:
        self._table = table
        self._left: list[str] = []
        self._kept: list[str] = []

    def longest(self) -> list[BackQueue]:
        """Those found until now, the longest first."""
        self._left = self._left or [*self._table]
        keys = {*self._kept, *self._left[-_LOOKED_AT:]}
        del self._left[-_LOOKED_AT:]
        queues = [queue for key in keys if (queue := self._table.get(key))]
        found = heapq.nlargest(_KEPT, queues, key=_secs_of)
        self._kept = [queue.host for queue in found]
        return found


def _secs_of(queue: BackQueue) -> float:
    return len(queue) * max(queue.min_rest, queue.period, _USUAL)
