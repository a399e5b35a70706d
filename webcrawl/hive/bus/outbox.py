"""Outbox: messages of one shard to others, on disk until their targets have stored them.

The outbox is part of the shard. Appended messages survive ``kill -9``, and from the next checkpoint
on also power loss. The sender takes messages in order and reports the ID that each got in the
target's stream. A segment is deleted when all of its messages were sent, and a published checkpoint
of each target covers those IDs. After a restart, or when Redis has lost data, all remaining
messages are sent again. So each message arrives at least once.

Notes that a domain links to a host are first kept in memory, because each page has about ten. They
are combined into one message for each target before the next messages are taken, or before a
checkpoint. A crash loses the latest notes, as it loses the latest changes of host records.

On disk are numbered files, each a record log (storage/record_log.py)::

    NNNNNN.log   segment; the highest is appended to, until it is large or a checkpoint is prepared
    ../requests  empty file, if there may be Requests from pages of other shards
    record   := msgpack array [unused, [[target, message], ...]]
    snapshot := msgpack array [version, next number, [[number, size], ...]]

So a snapshot names complete files that never change. Segments with higher numbers were written
after it. They are read up to the first torn record, and nothing is appended to them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from webcrawl.configuration.decoding import Count, UndecodableError, msgpack_decoder
from webcrawl.hive.bus.messages import encode_hosts
from webcrawl.hive.bus.snapshots import VERSION, Snapshot, parse_snapshot
from webcrawl.hive.membership.keys import stream_id_key
from webcrawl.storage.atomic import make_directory
from webcrawl.storage.record_log import (
    HEADER_SIZE,
    CorruptRecordError,
    RecordLog,
    read_records,
)

# Most notes in memory.
_MAX_NOTES = 1 << 13
_SUFFIX = ".log"
_REQUESTS = "requests"


class Outgoing(NamedTuple):
    """Message in memory: *payload*, to be sent to the shard *target*.

    cache_keys: added to the cache on delivery (see splitter.py); empty if it was read from disk.
    segment: the number of its segment.
    """

    target: int
    payload: bytes
    cache_keys: Sequence[int]
    segment: int


class _Segment:
    """A file of messages: its *size* in bytes, and the last delivered stream ID by target."""

    __slots__ = ("last_ids", "pending", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.pending = 0  # messages in memory that are not yet delivered
        self.last_ids: dict[int, str] = {}


class _OutboxSnapshot(Snapshot, frozen=True):
    """Saved state: the number of the next segment, and the numbers and sizes of needed segments."""

    number: Count
    segments: list[tuple[Count, Count]]


_encode_record = msgspec.msgpack.Encoder().encode
_decode_record = msgpack_decoder(tuple[bool, list[tuple[int, bytes]]])
_decode_snapshot = msgpack_decoder(_OutboxSnapshot)


def outbox_of(shard: Path) -> Outbox:
    """Return the outbox, not yet opened, of the shard in the directory *shard*."""
    return Outbox(path=shard / "outbox")


class Outbox:
    """Outbox of one shard, in the directory *path*. Belongs to the reactor's thread."""

    segment_bytes = 4 << 20
    #: Size limit of messages in memory that the sender has not taken yet. Further messages are read
    #: from disk later, without their cache keys.
    held_bytes = 1 << 16

    def __init__(self, *, path: Path) -> None:
        self._path = path
        # The segment being written; None until the next message, which begins one.
        self._segment_log: RecordLog | None = None
        self._number = 1  # of the next segment, or the one being written
        self._segments: dict[int, _Segment] = {}  # in their order
        # Segment and offset from which on records are only on disk, and the size of these records.
        self._read_to = (1, HEADER_SIZE)
        self._unread_bytes = 0
        self._held: deque[Outgoing] = deque()
        self._held_size = 0  # bytes of these messages
        self._taken_size = 0  # bytes of messages that were taken but not delivered
        # By target and domain: the hosts that the domain links to, with their cache keys.
        self._notes: dict[int, dict[str, dict[str, int]]] = {}
        self._note_count = 0
        # Segments to delete, and how many of these the last snapshot does not name.
        self._disposable: list[int] = []
        self._unnamed_count = 0
        # Files and directories to fsync before the next snapshot is published.
        self._unsynced: list[Path] = []
        self.is_open = False

    # --- opening, closing, checkpoints

    def open(self, saved: bytes | None) -> None:
        """Restore the snapshot *saved*, if given, and the messages appended since, to be sent.

        Blocks while it reads the segments written since. Raises CorruptRecordError,
        NewerFormatError or OSError.
        """
        state = (
            _OutboxSnapshot(VERSION, 1, [])
            if saved is None
            else parse_snapshot(_decode_snapshot, saved, self._path)
        )
        self._unsynced += [*make_directory(self._path), self._path]
        self._number = state.number
        self._segments.clear()

        # First the segments in the snapshot, which must be there; then those written after it.
        on_disk = sorted(int(path.stem) for path in self._path.glob(f"*{_SUFFIX}"))
        for number, size in state.segments:
            path = self._file(number)
            length = path.stat().st_size if number in on_disk else 0
            if length < size:
                raise CorruptRecordError(path, length, f"{size} bytes expected")
            self._segments[number] = _Segment(size)

        for number in on_disk:
            if number in self._segments:
                continue
            path = self._file(number)
            # Segments with lower numbers were acknowledged before the snapshot; they are deleted.
            record_ends = (end for end, _ in read_records(path)) if number >= state.number else ()
            # The last end is the size without a torn record.
            if size := max(record_ends, default=0):
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
        """Return the state to save; nothing is appended to its segments any more."""
        self._append_notes()
        self._end_segment()
        self._unnamed_count = len(self._disposable)
        segments = [(number, segment.size) for number, segment in self._segments.items()]
        return msgspec.msgpack.encode(_OutboxSnapshot(VERSION, self._number, segments))

    def written(self) -> list[Path]:
        """Return the files in the last snapshot that were written since the snapshot before it."""
        paths = self._unsynced
        self._unsynced = []
        return paths

    def forget(self) -> None:
        """Delete the segments that only snapshots before the last one name."""
        for number in self._disposable[: self._unnamed_count]:
            self._file(number).unlink(missing_ok=True)
        del self._disposable[: self._unnamed_count]
        self._unnamed_count = 0

    # --- the shard's side

    def append_all(self, messages: Sequence[tuple[int, bytes, Sequence[int]]]) -> None:
        """Append *messages* in one write, each a target, a payload and cache keys.

        Raises OSError if the disk is full; then nothing was appended.
        """
        log = self._segment_log or self._begin_segment()
        start = log.size
        log.append(_encode_record((False, [(target, data) for target, data, _ in messages])))
        number = self._number
        segment = self._segments[self._number]
        segment.size = log.size
        # They stay in memory only if there is room and all earlier ones are there or were sent.
        # Otherwise the sender reads them from disk, in order.
        if self._unread_bytes or self._held_size >= self.held_bytes:
            self._unread_bytes += log.size - start
        else:
            self._hold(segment, [Outgoing(*message, number) for message in messages])
            self._read_to = (number, log.size)
        if log.size >= self.segment_bytes:
            self._end_segment()

    def note(self, target: int, domain: str, host: str, cache_key: int) -> None:
        """Record that *domain* links to *host*, which belongs to the shard *target*.

        This is sent as part of a later message, and *cache_key* is cached when it is delivered.
        """
        self._notes.setdefault(target, {}).setdefault(domain, {})[host] = cache_key
        self._note_count += 1
        if self._note_count >= _MAX_NOTES:
            self._append_notes()

    def _append_notes(self) -> None:
        """Append one message for each target with the notes in memory. Raises OSError."""
        if self._note_count:
            messages = [
                (
                    target,
                    encode_hosts(linked),
                    [key for keys_by_host in linked.values() for key in keys_by_host.values()],
                )
                for target, linked in self._notes.items()
            ]
            self.append_all(messages)
            self._notes.clear()
            self._note_count = 0

    @property
    def has_requests(self) -> bool:
        """Whether this outbox may hold Requests from pages of any shard of the process.

        The Requests would be lost with this outbox, so the checkpoints of those shards are
        published after that of its own shard.
        """
        return self._path.with_name(_REQUESTS).exists()

    def note_requests(self) -> None:
        """Set ``has_requests``, which stays true as long as the shard's directory exists."""
        self._path.with_name(_REQUESTS).touch()

    def _begin_segment(self) -> RecordLog:
        path = self._file(self._number)
        self._segment_log = RecordLog.open(path, size=0)
        self._segments[self._number] = _Segment(HEADER_SIZE)
        self._unsynced += [path, self._path]
        return self._segment_log

    def _end_segment(self) -> None:
        if self._segment_log is not None:
            self._segment_log.close()
            self._segment_log = None
            self._number += 1

    def _hold(self, segment: _Segment, messages: Sequence[Outgoing]) -> None:
        """Keep *messages* of *segment* in memory."""
        self._held.extend(messages)
        segment.pending += len(messages)
        self._held_size += sum(len(message.payload) for message in messages)

    # --- the sender's side

    @property
    def unsent(self) -> int:
        """Approximate bytes of messages that are not delivered yet; 0 if all are."""
        return self._unread_bytes + self._held_size + self._taken_size + self._note_count

    @property
    def size(self) -> int:
        """Bytes of the segments on disk that are still needed."""
        return sum(segment.size for segment in self._segments.values())

    def take(self, limit: int) -> list[Outgoing]:
        """Return the next messages in order, until they have *limit* bytes or more.

        The list is empty if all messages were taken. Reads from disk if necessary. Raises
        CorruptRecordError or OSError.
        """
        with suppress(OSError):  # a full disk is reported by the next ``append_all``
            self._append_notes()
        messages: list[Outgoing] = []
        taken_bytes = 0
        while taken_bytes < limit and (self._held or self._load()):
            message = self._held.popleft()
            taken_bytes += len(message.payload)
            messages.append(message)
        self._held_size -= taken_bytes
        self._taken_size += taken_bytes
        return messages

    def _load(self) -> bool:
        """Read more messages from disk into memory, and return whether there were any."""
        while self._unread_bytes:
            number, start = self._read_to
            segment = self._segments.get(number)
            if segment is None or start >= segment.size:
                self._read_to = (number + 1, HEADER_SIZE)
                continue
            path = self._file(number)
            # Read at least one record, and more while there is room in memory.
            for end, record in read_records(path, start=start, end=segment.size):
                try:
                    _, messages = _decode_record(record)
                except UndecodableError as error:
                    raise CorruptRecordError(path, end, f"not valid messages: {error}") from error
                self._hold(segment, [Outgoing(*message, (), number) for message in messages])
                self._unread_bytes -= end - self._read_to[1]
                self._read_to = (number, end)
                if self._held_size >= self.held_bytes:
                    break
            if self._held:
                return True
        return False

    def mark_delivered(self, message: Outgoing, stream_id: str) -> None:
        """Record that *message* was appended to the stream of its target, under *stream_id*."""
        self._taken_size -= len(message.payload)
        segment = self._segments[message.segment]
        segment.pending -= 1
        segment.last_ids[message.target] = stream_id

    def acknowledge(self, acks: Mapping[int, str]) -> None:
        """Drop the segments whose messages are all in published checkpoints of their targets.

        *acks* has, by target, the ID up to which its published checkpoint covers its stream.
        """
        for number, segment in list(self._segments.items()):
            # Segments are dropped in order: the first one that is being written, or has messages in
            # memory or unread on disk, ends this.
            if number == self._number or segment.pending or (number, segment.size) > self._read_to:
                break
            if all(
                target in acks and stream_id_key(last_id) <= stream_id_key(acks[target])
                for target, last_id in segment.last_ids.items()
            ):
                del self._segments[number]
                self._disposable.append(number)

    def rewind(self) -> None:
        """Send all remaining messages again, including those that were taken."""
        self._held.clear()
        self._held_size = 0
        self._taken_size = 0
        for segment in self._segments.values():
            segment.pending = 0
            segment.last_ids.clear()
        self._read_to = (min(self._segments, default=self._number), HEADER_SIZE)
        self._unread_bytes = sum(segment.size - HEADER_SIZE for segment in self._segments.values())

    def _file(self, number: int) -> Path:
        return self._path / f"{number:06d}{_SUFFIX}"


def segments_of(path: Path, saved: bytes) -> list[tuple[Path, int | None]]:
    """Return the segment files of the outbox at *path*, each with its valid size.

    *saved* is a snapshot. Segments that were written after it have the size None, and are valid to
    their end. Raises CorruptRecordError or NewerFormatError.
    """
    state = parse_snapshot(_decode_snapshot, saved, path)
    in_snapshot = [(path / f"{number:06d}{_SUFFIX}", size) for number, size in state.segments]
    on_disk = sorted(path.glob(f"*{_SUFFIX}"))
    return in_snapshot + [(file, None) for file in on_disk if int(file.stem) >= state.number]


def messages_of(record: bytes) -> list[bytes]:
    """Return the messages in *record*, a record of a segment. Raises UndecodableError."""
    return [message for _, message in _decode_record(record)[1]]
