"""Overflow of the back-end queues: a queue on disk for each host with many URLs.

The back end takes an overflow when a host's queue is full, and retires it when it has drained. The
invariant: a number is reused only when no published snapshot names its former contents.

Each overflow is a DiskFifo. They are numbered, not named by host, and share 256 directories,
because making, syncing and linking a directory per host cost 0.13 ms. The segments of overflow
*number* are ``<path>/<nn>/<segment>.log``, from segment ``number << 20`` on; a host will never need
more than these million segments of 1 MiB.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from webcrawl.storage.fifo import DiskFifo, FifoSnapshot, segments_in

# Entries per frame. A spilled queue has up to two frames in memory, and so in every snapshot.
# Larger frames would make these larger; smaller ones would make disk accesses less useful.
CHUNK = 16
# A back-end queue is short compared with a front-end queue, so disk space is freed early.
SEGMENT_BYTES = 1 << 20
# Bits of a segment's number within its overflow.
_SEGMENT_BITS = 20
# Deleting a file takes 0.01 to 1 ms. Files that one ``forget`` leaves are deleted by the next call,
# or when a queue needs an overflow.
_EMPTIED_PER_CALL = 100


class Overflows:
    """The overflows below *path*: created, retired and reused. Not thread-safe."""

    def __init__(self, *, path: Path) -> None:
        self.path = path
        #: Number of overflows that were taken and not retired.
        self.in_use = 0
        # The highest number in use so far, and lower ones that can be used again.
        self._highest_number = 0
        self._free_numbers: list[int] = []
        # Overflows that were drained since the last snapshot.
        self._drained: list[DiskFifo] = []
        # Overflows that were drained before the last snapshot, which does not name them.
        self._doomed: list[DiskFifo] = []
        # Overflows that no published snapshot names: their files can be deleted.
        self._forgotten: list[DiskFifo] = []
        # Files to sync, and overflows with files that are no longer needed. All overflows add to
        # these sets, so that a checkpoint does not have to ask each of them.
        self._written: set[Path] = set()
        self._used_up: set[DiskFifo] = set()

    def open(self, kept: Mapping[int, FifoSnapshot]) -> dict[int, DiskFifo]:
        """Restore and return the overflows *kept* in a snapshot, by number; empty all others.

        Raises CorruptRecordError if a file that one of them needs is damaged.
        """
        # By number of the overflow, which is in the upper bits of its segments' numbers.
        segments_on_disk: defaultdict[int, set[int]] = defaultdict(set)
        for directory in self.path.glob("*/"):
            for segment in segments_in(directory):
                segments_on_disk[segment >> _SEGMENT_BITS].add(segment)

        overflows = {}
        for number, snapshot in kept.items():
            overflow = self._overflow(number)
            overflows[number] = overflow
            overflow.open(snapshot, segments_on_disk.pop(number, ()))

        # The remaining segments belong to overflows that the snapshot does not name.
        for number, segments in segments_on_disk.items():
            self._overflow(number).open(None, segments)
        self._free_numbers += segments_on_disk
        self._highest_number = max([0, *overflows, *segments_on_disk])
        self.in_use = len(overflows)
        return overflows

    def take(self) -> DiskFifo:
        """Return an empty overflow. Nothing is written until it holds more than two frames."""
        self.in_use += 1
        if not self._free_numbers:
            self._empty_forgotten(1)
        if self._free_numbers:
            return self._overflow(self._free_numbers.pop())
        self._highest_number += 1
        return self._overflow(self._highest_number)

    def retire(self, overflow: DiskFifo) -> None:
        """Retire *overflow*, which has drained; the last snapshot may still need its files."""
        self.in_use -= 1
        self._used_up.discard(overflow)
        self._drained.append(overflow)

    def seal(self) -> None:
        """Record that a snapshot is being made, which names no overflow retired so far."""
        self._doomed += self._drained
        self._drained = []

    def forget(self) -> None:
        """Empty the overflows retired before the last snapshot, once that is published."""
        self._forgotten += self._doomed
        self._doomed = []
        # Overflows that may still have unneeded files stay in the set.
        self._used_up -= {overflow for overflow in self._used_up if not overflow.forget()}
        self._empty_forgotten(_EMPTIED_PER_CALL)

    def _empty_forgotten(self, limit: int) -> None:
        """Delete the files of up to *limit* forgotten overflows, whose numbers become free."""
        while limit and self._forgotten:
            overflow = self._forgotten.pop()
            overflow.clear()
            self._free_numbers.append(number_of(overflow))
            limit -= 1

    def written(self) -> list[Path]:
        """Return the files to fsync, including those of retired overflows."""
        written = [*self._written]
        self._written.clear()
        return written

    def _overflow(self, number: int) -> DiskFifo:
        """Return a new object for overflow *number*; it does not touch the disk yet."""
        return DiskFifo(
            path=overflow_path(self.path, number),
            first_segment=number << _SEGMENT_BITS,
            chunk_items=CHUNK,
            segment_bytes=SEGMENT_BYTES,
            unsynced=self._written,
            with_garbage=self._used_up,
        )


def number_of(overflow: DiskFifo) -> int:
    """Return the number by which a snapshot names *overflow*."""
    return overflow.first_segment >> _SEGMENT_BITS


def overflow_path(path: Path, number: int) -> Path:
    """Return the directory of overflow *number*, below *path*."""
    return path / f"{number % 256:02x}"
