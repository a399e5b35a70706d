"""When hosts without a back-end queue may be contacted again.

A host whose queue ran empty leaves the host table, but its rest is not over: a URL found a second
later must still wait. Used by the back end. The invariant: a remembered time is kept until it is
in the past, and little longer, so the memory is bounded by the contacts of one delay.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import ItemsView

# Two forgotten for each one remembered is enough to keep up, and bounds the work per call.
_PURGED_PER_CALL = 2


class HostClocks:
    """host -> monotonic time from which it may be contacted. All operations O(log hosts)."""

    def __init__(self) -> None:
        self._ready_at: dict[str, float] = {}
        # Every remembered time, also of hosts taken or remembered anew since.
        self._heap: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._ready_at)

    def remember(self, host: str, ready_at: float, *, now: float) -> None:
        """Keep *ready_at* for *host* if it is still to come, and forget a few that are not."""
        self.purge(now, limit=_PURGED_PER_CALL)
        if ready_at > now:
            self._ready_at[host] = ready_at
            heapq.heappush(self._heap, (ready_at, host))

    def take(self, host: str) -> float | None:
        """The time of *host*, which is then kept by whoever asked; None when it may be now."""
        return self._ready_at.pop(host, None)

    def purge(self, now: float, *, limit: int) -> None:
        """Forget up to *limit* times that have passed."""
        heap = self._heap
        while limit and heap and heap[0][0] <= now:
            ready_at, host = heapq.heappop(heap)
            if self._ready_at.get(host) == ready_at:
                del self._ready_at[host]
            limit -= 1

    def items(self) -> ItemsView[str, float]:
        """All remembered hosts, some perhaps past."""
        return self._ready_at.items()

    def check(self) -> list[str]:
        """Empty means sound."""
        times = set(self._heap)
        return [
            f"the clock of {host} is in no purge heap"
            for host, ready_at in self._ready_at.items()
            if (ready_at, host) not in times
        ]
