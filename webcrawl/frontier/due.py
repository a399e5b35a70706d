"""URLs that are due at a time: queues of finished entries on disk, by when they are visited again.

A queue has the entries whose time comes within some hours, and all of them are due when these are
over: an entry may be late by a sixth of the time that it waited, or an hour, and is never early.
Queues of several hours begin at eight different ones, between which entries are divided by a hash,
so that visits come all day and not in waves. There are at most 400 queues for 128 days. A due queue
is read in slices into the front end, as visits go on to the back end (Parked.release). The
invariant: an entry is here or elsewhere in the frontier, never both.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from zlib import crc32

from webcrawl.frontier.parked import Parked
from webcrawl.frontier.snapshot import FrontierCounts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from webcrawl.clock import TimeSource
    from webcrawl.frontier.finished import FinishedKeys
    from webcrawl.frontier.front_end import FrontEnd
    from webcrawl.frontier.parked import Sort
    from webcrawl.storage.fifo import FifoSnapshot

_NAME = "due_"
# Entries per frame: few, as so many of each queue are in memory.
_CHUNK = 16
_HOUR = 3600.0
# A queue spans so many parts of the time to its end.
_PARTS = 6
# Queues of so many hours or more begin at so many different hours.
_SHIFTS = 8
# Visits that wait in the front end: with fewer the next slice is read.
_FEW = 512


class DueQueues:
    """The queues in ``<path>/due_<hour>/``, by the hour since the epoch at which they are due."""

    def __init__(
        self, *, path: Path, front: FrontEnd, finished: FinishedKeys, clock: TimeSource
    ) -> None:
        self._queues = Parked(path=path, front=front, finished=finished, chunk=_CHUNK)
        self._clock = clock
        #: Visits that wait in the front end, as far as is known.
        self.ahead = 0
        self._next: int | None = None  # the hour of the first queue
        # Queues that were over when the last snapshot was made.
        self._over: list[str] = []
        self.written = self._queues.written

    def __len__(self) -> int:
        """Entries waiting for their time, or in a due queue."""
        return self._queues.size

    def open(self, snapshots: Mapping[str, FifoSnapshot]) -> None:
        """As ``Parked.open``."""
        self._queues.open(snapshots, counts=FrontierCounts())
        self._find_next()

    def push(self, data: bytes, at: float) -> None:
        """Add the encoded entry *data*, due *at* epoch seconds. Durable with the next snapshot.
        OSError as ``Parked.push``."""
        now = self._clock()
        hour = _end(max(at, now + 1), now, crc32(data))  # never a queue that is over
        self._next = hour if self._next is None else min(self._next, hour)
        self._queues.push(f"{_NAME}{hour}", [data])

    @property
    def next_at(self) -> float | None:
        """When the next entries are due; None if there are none."""
        return None if self._next is None else self._next * _HOUR

    @property
    def is_due(self) -> bool:
        """Whether ``work`` has something to do."""
        next_at = self.next_at
        return next_at is not None and next_at <= self._clock() and self.ahead < _FEW

    def work(self, limit: int, sort: Sort) -> int:
        """Let up to *limit* entries that are due into the front end, if few visits wait there;
        returns how many. *sort* as in ``Parked.reconsider``."""
        if not self.is_due:
            return 0

        def counted(batch: list[bytes]) -> tuple[list[bytes], Mapping[str, list[bytes]]]:
            free, held = sort(batch)
            self.ahead += len(free)
            return free, held

        moved = self._queues.release(f"{_NAME}{self._next}", limit, counted)
        self._find_next()
        return moved

    def left_front_end(self) -> None:
        """A visit has gone on to the back end."""
        self.ahead = max(self.ahead - 1, 0)

    def snapshot(self) -> dict[str, FifoSnapshot]:
        """As ``Parked.snapshot``."""
        counts, now = self._queues.counts, self._clock()
        self._over = [name for name in counts if not counts[name] and due_at(name) <= now]
        return self._queues.snapshot()

    def forget(self) -> None:
        """As ``Parked.forget``; queues that are over go with all that they had."""
        self._queues.forget()
        for name in self._over:
            self._queues.drop(name)
        self._over.clear()

    def _find_next(self) -> None:
        hours = [_hour(name) for name, count in self._queues.counts.items() if count]
        self._next = min(hours, default=None)


def due_name(at: float) -> str:
    """The name of a queue that is due *at* epoch seconds, or within an hour."""
    return f"{_NAME}{math.ceil(at / _HOUR)}"


def due_at(name: str) -> float:
    """When the entries of the queue *name* are due, epoch seconds."""
    return _hour(name) * _HOUR


def _hour(name: str) -> int:
    return int(name.removeprefix(_NAME))


def _end(at: float, now: float, draw: int) -> int:
    """The hour at which the queue of what is due *at* is over; *draw* chooses one of several."""
    width = 1
    while width * 2 * _PARTS * _HOUR <= at - now:
        width *= 2
    shift = draw % _SHIFTS * width // _SHIFTS
    return math.ceil((at / _HOUR - shift) / width) * width + shift
