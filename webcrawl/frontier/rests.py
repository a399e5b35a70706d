"""Rest periods of hosts without a back-end queue and of shared clocks, in memory and on disk.

A host whose queue ran empty leaves the host table, but its rest is not over: a URL found a second
later must still wait. Used by the back end, and by shared.py, whose clocks never have a queue. The
invariants: a rest can be looked up until it is over, and at most *limit* rests are in memory: those
that end first. The others go to a store on disk, so any number of hosts may have to rest for an
hour.

A rest is stored under its host and never removed: the host gets no newer one until it is over, and
afterwards it has no effect. So the store may be newer than the frontier's snapshot, which contains
the rests in memory and those that are not in the store's files yet.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Protocol

from webcrawl.clock import TimeSource
from webcrawl.frontier.snapshot import Series

# Rests that are over are removed when there are twice as many rests as after the last removal, and
# at least this many.
_FIRST_TIDY = 1024
# One part in so many of the limit is moved to the store at a time. That takes 30 ms for a limit of
# 65,536 (2026-11, development machine), and makes room for as many more calls.
_SPILLED_SHARE = 16
# A rest in the store, little-endian: ready_at (epoch seconds), seconds until then from the moment
# it was put there, and min_rest.
_REST = struct.Struct("<ddd")


def stored_rest(data: bytes) -> tuple[float, float]:
    """Decode a stored rest period; return its end (epoch seconds) and its *min_rest* (seconds)."""
    until, _, min_rest = _REST.unpack(data)
    return until, min_rest


class RestStore(Protocol):
    """Interface of a store of bytes by key, on disk, in bounded memory; see HostRecords.rests."""

    def get(self, key: str) -> bytes | None:
        """Return the last value stored for *key*, on disk or not yet; None if there is none."""
        ...

    def put(self, key: str, data: bytes) -> None:
        """Store *data* for *key*; it is written to disk in the background."""
        ...

    def unsaved_items(self) -> Iterable[tuple[str, bytes]]:
        """Return the keys and values that may not be on disk yet, in the order of their storing."""
        ...

    def written(self) -> Iterable[Path]:
        """Return the files to fsync so that all values but the unsaved survive a power failure."""
        ...


class HostClocks:
    """Rest periods of hosts without a queue: maps a host to its (ready_at, min_rest).

    *ready_at* is when the host may be contacted, epoch seconds. *min_rest* is the last rest that it
    asked for, in seconds, as in ``BackQueue``. At most *limit* are in memory, the others in
    *store*; if that is None, all are in memory. *clock* returns epoch seconds.
    """

    def __init__(self, *, clock: TimeSource, limit: int, store: RestStore | None) -> None:
        #: Number of rests that were moved to the store.
        self.spilled = 0
        self._clock = clock
        self._limit = limit
        self._store = store
        # The rests in memory, by host.
        self._rests: dict[str, tuple[float, float]] = {}
        #: All hosts rest until this time, as their last contacts may be missing from the log.
        self.quiet_until = 0.0
        # When more rests than this are in memory, those that are over are removed.
        self._tidied_at = min(limit, _FIRST_TIDY)

    def __len__(self) -> int:
        """Return the number of hosts whose rest period is in memory."""
        return len(self._rests)

    def resize(self, limit: int) -> None:
        """Limit the rest periods kept in memory to *limit*, from when the next one is added."""
        self._limit = limit
        self._tidied_at = min(self._tidied_at, limit)

    def remember(self, host: str, ready_at: float, min_rest: float, *, now: float) -> None:
        """Store that *host* rests until *ready_at*, unless that is not after *now*.

        *min_rest* is the last rest that it asked for, in seconds.
        """
        if ready_at > now:
            self._rests[host] = ready_at, min_rest
            if len(self._rests) > self._tidied_at:
                self._tidy(now)

    def _tidy(self, now: float) -> None:
        """Remove rest periods that are over; if too many are left, move the latest to the store.

        Does not wait for the disk.
        """
        rests = {host: rest for host, rest in self._rests.items() if rest[0] > now}
        self._rests = rests
        # Next when there are twice as many, so that the average time per call stays small.
        self._tidied_at = max(2 * len(rests), _FIRST_TIDY)
        if self._store is None:
            return

        self._tidied_at = min(self._tidied_at, self._limit)
        # Make room for many, so that this is not needed again soon.
        most_kept = self._limit - self._limit // _SPILLED_SHARE
        if len(rests) > most_kept:
            first_spilled = sorted([ready_at for ready_at, _ in rests.values()])[most_kept]
            for host in [
                host for host, (ready_at, _) in rests.items() if ready_at >= first_spilled
            ]:
                ready_at, min_rest = rests.pop(host)
                self._store.put(host, _REST.pack(ready_at, ready_at - now, min_rest))
                self.spilled += 1

    def find(self, host: str) -> tuple[float, float] | None:
        """Return the rest period (ready_at, min_rest) of *host*, or None if none is known.

        It may be over. Needs at most one disk access.
        """
        rest = self._find(host)
        if self.quiet_until <= self._clock():
            return rest
        # All hosts rest, including those of which nothing is stored.
        ready_at, min_rest = rest or (0.0, 0.0)
        return max(ready_at, self.quiet_until), min_rest

    def _find(self, host: str) -> tuple[float, float] | None:
        """Return the rest period that is stored for *host*, in memory or on disk, or None."""
        rest = self._rests.get(host)
        if rest is not None or self._store is None:
            return rest
        data = self._store.get(host)
        if data is None:
            return None

        until, longest, min_rest = _REST.unpack(data)
        # A clock that was set back while the machine was down must not prolong the rest.
        return min(until, self._clock() + longest), min_rest

    def all_rested_at(self, hosts: Iterable[str]) -> float:
        """Return when all *hosts* have rested, as far as known in memory; 0.0 if none has to."""
        return max((self._rests[host][0] for host in hosts if host in self._rests), default=0.0)

    def take(self, host: str) -> tuple[float, float] | None:
        """Remove the rest period of *host* from memory, and return it like ``find``.

        From now on the caller keeps it.
        """
        rest = self._rests.pop(host, None)
        if rest is not None or (self._store is None and not self.quiet_until):
            return rest
        return self.find(host)

    # --- snapshot

    def snapshot(self, *, without: Container[str]) -> Series:
        """Return the rest periods that a restart would not find in the files of the store.

        They are tuples (host, ready_at, min_rest), as of this call. It takes 10 ns for each in
        memory, and 0.3 us for each that the store has not saved. If there are two of one host, the
        newer one comes later. Some may be over. Hosts in *without* are left out if their rest
        period is in the store, as ``take`` may have returned it since.
        """
        unsaved: list[tuple[str, float, float]] = []
        if self._store is not None:
            for host, data in self._store.unsaved_items():
                if host not in without:
                    until, _, min_rest = _REST.unpack(data)
                    unsaved.append((host, until, min_rest))

        rests = self._rests.copy()
        in_memory = ((host, at, min_rest) for host, (at, min_rest) in rests.items())
        return Series(len(unsaved) + len(rests), itertools.chain(unsaved, in_memory))

    def written(self) -> Iterable[Path]:
        """Return the files of the store to fsync, if there is a store."""
        return () if self._store is None else self._store.written()
