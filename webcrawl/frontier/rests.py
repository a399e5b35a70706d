"""Rests of hosts without a back-end queue and of shared clocks, in memory and in a store.

A host whose queue ran empty leaves the host table, but its rest is not over: a URL found a second
later must still wait. Used by the back end, and by shared.py, whose clocks never have a queue. The
invariants: a rest is found until it is over; and at most *limit* rests are in memory, those that
end first. The others go to a store on disk, so a crawl may have any number of hosts that are not
to be contacted for an hour.

What is in the store: a rest is put there under its host and never taken away. Before it is over
the host cannot be contacted, so there is no newer one, and afterwards it means nothing.
So it does no harm that the store is ahead of the frontier's snapshot, as it is after a crash. The
snapshot holds the rests in memory and those that are not in the store's files yet; the files are
synced with it (``RestStore.written``), and it does not grow with them.
"""

from __future__ import annotations

import heapq
import itertools
import struct
from typing import TYPE_CHECKING, Protocol

from webcrawl.frontier.snapshot import Series

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable
    from pathlib import Path

# Two forgotten for each one remembered is enough to keep up, and bounds the work per call.
_PURGED_PER_CALL = 2
# A heap is made anew when it is twice as long as it need be and this much longer: some 30 ms for
# 65,536 rests (2026-11, development machine), once in as many calls.
_SLACK = 1024
# A rest in the store, little-endian: ready_at (epoch seconds), seconds until then from the moment
# it was put there, and min_rest.
_REST = struct.Struct("<ddd")
assert _REST.size == 24


def stored_rest(data: bytes) -> tuple[float, float]:
    """The end (epoch seconds) and the *min_rest* of a rest, as they were put into a store."""
    until, _, min_rest = _REST.unpack(data)
    return until, min_rest


class RestStore(Protocol):
    """Bytes by name, on disk, bounded in memory; hosts.HostRecords.rests is one."""

    def get(self, key: str) -> bytes | None:
        """The last that was put for *key*, saved or not."""
        ...

    def put(self, key: str, data: bytes) -> None:
        """Keep *data*; written to disk in the background."""
        ...

    def unsaved(self) -> Iterable[tuple[str, bytes]]:
        """What was put and may not be on disk yet, in that order."""
        ...

    def written(self) -> Iterable[Path]:
        """What to fsync so that all that is not unsaved survives a power failure."""
        ...


class HostClocks:
    """host -> (ready_at, min_rest): from when it may be contacted, and its last explicit rest.

    *ready_at* is epoch seconds; *min_rest* as in ``BackQueue``. All operations O(log hosts).
    Without a *store* there is no limit.
    """

    def __init__(self, *, clock: Callable[[], float], limit: int, store: RestStore | None) -> None:
        self.spilled = 0
        self._clock = clock
        self._limit = limit
        self._store = store
        self._rests: dict[str, tuple[float, float]] = {}
        #: Until then all hosts rest: when they were last contacted may have been forgotten.
        self.quiet_until = 0.0
        # Every rest in memory by its end, the first or the last of them on top; also those of
        # hosts that were taken, spilled or remembered anew since. The second for the store only.
        self._first: list[tuple[float, str]] = []
        self._last: list[tuple[float, str]] = []

    def __len__(self) -> int:
        """Rests in memory."""
        return len(self._rests)

    def remember(self, host: str, ready_at: float, min_rest: float, *, now: float) -> None:
        """Keep the rest of *host* if its end is still to come, and forget a few that are over."""
        self.purge(now, limit=_PURGED_PER_CALL)
        if ready_at > now:
            self._rests[host] = ready_at, min_rest
            heapq.heappush(self._first, (ready_at, host))
            if self._store is not None:
                heapq.heappush(self._last, (-ready_at, host))
                if len(self._rests) > self._limit:
                    self._spill(self._store)
            self._tidy()

    def find(self, host: str) -> tuple[float, float] | None:
        """The rest of *host*, perhaps over; None when it has none. At most one disk access."""
        rest = self._find(host)
        if self.quiet_until <= self._clock():
            return rest
        ready_at, min_rest = rest or (0.0, 0.0)
        return max(ready_at, self.quiet_until), min_rest

    def _find(self, host: str) -> tuple[float, float] | None:
        rest = self._rests.get(host)
        if rest is not None or self._store is None:
            return rest
        data = self._store.get(host)
        if data is None:
            return None
        until, longest, min_rest = _REST.unpack(data)
        # A clock that was set back while the machine was down must not draw it out.
        return min(until, self._clock() + longest), min_rest

    def take(self, host: str) -> tuple[float, float] | None:
        """As ``find``; from now on the rest is kept by the caller."""
        rest = self._rests.pop(host, None)
        if rest is not None or (self._store is None and not self.quiet_until):
            return rest
        return self.find(host)

    def purge(self, now: float, *, limit: int) -> None:
        """Forget up to *limit* times that have passed."""
        heap = self._first
        while limit and heap and heap[0][0] <= now:
            ready_at, host = heapq.heappop(heap)
            if self._ends(host, ready_at):
                del self._rests[host]
            limit -= 1

    def _ends(self, host: str, ready_at: float) -> bool:
        rest = self._rests.get(host)
        return rest is not None and rest[0] == ready_at

    def _spill(self, store: RestStore) -> None:
        """Put what is too much into the store, the latest first. Does not wait for the disk."""
        while len(self._rests) > self._limit:
            end, host = heapq.heappop(self._last)
            if self._ends(host, -end):
                ready_at, min_rest = self._rests.pop(host)
                store.put(host, _REST.pack(ready_at, ready_at - self._clock(), min_rest))
                self.spilled += 1

    def _tidy(self) -> None:
        """Make the heaps anew when most of what they hold is gone."""
        enough = 2 * len(self._rests) + _SLACK
        if len(self._first) > enough:
            self._first = [(rest[0], host) for host, rest in self._rests.items()]
            heapq.heapify(self._first)
        if len(self._last) > enough:
            self._last = [(-rest[0], host) for host, rest in self._rests.items()]
            heapq.heapify(self._last)

    # --- snapshot

    def snapshot(self, *, without: Container[str]) -> Series:
        """What a restart would not find in the store: (host, ready_at, min_rest),
        as it is now; 10 ns for each in memory, and 0.3 us for each that the store has not saved.

        Of two rests of one host the newer one comes later. Some are perhaps over. Hosts *without*
        are those that were taken since.
        """
        unsaved: list[tuple[str, float, float]] = []
        if self._store is not None:
            for host, data in self._store.unsaved():
                if host not in without:
                    until, _, min_rest = _REST.unpack(data)
                    unsaved.append((host, until, min_rest))
        rests = self._rests.copy()
        held = ((host, at, min_rest) for host, (at, min_rest) in rests.items())
        return Series(len(unsaved) + len(rests), itertools.chain(unsaved, held))

    def written(self) -> Iterable[Path]:
        """See ``Frontier.written``."""
        return () if self._store is None else self._store.written()
