"""Outbox: the messages of one shard to others, on disk until their targets have them for good.

A part of the shard. What is appended is durable (``kill -9``; power loss from the next checkpoint
on). The sender takes messages in their order, and says which ID of the target's stream carried
each. A segment goes when all its messages were sent and a published checkpoint of each target has
that ID. After a restart, or when Redis has lost something, all that is left is sent again: each
message arrives at least once.

That a domain links to a host is noted in memory, as each page has ten such notes, and becomes one
message for each target before the next are taken, or a checkpoint. A crash loses those of the last
moment, as host records do.

On disk, numbered in their order, each a record log (storage/record_log.py)::

    NNNNNN.log   segment; the highest is appended to, until it is large or a checkpoint is prepared
    ../requests  empty file: there may be Requests of pages of other shards
    record   := msgpack array [is a barrier, [[target, message], ...]]
    snapshot := msgpack array [version, next number, [[number, size], ...]]

So a snapshot names whole files that never change. Segments behind them were written since: they are
read up to a torn end, and never appended to.
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
# Messages in memory that were not taken yet; more are read from disk again, without their names.
_HELD_BYTES = 1 << 16
# Notes in memory.
_NOTES = 1 << 13
_SUFFIX = ".log"
_REQUESTS = "requests"


class Outgoing(NamedTuple):
    """A message on its way: *payload*, for the shard *target*.

    names: what its delivery spares (see splitter.py); none if it was read from disk.
    segment: that it is in.
    """

    target: int
    payload: bytes
    names: Sequence[int]
    segment: int


class _Segment:
    """A file of messages: *size* in bytes; *last* is the ID that each target's last one got."""

    __slots__ = ("last", "size", "under_way")

    def __init__(self, size: int) -> None:
        self.size = size
        self.under_way = 0  # messages in memory that were not delivered
        self.last: dict[int, str] = {}


class _OutboxSnapshot(msgspec.Struct, array_like=True, frozen=True):
    """The number of the next segment, and those before it that are needed, with their sizes."""

    version: int
    number: Count
    segments: list[tuple[Count, Count]]


_encode_record = msgspec.msgpack.Encoder().encode
_decode_record = msgpack_decoder(tuple[bool, list[tuple[int, bytes]]])
_decode_snapshot = msgpack_decoder(_OutboxSnapshot)


class Outbox:
    """The outbox of one shard, in the directory *path*. Belongs to the reactor's thread."""

    def __init__(
        self, *, path: Path, segment_bytes: int = _SEGMENT_BYTES, held_bytes: int = _HELD_BYTES
    ) -> None:
        self._path = path
        self._segment_bytes = segment_bytes
        self._held_bytes = held_bytes
        self._log: RecordLog | None = None
        self._number = 1  # of the next segment, or that being written
        self._segments: dict[int, _Segment] = {}  # in their order
        self._read = (1, HEADER_SIZE)  # what is on disk from here on is not in memory
        self._behind = 0  # bytes of records from there on
        self._held: deque[Outgoing | None] = deque()  # None: a barrier is before the next
        self._held_size = 0  # bytes of their messages
        self._taken_size = 0  # of those that were taken and not delivered
        self._taken = 0
        # By target and domain: the hosts that the domain links to, with what their delivery spares.
        self._notes: dict[int, dict[str, dict[str, int]]] = {}
        self._noted = 0
        self._disposable: list[int] = []
        self._unnamed = 0  # of these the last snapshot does not name
        self._unsynced: list[Path] = []
        self.is_open = False

    # --- its life

    def open(self, saved: bytes | None) -> None:
        """Take up the state *saved*, and what was appended since. All of it is to be sent.

        Blocks; reads what was appended since. CorruptRecordError, NewerFormatError, OSError.
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
            # Below the snapshot's: acknowledged before it was taken.
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
        """Its state: the segments until now, none of which is appended to any more."""
        self._append_notes()
        self._end_segment()
        self._unnamed = len(self._disposable)
        segments = [(number, segment.size) for number, segment in self._segments.items()]
        return msgspec.msgpack.encode(_OutboxSnapshot(_VERSION, self._number, segments))

    def written(self) -> list[Path]:
        """The files that the last snapshot names, written since the one before."""
        paths, self._unsynced = self._unsynced, []
        return paths

    def forget(self) -> None:
        """Delete the segments that only snapshots before the last one name."""
        for number in self._disposable[: self._unnamed]:
            self._file(number).unlink(missing_ok=True)
        del self._disposable[: self._unnamed]
        self._unnamed = 0

    # --- the shard's side

    def append_all(
        self, messages: Sequence[tuple[int, bytes, Sequence[int]]], *, barrier: bool = False
    ) -> None:
        """Append *messages*, each for a target, by one write; *names* as in ``Outgoing``.

        With *barrier* they are not taken before all that was appended earlier was delivered.
        OSError when the disk is full: then nothing was appended.
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

    def note(self, target: int, domain: str, host: str, name: int) -> None:
        """Note that *domain* links to *host* of the shard *target*; *name* as in ``Outgoing``."""
        self._notes.setdefault(target, {}).setdefault(domain, {})[host] = name
        self._noted += 1
        if self._noted >= _NOTES:
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
        """Whether it may have Requests of pages of any shard of the process, and these would be
        lost with it: checkpoints of those shards are published after its own."""
        return self._path.with_name(_REQUESTS).exists()

    def note_requests(self) -> None:
        """``has_requests`` from now on, as long as the directory is there."""
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
        """Bytes of messages, and of records on disk, that are not delivered; 0 if all are."""
        return self._behind + self._held_size + self._taken_size + self._noted

    @property
    def size(self) -> int:
        """Bytes of the segments on disk that are still needed."""
        return sum(segment.size for segment in self._segments.values())

    def take(self, limit: int) -> list[Outgoing]:
        """The next messages, in their order, until they are *limit* bytes or more; none when all
        were taken, or when the next ones wait for the delivery of those.

        Reads some of the disk when it is behind. CorruptRecordError, OSError.
        """
        with suppress(OSError):  # a full disk is told to those who append
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
        """Read on from the disk; whether there was anything."""
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
                    raise CorruptRecordError(path, end, f"no messages: {error}") from error
                self._hold(segment, barrier, [Outgoing(*one, (), number) for one in messages])
                self._behind -= end - self._read[1]
                self._read = (number, end)
                if self._held_size >= self._held_bytes:
                    break
            if self._held:
                return True
        return False

    def delivered(self, message: Outgoing, stream_id: str) -> None:
        """*message*, which was taken, is in the stream of its target under *stream_id*."""
        self._taken -= 1
        self._taken_size -= len(message.payload)
        segment = self._segments[message.segment]
        segment.under_way -= 1
        segment.last[message.target] = stream_id

    def acknowledged(self, acks: Mapping[int, str]) -> None:
        """Published checkpoints of the targets have all up to the IDs in *acks*."""
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
        """All that is left is to be sent again; what was taken counts as not taken."""
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
    """The segments of the outbox at *path* as of the snapshot *saved*, each to its size, and those
    written since, to their ends. For readers beside its owner. CorruptRecordError,
    NewerFormatError."""
    state = _decoded(saved, path)
    named = [(path / f"{number:06d}{_SUFFIX}", size) for number, size in state.segments]
    found = sorted(path.glob(f"*{_SUFFIX}"))
    return named + [(file, None) for file in found if int(file.stem) >= state.number]


def messages_of(record: bytes) -> list[bytes]:
    """The messages in a *record* of a segment; MessageError if it is none."""
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
