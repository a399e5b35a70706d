"""Overflow of the back-end queues: a queue on disk for each host with many URLs.

The back end takes an overflow when a queue overflows and retires it when it has drained. The
invariant: a number is used again only when no published snapshot names what it had.

Each is a DiskFifo. They are numbered, not named by host, and share 256 directories: the segments of
overflow *number* are ``<path>/<nn>/<segment>.log``, from segment ``number << 20`` on, and a million
of 1 MiB are more than a host will ever have. A directory for each cost a host with many URLs
0.13 ms to make, sync and link to kept checkpoints.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from webcrawl.storage.fifo import DiskFifo, segments_in

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from webcrawl.storage.fifo import FifoSnapshot

# Entries per frame. A spilled queue holds up to two frames in memory, and so in every snapshot:
# larger frames would make those larger, smaller ones every disk access less useful.
CHUNK = 16
# A back-end queue is short compared with a front-end queue: give disk space back early.
SEGMENT_BYTES = 1 << 20
# Of the number of a segment within its overflow.
_SEGMENT_BITS = 20
# Deleting a file takes 0.01 to 1 ms. What one ``forget`` leaves is emptied by the next, or when a
# queue needs an overflow.
_EMPTIED_PER_CALL = 100


class Overflows:
    """The disk queues below *path*: made, retired and used again. Not thread-safe."""

    def __init__(self, *, path: Path) -> None:
        self.path = path
        self._made = 0
        self._free: list[int] = []
        # Drained since the last snapshot; before it; and named by no published snapshot.
        self._drained: list[DiskFifo] = []
        self._doomed: list[DiskFifo] = []
        self._forgotten: list[DiskFifo] = []
        # Shared by all overflows: a checkpoint must not take the longer the more of them there are.
        self._written: set[Path] = set()
        self._used_up: set[DiskFifo] = set()

    def open(self, kept: Mapping[int, FifoSnapshot]) -> dict[int, DiskFifo]:
        """The overflows that the snapshot has *kept*, by number; all others are emptied.

        Raises CorruptRecordError when a file that one of them needs is damaged.
        """
        found: defaultdict[int, set[int]] = defaultdict(set)
        for directory in self.path.glob("*/"):
            for segment in segments_in(directory):
                found[segment >> _SEGMENT_BITS].add(segment)
        overflows = {}
        for number, snapshot in kept.items():
            overflow = overflows[number] = self._overflow(number)
            overflow.open(snapshot, found.pop(number, ()))
        for number, segments in found.items():
            self._overflow(number).open(None, segments)
        self._free += found
        self._made = max([0, *overflows, *found])
        return overflows

    def take(self) -> DiskFifo:
        """An empty overflow. Nothing is written before it holds more than two frames."""
        if not self._free:
            self._empty_forgotten(1)
        if self._free:
            return self._overflow(self._free.pop())
        self._made += 1
        return self._overflow(self._made)

    def retire(self, overflow: DiskFifo) -> None:
        """*overflow* has drained; the last snapshot may still need its files."""
        self._used_up.discard(overflow)
        self._drained.append(overflow)

    def seal(self) -> None:
        """A snapshot is being made: it names no overflow that was retired before."""
        self._doomed += self._drained
        self._drained = []

    def forget(self) -> None:
        """The last snapshot was published: what was retired before it may be emptied."""
        self._forgotten += self._doomed
        self._doomed = []
        self._used_up -= {overflow for overflow in self._used_up if not overflow.forget()}
        self._empty_forgotten(_EMPTIED_PER_CALL)

    def _empty_forgotten(self, limit: int) -> None:
        while limit and self._forgotten:
            overflow = self._forgotten.pop()
            overflow.clear()
            self._free.append(number_of(overflow))
            limit -= 1

    def written(self) -> list[Path]:
        """See ``Frontier.written``: of all overflows, also those that were retired."""
        written = [*self._written]
        self._written.clear()
        return written

    def _overflow(self, number: int) -> DiskFifo:
        return DiskFifo(
            path=overflow_path(self.path, number),
            first=number << _SEGMENT_BITS,
            chunk=CHUNK,
            segment_bytes=SEGMENT_BYTES,
            written=self._written,
            used_up=self._used_up,
        )


def number_of(overflow: DiskFifo) -> int:
    """The number that names *overflow* in a snapshot."""
    return overflow.first >> _SEGMENT_BITS


def overflow_path(path: Path, number: int) -> Path:
    """The directory below *path* of overflow *number*."""
    return path / f"{number % 256:02x}"
