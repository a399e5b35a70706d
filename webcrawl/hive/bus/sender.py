"""Sender: what the outboxes of a process have, to the streams of its targets.

Each shard has a stream in Redis. Its entries have one field ``b``: messages, packed by
``storage.record_log.pack_many``. Each ID goes back to the segments whose messages it carried.

Redis may lose what it has: all of it, or what was written since it last saved or replicated. Then
IDs that were answered mean nothing any more. An *incarnation* names the data and the server
processes that had them without a break. When a beat finds another one, the outboxes are rewound,
streams are read from their beginnings, and acknowledgements count from then on. So a message
arrives at least once whatever happens to Redis, and nothing waits for it but messages.

Messages for one target become few entries, by bytes and by time: they wait for half a second where
there are many. A stream that is too large gets no more; those messages wait in memory up to a
bound, and then those of all targets wait in the outboxes, on disk. For one target messages are sent
in the order of their outbox. An answer that did not come leaves them where they are: they are sent
again.
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

# Messages wait so long to become few entries; where there are few messages anyhow, they need not.
_WAIT_SECS = 0.5
_SHORT_WAIT_SECS = 0.1
_FEW = 16
# No entry is begun with more bytes; what one call carries; and what is in memory on its way.
_ENTRY_BYTES = 1 << 15
_CALL_BYTES = 1 << 20
_UNDER_WAY_BYTES = 1 << 23
_TAKE_BYTES = 1 << 16
# About what all streams of a hive have together, but at least so much for each: ten million links
# of 110 bytes that are in no published checkpoint yet.
_STREAMS_BYTES = 1 << 30
_STREAM_BYTES = 1 << 20
# Appends each ARGV to its key, unless that has more bytes than the first says: then nil. The last
# entry of a stream always stays, however large it is.
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
    """The largest size of a stream in a hive of so many *shards*."""
    return max(_STREAMS_BYTES // shards, _STREAM_BYTES)


class _Entry(NamedTuple):
    """An entry to be sent: the next *messages* of the queue of *target*, packed."""

    target: int
    messages: int
    packed: bytes


@dataclass(kw_only=True, eq=False, repr=False)
class Sender:
    """Sends what *outboxes* have, which are by the numbers of their shards and may come and go.

    *cache* is the splitter's. *stream_bytes*: a stream with more gets nothing. *fail* is called
    with what disks raise.
    """

    client: RedisClient
    keys: Keys
    outboxes: Mapping[int, Outbox]
    cache: UrlCache
    stream_bytes: int
    fail: Callable[[Exception], object]
    #: Entries sent.
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
        """Whether all of the outboxes is in Redis. O(shards)."""
        return not any(outbox.unsent for outbox in self.outboxes.values())

    def on_heartbeat(self, incarnation: str, acks: Mapping[int, str]) -> None:
        """A beat has told up to where each shard's stream is in a published checkpoint. In another
        *incarnation* than the last all that is left in the outboxes is sent again instead, and the
        cache spares nothing."""
        if incarnation == self._incarnation:
            for outbox in self.outboxes.values():
                outbox.acknowledged(acks)
            return
        if self._incarnation:
            logger.info("Redis was started again or lost its data: what it may lack is sent again")
        self._incarnation = incarnation
        self._rewinds += 1
        self._queues.clear()
        self._bytes = 0
        self.forget()
        for outbox in self.outboxes.values():
            if outbox.is_open:
                outbox.rewind()

    def forget(self) -> None:
        """The cache spares nothing of what was sent until now, answered or not: what the outboxes
        of abandoned shards had may be nowhere."""
        self._forgets += 1
        self.cache.clear()

    async def run(self) -> None:
        """Send until it is cancelled."""
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
                    told = "Messages to other shards wait on disk, as Redis does not take them: %s"
                    logger.warning(told, str(error) or type(error).__name__)
                await back_off.wait()
                continue
            back_off.reset()
            sent = self._messages - before
            if sent and self._away_since:
                logger.info("Redis takes messages again after %.1f s", now() - self._away_since)
                self._away_since = 0.0
            # After seeds, or when Redis is back, the disk has many more.
            left = sum(outbox.unsent for outbox in self.outboxes.values()) - self._bytes
            if not sent or left < _CALL_BYTES:
                await asyncio.sleep(_WAIT_SECS if sent > _FEW else _SHORT_WAIT_SECS)

    def _gather(self) -> bool:
        """Take what the outboxes have into the queues; False if a disk could not be read."""
        boxes = [outbox for outbox in self.outboxes.values() if outbox.unsent and outbox.is_open]
        while boxes and self._bytes < _UNDER_WAY_BYTES:
            left = []
            for outbox in boxes:
                try:
                    messages = outbox.take(_TAKE_BYTES)
                except (OSError, CorruptRecordError) as error:
                    self.fail(error)
                    return False
                for message in messages:
                    self._queues.setdefault(message.target, deque()).append((outbox, message))
                    self._bytes += len(message.payload)
                if messages:
                    left.append(outbox)
            boxes = left
        return True

    async def _send_all(self) -> None:
        """Send what is in the queues, but not to streams that are full."""
        rewinds = self._rewinds
        full: set[int] = set()
        for entries in self._calls():
            wanted = [entry for entry in entries if entry.target not in full]
            if not wanted:
                continue
            forgets = self._forgets
            ids = await self._send(wanted)
            if rewinds != self._rewinds:
                return  # the answers may be those of a Redis that is gone
            for entry, stream_id in zip(wanted, ids, strict=True):
                if stream_id is None:
                    full.add(entry.target)
                else:
                    names = self._delivered(entry, stream_id.decode())
                    if forgets == self._forgets:
                        self.cache.admit(names)

    def _calls(self) -> Iterable[list[_Entry]]:
        """The entries of the queues as they are now, in calls: on a cluster each is for one stream.

        A queue changes only by what is sent while this goes on, and is not looked at again.
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
        """The IDs that *entries* got; None for one whose stream is full."""
        answer: list[bytes | None] = await self.client.execute_command(
            "EVAL",
            _SEND,
            len(entries),
            *[self.keys.stream(entry.target) for entry in entries],
            self.stream_bytes,
            *[entry.packed for entry in entries],
        )
        return answer

    def _delivered(self, entry: _Entry, stream_id: str) -> list[int]:
        """*entry* is in its stream; the names in it."""
        queue = self._queues[entry.target]
        names: list[int] = []
        for _ in range(entry.messages):
            outbox, message = queue.popleft()
            self._bytes -= len(message.payload)
            names += message.names
            if outbox.is_open:
                outbox.delivered(message, stream_id)
        if not queue:
            del self._queues[entry.target]
        self.sent += 1
        self._messages += entry.messages
        self._bytes_sent += len(entry.packed)
        return names

    def stats(self) -> dict[str, float]:
        """Under their names in the crawl's statistics."""
        return {"hive/batches/sent": self.sent, "hive/bytes/sent": self._bytes_sent}


def _entries(target: int, queue: deque[tuple[Outbox, Outgoing]]) -> Iterable[_Entry]:
    """*queue* divided into entries for the stream of *target*."""
    some: list[bytes] = []
    size = 0
    for _, message in queue:
        some.append(message.payload)
        size += len(message.payload)
        if size >= _ENTRY_BYTES:
            yield _Entry(target, len(some), pack_many(some))
            some, size = [], 0
    if some:
        yield _Entry(target, len(some), pack_many(some))
