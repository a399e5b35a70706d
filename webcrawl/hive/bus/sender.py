"""Sender: sends the messages in a process's outboxes to the streams of their targets.

Each shard has a stream in Redis. Its entries have one field ``b``: messages, packed by
``storage.record_log.pack_many``. The ID of each entry is reported to the segments of its messages.

Redis may lose its data: all of it, or what was written since it last saved. Then earlier IDs become
meaningless. An *incarnation* identifies the data, and the server process that has held it without a
break. When a heartbeat finds another incarnation, the outboxes are rewound,
streams are read from their beginnings, and only later acknowledgements count. So a message arrives
at least once even if Redis loses it, and the crawl itself never waits for Redis.

Messages for one target are combined into few entries: if there are many messages, they wait for
half a second. A stream that is too large gets no more messages. They wait in memory up to a limit;
then the messages of all targets wait in the outboxes on disk. Messages of one outbox for one target
are sent in order. If an answer is lost, they are sent again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from redis.asyncio import Redis

from webcrawl.hive.bus.outbox import Outbox, Outgoing
from webcrawl.hive.membership.connection import (
    RETRY_SECS,
    UNREACHABLE,
    is_cancelled,
    reason_of,
)
from webcrawl.hive.membership.keys import Keys
from webcrawl.seen.caches import UrlCache
from webcrawl.storage.record_log import CorruptRecordError, pack_many

logger = logging.getLogger(__name__)

# How long messages wait to be combined into few entries, and how long if they are only a few.
_WAIT_SECS = 0.5
_SHORT_WAIT_SECS = 0.1
_FEW_MESSAGES = 16
# An entry that has reached this size gets no more messages.
_ENTRY_BYTES = 1 << 15
# Size limits of one call to Redis, of messages in memory, and of one read from an outbox.
_CALL_BYTES = 1 << 20
_MEMORY_BYTES = 1 << 23
_TAKE_BYTES = 1 << 16
# Approximate size limit of all streams of a hive together, and the lowest limit of one stream. This
# is enough for ten million links of 110 bytes that are not yet in a published checkpoint.
_ALL_STREAMS_BYTES = 1 << 30
_MIN_STREAM_BYTES = 1 << 20
# Appends each further ARGV to the stream in its key and returns the IDs. A stream with more bytes
# than the first ARGV is full: nothing is appended, and its ID is nil. A stream with a single entry
# is never full, however large the entry is.
_SEND = """
local sent = {}
for i, key in ipairs(KEYS) do
  local size = redis.call('MEMORY', 'USAGE', key)
  local is_full = size and size > tonumber(ARGV[1]) and redis.call('XLEN', key) > 1
  sent[i] = not is_full and redis.call('XADD', key, '*', 'b', ARGV[i + 1])
