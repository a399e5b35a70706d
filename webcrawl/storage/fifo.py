"""Disk FIFO: a queue of byte strings of which only the head and the tail are in memory.

Mercator, section 3.1: "each of the FIFO queues stores the bulk of its URLs on disk, and buffers
only a fixed number of the URLs at its head and tail in memory". The front-end queues are disk
FIFOs, and so are the back-end queues of hosts with more URLs than fit in memory.

Order of the items: ``head`` (memory), then the overflow (disk), then ``tail`` (memory)::

    pop <- head  <-  000003.log 000004.log ... 000007.log  <-  tail <- push

A full tail is written to disk as one frame of ``chunk_items`` items. An empty head is filled with
the next frame, or with the tail itself if nothing is on disk, so a short queue never uses the disk.

Segments are record logs (record_log.py). Their payloads are made by ``pack_many`` and
compressed. An empty record ends a full segment; a full segment without one has lost its last
frames.

Restart: ``snapshot()`` returns the head, the tail, and the segments and offsets between which the
overflow is. ``open(snapshot)`` cuts off what was written after the snapshot. Segments that were
read to their end after the snapshot still exist: ``forget()`` deletes them only once a newer
snapshot has been published. No file is open between calls, so a million queues use no file
descriptors.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from webcrawl.storage.atomic import make_directory
from webcrawl.storage.record_log import (
    HEADER_SIZE,
    CorruptRecordError,
    RecordLog,
    compress,
    decompress,
    pack_many,
    read_record,
    read_records,
    unpack_many,
)

#: The record that ends a full segment.
SEGMENT_END = b""
_SUFFIX = ".log"
# Bytes of segments that one call of ``forget`` deletes; that takes 0.2 ms per megabyte.
_DELETED_BYTES = 64 << 20
# The level of compression (docs/why/decisions.md, 2026-11-29), and how compressed frames begin.
_LEVEL = 1
_COMPRESSED = b"\x78"
#: Stands for the offset at which a full segment ends, which only its end record marks.
TO_SEGMENT_END = sys.maxsize


class FifoSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """State of a ``DiskFifo``: the items in memory, and where those on disk begin and end.

    The overflow is from ``head_offset`` in segment ``head_segment`` to ``tail_offset`` in segment
    ``tail_segment``, and has ``overflow`` items. A ``tail_offset`` of 0 means that the tail segment
    does not exist yet.
    """

    head: list[bytes]
    tail: list[bytes]
    head_segment: int
    head_offset: int
    tail_segment: int
    tail_offset: int
    overflow: int


def unpack_frame(payload: bytes) -> list[bytes]:
    """Return the items of a frame. Raises ValueError if *payload* is not a valid frame."""
    return unpack_many(_decompress(payload))


def _decompress(payload: bytes) -> bytes:
    """Return the items of a frame as ``pack_many`` made them. Raises ValueError."""
    # Frames of older versions are not compressed. They begin with their item count, 256 or 16.
    return decompress(payload) if payload.startswith(_COMPRESSED) else payload


class DiskFifo:
    """A FIFO queue on disk. Not thread-safe; uses the disk once per *chunk_items* items.

    *path* is the directory of its segments, which are numbered from *first_segment* on; queues may
    share a directory. An owner of many queues passes two sets that all of them share. *unsynced*
    collects the files to be fsynced, so that ``written`` of one queue returns those of all.
    *with_garbage* collects the queues that have segments for ``forget`` to delete.
    """

    def __init__(
        self,
        *,
        path: Path,
        first_segment: int = 0,
        chunk_items: int = 256,
        segment_bytes: int = 16 << 20,
        unsynced: set[Path] | None = None,
        with_garbage: set[DiskFifo] | None = None,
    ) -> None:
        self.path = path
        self.first_segment = first_segment
        self._chunk_items = chunk_items
        self._segment_bytes = segment_bytes
        self._unsynced: set[Path] = set() if unsynced is None else unsynced
        self._with_garbage = with_garbage
        self._restore(self._empty_state())

    def _empty_state(self) -> FifoSnapshot:
        return FifoSnapshot([], [], self.first_segment, HEADER_SIZE, self.first_segment, 0, 0)

    def _restore(self, state: FifoSnapshot) -> None:
        """Replace the state in memory with *state*; reads and deletes no file."""
        # The fields are explained at FifoSnapshot.
        self._head = deque(state.head)
        self._tail = list(state.tail)
        self._overflow = state.overflow
        self._head_segment = state.head_segment
        self._head_offset = state.head_offset
        self._tail_segment = state.tail_segment
        self._tail_offset = state.tail_offset
        if not self._overflow:
            # No file is needed, so none is kept: writing starts over at the tail segment.
            self._head_segment = self._tail_segment
            self._head_offset = HEADER_SIZE
            self._tail_offset = 0
        # Segments exist from ``_first_kept`` on. The newest snapshot needs those from
        # ``_first_needed`` on.
        self._first_kept = self._head_segment
        self._first_needed = self._head_segment

    def open(self, snapshot: FifoSnapshot | None, found: Iterable[int] | None = None) -> None:
        """Restore the state of *snapshot* (None: an empty queue), and delete all other segments.

        *found* has the numbers of this queue's existing segments, or is None if all segments in the
        directory belong to it. Raises CorruptRecordError if a segment is missing or too short. Does
        not read items.
        """
        self._restore(self._empty_state() if snapshot is None else snapshot)
        # With an offset of 0, the tail segment does not exist yet.
        last_live = self._tail_segment if self._tail_offset else self._tail_segment - 1
        live = set(range(self._head_segment, last_live + 1))
        found = segments_in(self.path) if found is None else {*found}
        if missing := live - found:
            raise CorruptRecordError(self._file(min(missing)), 0, "the segment is gone")
        for segment in found - live:
            self._file(segment).unlink()
        if self._tail_offset:
            # Cut off what was written after the snapshot.
            RecordLog.open(self._file(self._tail_segment), size=self._tail_offset).close()

    def __len__(self) -> int:
        return len(self._head) + self._overflow + len(self._tail)

    def push(self, item: bytes) -> None:
        """Append *item*. It stays in memory until the tail is full, and also on an OSError."""
        self._tail.append(item)
        if len(self._tail) >= self._chunk_items:
            self._spill()

    def push_many(self, items: Iterable[bytes]) -> None:
        """Append all *items* in their order."""
        self._tail.extend(items)
        while len(self._tail) >= self._chunk_items:
            self._spill()

    def push_front(self, item: bytes) -> None:
        """Put *item* in front of all others, for example to put back an item that was popped."""
        self._head.appendleft(item)

    def pop(self) -> bytes:
        """Remove and return the oldest item. Raises IndexError when empty."""
        if not self._head:
            self._refill()
        return self._head.popleft()

    def snapshot(self) -> FifoSnapshot:
        """Return the current state, in time proportional to the number of items in memory."""
        # Once the snapshot is published, ``forget`` may delete earlier segments.
        self._first_needed = self._head_segment
        return FifoSnapshot(
            list(self._head),
            list(self._tail),
            self._head_segment,
            self._head_offset,
            self._tail_segment,
            self._tail_offset,
            self._overflow,
        )

    def written(self) -> list[Path]:
        """Return the files and directories that were written since the last call.

        They must be fsynced before a snapshot is published.
        """
        paths = [*self._unsynced]
        self._unsynced.clear()
        return paths

    def forget(self) -> bool:
        """Delete the segments that the last snapshot no longer needs; call it once published.

        If there are many, some are left to later calls, or to ``open``. Returns False if no
        segments are left to delete, now or after the next snapshot.
        """
        # A limited number at a time, because deleting many would block for too long.
        max_deleted = _DELETED_BYTES // self._segment_bytes
        end = min(self._first_needed, self._first_kept + max_deleted)
        for segment in range(self._first_kept, end):
            self._file(segment).unlink(missing_ok=True)
        self._first_kept = end
        return self._first_kept < self._head_segment

    def clear(self) -> None:
        """Delete all segments. The queue is empty afterwards."""
        for segment in range(self._first_kept, self._tail_segment + 1):
            self._file(segment).unlink(missing_ok=True)
        self._restore(self._empty_state())

    def _spill(self) -> None:
        """Write the oldest ``chunk_items`` items of the tail to disk as one frame."""
        if not self._overflow and not self._head:
            # The queue has no older items, so these become its head without using the disk.
            self._head.extend(self._tail[: self._chunk_items])
            del self._tail[: self._chunk_items]
            return

        if self._tail_offset >= self._segment_bytes:  # the segment is full
            self._append(SEGMENT_END)
            self._tail_segment += 1
            self._tail_offset = 0
        if not self._tail_offset:  # the segment is created below
            self._unsynced.update(make_directory(self.path))
            self._unsynced.add(self.path)

        frame = pack_many(self._tail[: self._chunk_items])
        self._tail_offset = self._append(compress(frame, _LEVEL))
        self._overflow += self._chunk_items
        del self._tail[: self._chunk_items]

    def _append(self, payload: bytes) -> int:
        """Write *payload* at the end of the tail segment; return the offset after it."""
        path = self._file(self._tail_segment)
        # Hard links made since ``open`` belong to checkpoints, which ignore bytes after their own
        # end. Copying a segment for each checkpoint would delay the crawl.
        with RecordLog.open(path, size=self._tail_offset, shares=True) as log:
            offset = log.append(payload)
        self._unsynced.add(path)
        return offset

    def _refill(self) -> None:
        """Fill the empty head from the disk, or from the tail if nothing is on disk."""
        if not self._overflow:
            self._head.extend(self._tail)
            self._tail.clear()
            return
        while True:
            path = self._file(self._head_segment)
            # A full segment is read up to its last record.
            is_tail = self._head_segment == self._tail_segment
            end = self._tail_offset if is_tail else TO_SEGMENT_END
            offset, payload = read_record(path, self._head_offset, end)
            if payload != SEGMENT_END:
                break
            # The segment was read to its end: continue with the next one.
            self._head_segment += 1
            self._head_offset = HEADER_SIZE
            if self._with_garbage is not None:
                self._with_garbage.add(self)
        try:
            items = unpack_frame(payload)
        except ValueError as error:
            raise CorruptRecordError(path, self._head_offset, str(error)) from error
        self._head_offset = offset
        self._head.extend(items)
        self._overflow -= len(items)

    def _file(self, segment: int) -> Path:
        return segment_file(self.path, segment)


def read_fifo(
    path: Path,
    snapshot: FifoSnapshot,
    on_damage: Callable[[CorruptRecordError], object] | None = None,
) -> Iterator[bytes]:
    """Yield the items of the queue at *path* as of *snapshot*, the oldest first.

    Each yielded value contains many items, packed by ``pack_many``. For readers other than the
    queue's owner: changes nothing on disk. Raises CorruptRecordError for damage, or if the owner
    has since deleted a segment, as it may after publishing a newer snapshot. If *on_damage* is
    given, it is called instead of raising, and the next segment is read.
    """
    if snapshot.head:
        yield pack_many(snapshot.head)
    for file, start, end in segments_of(path, snapshot):
        try:
            yield from _frames(file, start, end)
        except CorruptRecordError as error:
            if on_damage is None:
                raise
            on_damage(error)
    if snapshot.tail:
        yield pack_many(snapshot.tail)


def _frames(file: Path, start: int, end: int) -> Iterator[bytes]:
    """Yield the decompressed records of a segment, from byte *start* to byte *end*.

    The record that ends a full segment is left out.
    """
    for offset, payload in read_records(file, start=start, end=end):
        if payload == SEGMENT_END:
            break
        try:
            yield _decompress(payload)
        except ValueError as error:
            raise CorruptRecordError(file, offset, str(error)) from error


def segments_of(path: Path, snapshot: FifoSnapshot) -> Iterator[tuple[Path, int, int]]:
    """Yield the segments of the queue at *path* that contain items as of *snapshot*.

    They are tuples of the file, the offset of the first record, and the offset of the end, which is
    TO_SEGMENT_END if a record marks it.
    """
    if not snapshot.overflow:
        return
    first = snapshot.head_segment
    last = snapshot.tail_segment
    # With an offset of 0, the last segment does not exist yet.
    for segment in range(first, last + bool(snapshot.tail_offset)):
        start = snapshot.head_offset if segment == first else HEADER_SIZE
        end = snapshot.tail_offset if segment == last else TO_SEGMENT_END
        yield segment_file(path, segment), start, end


def length_of(snapshot: FifoSnapshot) -> int:
    """Return the number of items in the queue as of *snapshot*."""
    return len(snapshot.head) + snapshot.overflow + len(snapshot.tail)


def segments_in(path: Path) -> set[int]:
    """Return the numbers of the segments in the directory *path*, which need not exist."""
    # glob would make a Path for each of what may be 100,000 segments at a restart.
    try:
        names = os.listdir(path)  # noqa: PTH208  # see above
    except FileNotFoundError:
        return set()
    return {int(name[: -len(_SUFFIX)]) for name in names if name.endswith(_SUFFIX)}


def segment_file(path: Path, segment: int) -> Path:
    """Return the path of the file with number *segment* of the queue at *path*."""
    return path / f"{segment:08d}{_SUFFIX}"
