"""Outbox: messages of one shard to others, on disk until their targets have them for good.

The outbox is part of the shard. Appended messages survive ``kill -9``, and power loss from the next
checkpoint on. The sender takes messages in order and reports the ID that each got in the target's
stream. A segment is deleted when all its messages were sent and a published checkpoint of each
target has those IDs. After a restart, or when Redis has lost data, all remaining messages are sent
again. So each message arrives at least once.

Notes that a domain links to a host are first kept in memory, because each page has about ten. They
become one message for each target before the next messages are taken, or before a checkpoint. A
crash loses the notes of the last moment, as it does for host records.

On disk are numbered files, each a record log (storage/record_log.py)::

    NNNNNN.log   segment; the highest is appended to, until it is large or a checkpoint is prepared
    ../requests  empty file: there may be Requests of pages of other shards
    record   := msgpack array [is a barrier, [[target, message], ...]]
    snapshot := msgpack array [version, next number, [[number, size], ...]]

So a snapshot names complete files that never change. Segments with higher numbers were written
later: they are read up to a torn end, and never appended to.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from webcrawl.configuration.decoding import Count, UndecodableError, msgpack_decoder
from webcrawl.hive.bus.messages import MessageError, encode_hosts
from webcrawl.hive.membership.keys import order_of
from webcrawl.storage.atomic import make_directory
from webcrawl.storage.record_log import (
    HEADER_SIZE,
    CorruptRecordError,
    NewerFormatError,
    RecordLog,
    read_records,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_VERSION = 1
_SEGMENT_BYTES = 4 << 20
# Limit of messages in memory that were not taken yet. Others are read from disk again, without
# their cache keys.
_HELD_BYTES = 1 << 16
# Limit of notes in memory.
_MAX_NOTES = 1 << 13
_SUFFIX = ".log"
_REQUESTS = "requests"


class Outgoing(NamedTuple):
    """Message on its way: *payload*, for the shard *target*.

    cache_keys: added to the cache on delivery (see splitter.py); empty if it was read from disk.
    segment: the number of its segment.
    """

    target: int
    payload: bytes
    cache_keys: Sequence[int]
    segment: int


class _Segment:
    """File of messages: its *size* in bytes, and the *last* stream ID by target."""

    __slots__ = ("last", "size", "under_way")

    def __init__(self, size: int) -> None:
        self.size = size
        self.under_way = 0  # messages in memory that are not yet delivered
        self.last: dict[int, str] = {}


class _OutboxSnapshot(msgspec.Struct, array_like=True, frozen=True):
    """Saved state: the number of the next segment, and the needed ones with their sizes."""

    version: int
    number: Count
    segments: list[tuple[Count, Count]]


_encode_record = msgspec.msgpack.Encoder().encode
_decode_record = msgpack_decoder(tuple[bool, list[tuple[int, bytes]]])
_decode_snapshot = msgpack_decoder(_OutboxSnapshot)


class Outbox:
    """Outbox of one shard, in the directory *path*. Belongs to the reactor's thread."""

    def __init__(
        self, *, path: Path, segment_bytes: int = _SEGMENT_BYTES, held_bytes: int = _HELD_BYTES
    ) -> None:
        self._path = path
        self._segment_bytes = segment_bytes
        self._held_bytes = held_bytes
        self._log: RecordLog | None = None
        self._number = 1  # of the next segment, or the one being written
        self._segments: dict[int, _Segment] = {}  # in their order
        self._read = (1, HEADER_SIZE)  # records from here on are on disk only
        self._behind = 0  # bytes of these records
        self._held: deque[Outgoing | None] = deque()  # None is a barrier before the next message
        self._held_size = 0  # bytes of these messages
        self._taken_size = 0  # bytes of messages that were taken but not delivered
        self._taken = 0
        # By target and domain: the hosts that the domain links to, with their cache keys.
        self._notes: dict[int, dict[str, dict[str, int]]] = {}
        self._noted = 0
        self._disposable: list[int] = []
        self._unnamed = 0  # how many of these the last snapshot does not name
        self._unsynced: list[Path] = []
        self.is_open = False

    # --- opening, closing, checkpoints

    def open(self, saved: bytes | None) -> None:
        """Load the state *saved* and the messages appended since; all of them are to be sent.

        Blocks while it reads the latter. Raises CorruptRecordError, NewerFormatError or OSError.
        """
        state = _OutboxSnapshot(_VERSION, 1, []) if saved is None else _decoded(saved, self._path)
        self._unsynced += [*make_directory(self._path), self._path]
        self._number = state.number
        self._segments.clear()
        found = sorted(int(path.stem) for path in self._path.glob(f"*{_SUFFIX}"))
        for number, size in state.segments:
            path = self._file(number)
            length = path.stat().st_size if number in found else 0
            if length < size:
                raise CorruptRecordError(path, length, f"{size} bytes expected")
            self._segments[number] = _Segment(size)
        for number in found:
            if number in self._segments:
                continue
            path = self._file(number)
            # Lower numbers were acknowledged before the snapshot was taken.
            ends = (end for end, _ in read_records(path)) if number >= state.number else ()
            if size := max(ends, default=0):
                self._segments[number] = _Segment(size)
                self._unsynced.append(path)
            else:
                path.unlink()
            self._number = max(self._number, number + 1)
        self.is_open = True
        self.rewind()

    def close(self) -> None:
        """Close without fsync. Idempotent."""
        self.is_open = False
        self._end_segment()

    def snapshot(self) -> bytes:
        """Return the state to save; its segments are not appended to any more."""
        self._append_notes()
        self._end_segment()
        self._unnamed = len(self._disposable)
        segments = [(number, segment.size) for number, segment in self._segments.items()]
        return msgspec.msgpack.encode(_OutboxSnapshot(_VERSION, self._number, segments))

    def written(self) -> list[Path]:
        """Return the files of the last snapshot that were written since the one before."""
        paths, self._unsynced = self._unsynced, []
        return paths

    def forget(self) -> None:
        """Delete the segments that only older snapshots name."""
        for number in self._disposable[: self._unnamed]:
            self._file(number).unlink(missing_ok=True)
        del self._disposable[: self._unnamed]
        self._unnamed = 0

    # --- the shard's side

    def append_all(
        self, messages: Sequence[tuple[int, bytes, Sequence[int]]], *, barrier: bool = False
    ) -> None:
        """Append *messages* by one write: each a target, a payload and cache keys.

        With *barrier* they are not taken before all earlier messages were delivered. OSError when
        the disk is full; then nothing was appended.
        """
        log = self._log or self._begin_segment()
        before = log.size
        log.append(_encode_record((barrier, [(target, data) for target, data, _ in messages])))
        number, segment = self._number, self._segments[self._number]
        segment.size = log.size
        if self._behind or self._held_size >= self._held_bytes:
            self._behind += log.size - before
        else:
            self._hold(segment, barrier, [Outgoing(*message, number) for message in messages])
            self._read = (number, log.size)
        if log.size >= self._segment_bytes:
            self._end_segment()

    def note(self, target: int, domain: str, host: str, cache_key: int) -> None:
        """Note that *domain* links to *host* of the shard *target*."""
        self._notes.setdefault(target, {}).setdefault(domain, {})[host] = cache_key
        self._noted += 1
        if self._noted >= _MAX_NOTES:
            self._append_notes()

    def _append_notes(self) -> None:
        if self._noted:
            messages = [
                (target, encode_hosts(linked), [n for of in linked.values() for n in of.values()])
                for target, linked in self._notes.items()
            ]
            self.append_all(messages)
            self._notes.clear()
            self._noted = 0

    @property
    def has_requests(self) -> bool:
        """Whether it may have Requests from pages of any shard of the process.

        These would be lost with it, so checkpoints of those shards are published after its own.
        """
        return self._path.with_name(_REQUESTS).exists()

    def note_requests(self) -> None:
        """Set ``has_requests``, for as long as the directory exists."""
        self._path.with_name(_REQUESTS).touch()

    def _begin_segment(self) -> RecordLog:
        path = self._file(self._number)
        self._log = RecordLog.open(path, size=0)
        self._segments[self._number] = _Segment(HEADER_SIZE)
        self._unsynced += [path, self._path]
        return self._log

    def _end_segment(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None
            self._number += 1

    def _hold(self, segment: _Segment, barrier: bool, messages: Sequence[Outgoing]) -> None:
        if barrier:
            self._held.append(None)
        self._held.extend(messages)
        segment.under_way += len(messages)
        self._held_size += sum(len(message.payload) for message in messages)

    # --- the sender's side

    @property
    def unsent(self) -> int:
        """Bytes of messages and of records on disk that are not delivered; 0 if all are."""
        return self._behind + self._held_size + self._taken_size + self._noted

    @property
    def size(self) -> int:
        """Bytes of the segments on disk that are still needed."""
        return sum(segment.size for segment in self._segments.values())

    def take(self, limit: int) -> list[Outgoing]:
        """Return the next messages in order, until they have *limit* bytes or more.

        The list is empty when all were taken, or when the next ones wait for their delivery. Reads
        from disk if necessary. Raises CorruptRecordError or OSError.
        """
        with suppress(OSError):  # whoever appends is told that the disk is full
            self._append_notes()
        found: list[Outgoing] = []
        size = 0
        while size < limit and (self._held or self._load()):
            message = self._held[0]
            if message is None:
                if self._taken:
                    break
            else:
                size += len(message.payload)
                self._taken += 1
                found.append(message)
            self._held.popleft()
        self._held_size -= size
        self._taken_size += size
        return found

    def _load(self) -> bool:
        """Read more messages from disk and return whether there were any."""
        while self._behind:
            number, start = self._read
            segment = self._segments.get(number)
            if segment is None or start >= segment.size:
                self._read = (number + 1, HEADER_SIZE)
                continue
            path = self._file(number)
            for end, record in read_records(path, start=start, end=segment.size):
                try:
                    barrier, messages = _decode_record(record)
                except UndecodableError as error:
                    raise CorruptRecordError(path, end, f"not valid messages: {error}") from error
                self._hold(
                    segment, barrier, [Outgoing(*message, (), number) for message in messages]
                )
                self._behind -= end - self._read[1]
                self._read = (number, end)
                if self._held_size >= self._held_bytes:
                    break
            if self._held:
                return True
        return False

    def mark_delivered(self, message: Outgoing, stream_id: str) -> None:
        """Record that *message* is in the stream of its target under *stream_id*."""
        self._taken -= 1
        self._taken_size -= len(message.payload)
        segment = self._segments[message.segment]
        segment.under_way -= 1
        segment.last[message.target] = stream_id

    def acknowledge(self, acks: Mapping[int, str]) -> None:
        """Drop segments whose messages are in published checkpoints of their targets.

        *acks* has the IDs up to which each target has published its stream.
        """
        for number, segment in list(self._segments.items()):
            if number == self._number or segment.under_way or (number, segment.size) > self._read:
                break
            if all(
                target in acks and order_of(last) <= order_of(acks[target])
                for target, last in segment.last.items()
            ):
                del self._segments[number]
                self._disposable.append(number)

    def rewind(self) -> None:
        """Send all remaining messages again, including those that were taken."""
        self._held.clear()
        self._held_size = self._taken_size = self._taken = 0
        for segment in self._segments.values():
            segment.under_way = 0
            segment.last.clear()
        self._read = (min(self._segments, default=self._number), HEADER_SIZE)
        self._behind = sum(segment.size - HEADER_SIZE for segment in self._segments.values())

    def _file(self, number: int) -> Path:
        return self._path / f"{number:06d}{_SUFFIX}"


def segments_of(path: Path, saved: bytes) -> list[tuple[Path, int | None]]:
    """Return the segments of the outbox at *path*, for readers that are not its owner.

    Segments of the snapshot *saved* are valid up to their size; later ones, with None, to their
    end. Raises CorruptRecordError or NewerFormatError.
    """
    state = _decoded(saved, path)
    named = [(path / f"{number:06d}{_SUFFIX}", size) for number, size in state.segments]
    found = sorted(path.glob(f"*{_SUFFIX}"))
    return named + [(file, None) for file in found if int(file.stem) >= state.number]


def messages_of(record: bytes) -> list[bytes]:
    """Return the messages in a *record* of a segment. MessageError if it is not valid."""
    try:
        return [message for _, message in _decode_record(record)[1]]
    except UndecodableError as error:
        raise MessageError(str(error)) from error


def _decoded(saved: bytes, path: Path) -> _OutboxSnapshot:
    try:
        state = _decode_snapshot(saved)
    except UndecodableError as error:
        raise CorruptRecordError(path, 0, f"its snapshot: {error}") from error
    if state.version > _VERSION:
        raise NewerFormatError(path, state.version, _VERSION)
    return state