end
return sent
"""


def stream_bytes(shards: int) -> int:
    """Return the size limit of one stream in bytes, in a hive with this number of *shards*."""
    return max(_ALL_STREAMS_BYTES // shards, _MIN_STREAM_BYTES)


class _Entry(NamedTuple):
    """Stream entry to send to *target*: the next messages of its queue, packed.

    *messages* is their number.
    """

    target: int
    messages: int
    packed: bytes


@dataclass(kw_only=True, eq=False)
class Sender:
    """Sends the messages in *outboxes*, which are keyed by shard number and may change at any time.

    *cache* is the splitter's. A stream of more than *stream_bytes* gets no messages. *fail* is
    called with exceptions of disks.
    """

    client: Redis
    keys: Keys
    outboxes: Mapping[int, Outbox]
    cache: UrlCache
    stream_bytes: int
    fail: Callable[[Exception], object]
    #: Number of sent entries.
    sent: int = 0
    # Numbers of sent messages and bytes.
    _messages: int = 0
    _bytes_sent: int = 0
    # By target: the messages that were taken and not sent yet, each with its outbox.
    _queues: dict[int, deque[tuple[Outbox, Outgoing]]] = field(default_factory=dict)
    _queued_bytes: int = 0
    # How often ``forget`` was called.
    _forget_count: int = 0
    # That of the last heartbeat; "" before the first.
    _incarnation: str = ""

    @property
    def is_idle(self) -> bool:
        """Whether all messages of the outboxes are in Redis. O(shards)."""
        return not any(outbox.unsent for outbox in self.outboxes.values())

    def on_heartbeat(self, incarnation: str, acks: Mapping[int, str]) -> None:
        """Drop the messages that *acks* says are in published checkpoints of their targets.

        *acks* and *incarnation* are from the answer to a heartbeat. If the incarnation has changed,
        all remaining messages are sent again instead, and the cache is cleared.
        """
        if incarnation == self._incarnation:
            for outbox in self.outboxes.values():
                outbox.acknowledge(acks)
            return

        if self._incarnation:
            logger.info("Redis was restarted or lost its data: links it may have lost are resent")
        self._incarnation = incarnation
        self._queues.clear()
        self._queued_bytes = 0
        self.forget()
        for outbox in self.outboxes.values():
            if outbox.is_open:
                outbox.rewind()

    def forget(self) -> None:
        """Clear the cache. Messages that are being sent at the moment are sent again.

        Called when messages may have been lost, as in the outboxes of abandoned shards.
        """
        self._forget_count += 1
        self.cache.clear()

    async def run(self) -> None:
        """Send messages until cancelled."""
        is_failing = False
        while not is_cancelled():
            if not self._gather():
                await asyncio.sleep(RETRY_SECS)
                continue
            sent_before = self._messages
            try:
                await self._send_all()
            except UNREACHABLE as error:
                if not is_failing:
                    is_failing = True
                    message = "Redis cannot be used, so links to other processes wait on disk: %s"
                    logger.warning(message, reason_of(error))
                await asyncio.sleep(RETRY_SECS)
                continue

            sent = self._messages - sent_before
            is_failing = is_failing and not sent  # a failure is over when something was sent
            # After seeds, or when Redis was down, many more messages are on disk: send them now.
            on_disk = sum(outbox.unsent for outbox in self.outboxes.values()) - self._queued_bytes
            if not sent or on_disk < _CALL_BYTES:
                await asyncio.sleep(_WAIT_SECS if sent > _FEW_MESSAGES else _SHORT_WAIT_SECS)

    def _gather(self) -> bool:
        """Move messages from the outboxes into the queues. Returns False if a disk fails."""
        outboxes = [outbox for outbox in self.outboxes.values() if outbox.unsent and outbox.is_open]
        # Take a little from each outbox in turn, so that a full one does not delay the others.
        while outboxes and self._queued_bytes < _MEMORY_BYTES:
            unfinished = []
            for outbox in outboxes:
                try:
                    messages = outbox.take(_TAKE_BYTES)
                except (OSError, CorruptRecordError) as error:
                    self.fail(error)
                    return False
                for message in messages:
                    self._queues.setdefault(message.target, deque()).append((outbox, message))
                    self._queued_bytes += len(message.payload)
                if messages:  # there may be more
                    unfinished.append(outbox)
            outboxes = unfinished
        return True

    async def _send_all(self) -> None:
        """Send the messages in the queues, except to streams that are full."""
        full_targets: set[int] = set()
        for entries in self._calls_to_redis():
            sendable = [entry for entry in entries if entry.target not in full_targets]
            if not sendable:
                continue
            forget_count = self._forget_count  # as long as it stays the same, the IDs are valid
            # The IDs of the entries, with None for each entry whose stream is full.
            ids: list[bytes | None] = await self.client.execute_command(
                "EVAL",
                _SEND,
                len(sendable),
                *[self.keys.stream(entry.target) for entry in sendable],
                self.stream_bytes,
                *[entry.packed for entry in sendable],
            )
            if forget_count != self._forget_count:
                return  # the answers may be from a Redis that has lost its data
            for entry, stream_id in zip(sendable, ids, strict=True):
                if stream_id is None:
                    full_targets.add(entry.target)
                else:
                    self.cache.admit(self._mark_delivered(entry, stream_id.decode()))

    def _calls_to_redis(self) -> Iterable[list[_Entry]]:
        """Yield the entries for each call to Redis.

        The caller may remove messages from the queues meanwhile, because each queue is read once.
        """
        call: list[_Entry] = []
        size = 0
        # Both loops are over copies, as messages that were sent leave the queues.
        for target in [*self._queues]:
            for entry in [*_entries(target, self._queues[target])]:
                if call and size + len(entry.packed) > _CALL_BYTES:
                    yield call
                    call = []
                    size = 0
                call.append(entry)
                size += len(entry.packed)
        if call:
            yield call

    def _mark_delivered(self, entry: _Entry, stream_id: str) -> list[int]:
        """Remove the messages of *entry*, which was sent, from their queue and outboxes.

        Returns their cache keys. An abandoned outbox cannot send a message again, so the message
        has none.
        """
        queue = self._queues[entry.target]
        cache_keys: list[int] = []
        for _ in range(entry.messages):
            outbox, message = queue.popleft()
            self._queued_bytes -= len(message.payload)
            if outbox.is_open:
                cache_keys += message.cache_keys
                outbox.mark_delivered(message, stream_id)
        if not queue:
            del self._queues[entry.target]
        self.sent += 1
        self._messages += entry.messages
        self._bytes_sent += len(entry.packed)
        return cache_keys

    def stats(self) -> dict[str, float]:
        """Return the stats of this sender by name."""
        return {"hive/batches/sent": self.sent, "hive/bytes/sent": self._bytes_sent}


def _entries(target: int, queue: deque[tuple[Outbox, Outgoing]]) -> Iterable[_Entry]:
    """Combine the messages in *queue* into entries for the stream of *target*."""
    payloads: list[bytes] = []
    size = 0
    for _, message in queue:
        payloads.append(message.payload)
        size += len(message.payload)
        if size >= _ENTRY_BYTES:
            yield _Entry(target, len(payloads), pack_many(payloads))
            payloads = []
            size = 0
    if payloads:
        yield _Entry(target, len(payloads), pack_many(payloads))
