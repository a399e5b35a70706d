"""When hosts without a back-end queue may be contacted again.

A host whose queue ran empty leaves the host table, but its rest is not over: a URL found a second
later must still wait. Used by the back end. The invariant: a remembered time is kept until it is
in the past, and little longer, so the memory is bounded by the contacts of one delay.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Two forgotten for each one remembered is enough to keep up, and bounds the work per call.
_PURGED_PER_CALL = 2


class HostClocks:
    """host -> (ready_at, least): from when it may be contacted, and its last explicit rest.

    *ready_at* is monotonic seconds; *least* as in ``BackQueue``. All operations O(log hosts).
    """

    def __init__(self) -> None:
        self._rests: dict[str, tuple[float, float]] = {}
        # Every remembered time, also of hosts taken or remembered anew since.
        self._heap: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._rests)

    def remember(self, host: str, ready_at: float, least: float, *, now: float) -> None:
        """Keep the rest of *host* if its end is still to come, and forget a few that are over."""
        self.purge(now, limit=_PURGED_PER_CALL)
        if ready_at > now:
            self._rests[host] = ready_at, least
            heapq.heappush(self._heap, (ready_at, host))

    def take(self, host: str) -> tuple[float, float] | None:
        """The rest of *host*, from now on kept by the caller; None when it has none."""
        return self._rests.pop(host, None)

    def purge(self, now: float, *, limit: int) -> None:
        """Forget up to *limit* times that have passed."""
        heap = self._heap
        while limit and heap and heap[0][0] <= now:
            ready_at, host = heapq.heappop(heap)
            rest = self._rests.get(host)
            if rest is not None and rest[0] == ready_at:
                del self._rests[host]
            limit -= 1

    def items(self) -> Iterator[tuple[str, float, float]]:
        """All remembered hosts, some of them perhaps past: (host, ready_at, least)."""
        return ((host, ready_at, least) for host, (ready_at, least) in self._rests.items())

    def check(self) -> list[str]:
        """Empty means sound."""
        times = set(self._heap)
        return [
            f"the clock of {host} is in no purge heap"
            for host, (ready_at, _) in self._rests.items()
            if (ready_at, host) not in times
        ]
