"""Due queues: finished entries on disk, by the time at which they are due to be visited again.

A queue contains the entries that become due within a span of some hours, and all of them are
visited when these hours are over. So an entry may be late by a sixth of the time that it waited, or
by an hour, but is never early. Queues that span several hours begin at eight different hours, and a
hash divides the entries between them, so that visits spread over the day instead of coming in
waves. There are at most 400 queues for 128 days. A queue that is due is moved to the front end in
slices, as earlier visits move on to the back end (Parked.release). The invariant: an entry is here
or elsewhere in the frontier, never both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from zlib import crc32

from webcrawl.clock import TimeSource
from webcrawl.frontier.finished import FinishedKeys
from webcrawl.frontier.front_end import FrontEnd
from webcrawl.frontier.parked import Classify, Parked
from webcrawl.frontier.snapshot import FrontierCounts
from webcrawl.storage.fifo import FifoSnapshot

_PREFIX = "due_"
# Entries per frame. Few, because one frame of each queue is in memory.
_CHUNK = 16
_HOUR = 3600.0
# A queue spans at most 1/_FRACTION of the time until it is due, so no entry is later than that.
_FRACTION = 6
# Queues that span at least this many hours begin at this many different hours.
_SHIFTS = 8
# The next slice is moved when fewer visits than this wait in the front end.
_MIN_AHEAD = 512


class DueQueues:
    """Queues in ``<path>/due_<hour>/``, by the hour since the epoch at which they are due.

    Due entries are moved to *front*, except those that are *finished*. *clock* returns epoch
    seconds.
    """

    def __init__(
        self, *, path: Path, front: FrontEnd, finished: FinishedKeys, clock: TimeSource
    ) -> None:
        self._queues = Parked(
            path=path, front=front, finished=finished, counts=FrontierCounts(), chunk=_CHUNK
        )
        self._clock = clock
        #: Number of visits that wait in the front end; those of an earlier process are not counted.
        self.ahead = 0
        # The hour of the first non-empty queue, since the epoch; None if all are empty.
        self._next: int | None = None
        # Names of queues that were due and empty when the last snapshot was made.
        self._ended: list[str] = []
        #: Files and directories to fsync before the last snapshot is published.
        self.written = self._queues.written

    def __len__(self) -> int:
        """Return the number of entries in all queues, whether they are due or not."""
        return self._queues.size

    def open(self, snapshots: Mapping[str, FifoSnapshot]) -> None:
        """Restore the queues from *snapshots*; see ``Parked.open``."""
        self._queues.open(snapshots)
        self._find_next()

    def push(self, data: bytes, at: float) -> None:
        """Add the encoded entry *data*, due *at* epoch seconds. Durable with the next snapshot.

        Raises OSError like ``Parked.push``.
        """
        now = self._clock()
        hour = due_hour(max(at, now + 1), now, crc32(data))  # never a queue that is due already
        self._next = hour if self._next is None else min(self._next, hour)
        self._queues.push(f"{_PREFIX}{hour}", [data])

    @property
    def next_at(self) -> float | None:
        """When the next entries are due, epoch seconds; None if there are none."""
        return None if self._next is None else self._next * _HOUR

    @property
    def is_due(self) -> bool:
        """Return whether ``work`` has something to do."""
        next_at = self.next_at
        return next_at is not None and next_at <= self._clock() and self.ahead < _MIN_AHEAD

    def work(self, limit: int, classify: Classify) -> int:
        """Move up to *limit* due entries to the front end, and return how many were checked.

        Does nothing while many visits wait there. *classify* decides which entries are moved, as in
        ``Parked.reconsider``.
        """
        if not self.is_due:
            return 0

        def classify_and_count(batch: list[bytes]) -> tuple[list[bytes], Mapping[str, list[bytes]]]:
            admitted, held = classify(batch)
            self.ahead += len(admitted)
            return admitted, held

        moved = self._queues.release(f"{_PREFIX}{self._next}", limit, classify_and_count)
        self._find_next()
        return moved

    def left_front_end(self) -> None:
        """Record that a visit has moved on from the front end to the back end."""
        self.ahead = max(self.ahead - 1, 0)

    def snapshot(self) -> dict[str, FifoSnapshot]:
        """Return the state of each non-empty queue; see ``Parked.snapshot``."""
        counts = self._queues.counts
        now = self._clock()
        self._ended = [name for name in counts if not counts[name] and due_at(name) <= now]
        return self._queues.snapshot()

    def forget(self) -> None:
        """Delete files that only older snapshots name, and queues that are due and empty."""
        self._queues.forget()
        for name in self._ended:
            self._queues.drop(name)
        self._ended.clear()

    def _find_next(self) -> None:
        """Set the hour of the first non-empty queue."""
        hours = [_hour(name) for name, count in self._queues.counts.items() if count]
        self._next = min(hours, default=None)


def due_name(at: float) -> str:
    """Return the name of a queue that is due *at* epoch seconds, or within an hour."""
    return f"{_PREFIX}{math.ceil(at / _HOUR)}"


def due_at(name: str) -> float:
    """Return when the entries of the queue *name* are due, epoch seconds."""
    return _hour(name) * _HOUR


def _hour(name: str) -> int:
    return int(name.removeprefix(_PREFIX))


def due_hour(at: float, now: float, draw: int) -> int:
    """Return the hour of the queue for an entry that is due *at* and is pushed *now*.

    Both are epoch seconds. There may be several such queues; the random number *draw* chooses one.
    """
    # The number of hours that the queue spans: a power of two, small compared with the time left.
    width = 1
    while width * 2 * _FRACTION * _HOUR <= at - now:
        width *= 2
    # Queues of this width begin at hours that are multiples of it, plus one of several shifts.
    shift = draw % _SHIFTS * width // _SHIFTS
    return math.ceil((at / _HOUR - shift) / width) * width + shift
