"""Sender: sends the messages in a process's outboxes to the streams of their targets.

Each shard has a stream in Redis. Its entries have one field ``b``: messages, packed by
``storage.record_log.pack_many``. The ID of each entry is reported to the segments of its messages.

Redis may lose its data: all of it, or what was written since it last saved or replicated. Then
earlier IDs become meaningless. An *incarnation* names the data, and the server processes that had
it without a break. When a heartbeat finds another one, the outboxes are rewound, streams are read
from their beginnings, and acknowledgements count from then on. So a message arrives at least once
even if Redis loses it, and only messages wait for Redis.

Messages for one target are combined into few entries, by size and time: if there are many, they
wait for half a second. A stream that is too large gets no more. Its messages wait in memory up to a
limit; then messages of all targets wait in the outboxes on disk. Messages of one outbox for one
target are sent in order. If an answer is lost, they are sent again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from redis.asyncio import RedisCluster

from webcrawl.clock import now
from webcrawl.hive.membership.connection import UNREACHABLE, BackOff, RedisClient, is_cancelled
from webcrawl.storage.record_log import CorruptRecordError, pack_many

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from webcrawl.hive.bus.outbox import Outbox, Outgoing
    from webcrawl.hive.membership.keys import Keys
    from webcrawl.seen.caches import UrlCache

logger = logging.getLogger(__name__)

# Messages wait this long to be combined into few entries; if there are few anyway, less.
_WAIT_SECS = 0.5
_SHORT_WAIT_SECS = 0.1
_FEW_MESSAGES = 16
# An entry takes no more messages at this size.
_ENTRY_BYTES = 1 << 15
# Limits of one call to Redis, of messages in memory, and of one read from an outbox.
_CALL_BYTES = 1 << 20
_UNDER_WAY_BYTES = 1 << 23
_TAKE_BYTES = 1 << 16
# Approximate limit of all streams of a hive together, and the minimum for each. It holds ten
# million links of 110 bytes that no published checkpoint has yet.
_STREAMS_BYTES = 1 << 30
_STREAM_BYTES = 1 << 20
# Appends each ARGV to its key, unless the key has more bytes than the first ARGV; then returns nil.
# A stream with a single entry is never full, however large the entry is.
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
    """Return the largest size of a stream in a hive with *shards*."""
    return max(_STREAMS_BYTES // shards, _STREAM_BYTES)


class _Entry(NamedTuple):
    """Entry to send: the next *messages* (a number) of the queue of *target*, packed."""

    target: int
    messages: int
    packed: bytes


@dataclass(kw_only=True, eq=False, repr=False)
class Sender:
    """Sender of messages in *outboxes*, which are by shard number and come and go.

    *cache* is the splitter's. A stream with more than *stream_bytes* gets no messages. *fail* is
    called with exceptions of disks.
    """

    client: RedisClient
    keys: Keys
    outboxes: Mapping[int, Outbox]
    cache: UrlCache
    stream_bytes: int
    fail: Callable[[Exception], object]
    #: Number of sent entries.
    sent: int = 0
    _messages: int = 0
    _bytes_sent: int = 0
    _queues: dict[int, deque[tuple[Outbox, Outgoing]]] = field(default_factory=dict)
    _bytes: int = 0  # in the queues
    _rewinds: int = 0
    _forgets: int = 0
    _incarnation: str = ""
    _away_since: float = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether all messages of the outboxes are in Redis. O(shards)."""
        return not any(outbox.unsent for outbox in self.outboxes.values())

    def on_heartbeat(self, incarnation: str, acks: Mapping[int, str]) -> None:
        """Acknowledge the stream entries that published checkpoints have, as a heartbeat found.

        In another *incarnation*, send all remaining messages again instead and clear the cache.
        """
        if incarnation == self._incarnation:
            for outbox in self.outboxes.values():
                outbox.acknowledge(acks)
            return
        if self._incarnation:
            logger.info("Redis was restarted or lost its data: links it may have lost are resent")
        self._incarnation = incarnation
        self._rewinds += 1
        self._queues.clear()
        self._bytes = 0
        self.forget()
        for outbox in self.outboxes.values():
            if outbox.is_open:
                outbox.rewind()

    def forget(self) -> None:
        """Clear the cache, also of messages whose answer is still to come.

        The messages in the outboxes of abandoned shards may be lost.
        """
        self._forgets += 1
        self.cache.clear()

    async def run(self) -> None:
        """Send messages until cancelled."""
        back_off = BackOff()
        while not is_cancelled():
            if not self._gather():
                await back_off.wait()
                continue
            before = self._messages
            try:
                await self._send_all()
            except UNREACHABLE as error:
                if not self._away_since:
                    self._away_since = now()
                    message = "Links to other processes wait on disk, because Redis fails: %s"
                    logger.warning(message, str(error) or type(error).__name__)
                await back_off.wait()
                continue
            back_off.reset()
            sent = self._messages - before
            if sent and self._away_since:
                logger.info("Redis works again after %.1f s", now() - self._away_since)
                self._away_since = 0.0
            # After seeds, or when Redis is back, there are many more on disk.
            left = sum(outbox.unsent for outbox in self.outboxes.values()) - self._bytes
            if not sent or left < _CALL_BYTES:
                await asyncio.sleep(_WAIT_SECS if sent > _FEW_MESSAGES else _SHORT_WAIT_SECS)

    def _gather(self) -> bool:
        """Move messages from the outboxes into the queues; return False if a disk fails."""
        outboxes = [outbox for outbox in self.outboxes.values() if outbox.unsent and outbox.is_open]
        while outboxes and self._bytes < _UNDER_WAY_BYTES:
            unfinished = []
            for outbox in outboxes:
                try:
                    messages = outbox.take(_TAKE_BYTES)
                except (OSError, CorruptRecordError) as error:
                    self.fail(error)
                    return False
                for message in messages:
                    self._queues.setdefault(message.target, deque()).append((outbox, message))
                    self._bytes += len(message.payload)
                if messages:
                    unfinished.append(outbox)
            outboxes = unfinished
        return True

    async def _send_all(self) -> None:
        """Send the messages in the queues, except to streams that are full."""
        rewinds = self._rewinds
        full: set[int] = set()
        for entries in self._calls():
            wanted = [entry for entry in entries if entry.target not in full]
            if not wanted:
                continue
            forgets = self._forgets
            ids = await self._send(wanted)
            if rewinds != self._rewinds:
                return  # the answers may be from a Redis that has lost its data
            for entry, stream_id in zip(wanted, ids, strict=True):
                if stream_id is None:
                    full.add(entry.target)
                else:
                    cache_keys = self._mark_delivered(entry, stream_id.decode())
                    if forgets == self._forgets:
                        self.cache.admit(cache_keys)

    def _calls(self) -> Iterable[list[_Entry]]:
        """Yield the entries of the queues in calls; on a cluster, each call is for one stream.

        While this runs, messages are only removed from the queues. Each queue is read once.
        """
        for_one = isinstance(self.client, RedisCluster)
        call: list[_Entry] = []
        size = 0
        for target in [*self._queues]:
            for entry in [*_entries(target, self._queues[target])]:
                is_full = size + len(entry.packed) > _CALL_BYTES
                if call and (is_full or (for_one and call[0].target != target)):
                    yield call
                    call, size = [], 0
                call.append(entry)
                size += len(entry.packed)
        if call:
            yield call

    async def _send(self, entries: Sequence[_Entry]) -> list[bytes | None]:
        """Send *entries* and return their IDs; None for those whose stream is full."""
        answer: list[bytes | None] = await self.client.execute_command(
            "EVAL",
            _SEND,
            len(entries),
            *[self.keys.stream(entry.target) for entry in entries],
            self.stream_bytes,
            *[entry.packed for entry in entries],
        )
        return answer

    def _mark_delivered(self, entry: _Entry, stream_id: str) -> list[int]:
        """Remove the messages of *entry*, which is in its stream; return their cache keys."""
        queue = self._queues[entry.target]
        cache_keys: list[int] = []
        for _ in range(entry.messages):
            outbox, message = queue.popleft()
            self._bytes -= len(message.payload)
            cache_keys += message.cache_keys
            if outbox.is_open:
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
    """Divide *queue* into entries for the stream of *target*."""
    payloads: list[bytes] = []
    size = 0
    for _, message in queue:
        payloads.append(message.payload)
        size += len(message.payload)
        if size >= _ENTRY_BYTES:
            yield _Entry(target, len(payloads), pack_many(payloads))
            payloads, size = [], 0
    if payloads:
        yield _Entry(target, len(payloads), pack_many(payloads))
