"""Receiver: reads the streams of the shards that a process holds into their inboxes.

Each stream is read from its inbox's position. Consumer groups are not used, because their state in
Redis could disagree with the checkpoint. Reads wait on the server, so the client gives them their
own connection. The stream of a shard whose eliminator is full is not read. Invalid messages are
skipped and counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from redis.asyncio import Redis

from webcrawl.clock import now, wall_time
from webcrawl.errors import FatalError
from webcrawl.hive.bus.inbox import FOREIGN, GARBAGE, Inbox
from webcrawl.hive.membership.connection import RETRY_SECS, UNREACHABLE, is_cancelled
from webcrawl.hive.membership.keys import Keys, stream_id_key
from webcrawl.storage.record_log import CorruptRecordError

_Entries = Sequence[tuple[bytes, Mapping[bytes, bytes]]]

logger = logging.getLogger(__name__)

_BLOCK_MS = 500
_IDLE_SECS = 0.1
_READ_ENTRIES = 16  # most entries of each stream per read
# A short wait between two reads, so that each finds more than one entry.
_READ_PAUSE_SECS = 0.05
_SLICE_ENTRIES = 4
# How long entries are processed before the event loop gets a turn. In a busy drone each turn takes
# long, so a break after each stream would be too slow.
_SLICE_SECS = 0.02
_REFUSED = {
    GARBAGE: "Skipped an invalid message from Redis: %s",
    FOREIGN: "Refused a message from Redis for the host %s, which belongs to another shard",
}


@dataclass(kw_only=True, eq=False)
class Receiver:
    """Reads the streams of *inboxes*, which are keyed by shard number and may change at any time.

    *fail* is called with exceptions of disks and shards.
    """

    client: Redis
    keys: Keys
    inboxes: Mapping[int, Inbox]
    fail: Callable[[Exception], object]
    #: The incarnation in which streams are read, once it is set: see sender.py.
    incarnation: str = ""
    #: Number of accepted entries.
    received: int = 0
    #: How many seconds the last entry was in Redis.
    lag: float = 0.0
    # The numbers of accepted links and bytes, and of refused messages by stat.
    _links: int = 0
    _bytes: int = 0
    _refused: Counter[str] = field(default_factory=Counter)
    _lag_max: float = 0.0
    # When the event loop gets its next turn.
    _break_at: float = 0.0

    async def run(self) -> None:
        """Receive messages until cancelled."""
        while not is_cancelled():
            try:
                streams = await self._read()
            except UNREACHABLE:
                await asyncio.sleep(RETRY_SECS)
                continue
            # ``_take_in`` gives the event loop a turn after this time.
            self._break_at = now() + _SLICE_SECS
            try:
                for stream in streams:
                    await self._take_in(*stream)
            except (OSError, CorruptRecordError, FatalError) as error:
                self.fail(error)
                await asyncio.sleep(RETRY_SECS)
                continue
            if streams:
                await asyncio.sleep(_READ_PAUSE_SECS)

    async def _read(self) -> list[tuple[int, Inbox, str, _Entries]]:
        """Read the next entries of each stream, after a short wait if there are none.

        Returns for each stream the shard's number, its inbox, the ID before the first entry, and
        the entries.
        """
        by_stream: dict[str, tuple[int, Inbox, str]] = {}
        for number, inbox in self.inboxes.items():
            # Before the first heartbeat it is not known what the positions refer to.
            if not (self.incarnation and inbox.is_open):
                continue
            if inbox.incarnation != self.incarnation:
                inbox.begin(self.incarnation)
            if not inbox.is_full:
                by_stream[self.keys.stream(number)] = number, inbox, inbox.cursor
        if not by_stream:
            await asyncio.sleep(_IDLE_SECS)
            return []

        cursors = [cursor for *_, cursor in by_stream.values()]
        answer = await self.client.execute_command(
            *("XREAD", "COUNT", _READ_ENTRIES, "BLOCK", _BLOCK_MS, "STREAMS"),
            *by_stream,
            *cursors,
        )
        streams = ((name.decode(), entries) for name, entries in answer or ())
        return [(*by_stream[stream], entries) for stream, entries in streams]

    async def _take_in(self, number: int, inbox: Inbox, cursor: str, entries: _Entries) -> None:
        """Pass *entries* to *inbox*, as long as its shard is held and its cursor is unchanged."""
        for start in range(0, len(entries), _SLICE_ENTRIES):
            # Since the entries were read, the shard may have been given up or closed, or its inbox
            # may have gone back to earlier entries.
            is_held = self.inboxes.get(number) is inbox and inbox.is_open
            if not is_held or inbox.cursor != cursor:
                return
            batch = [
                (stream_id.decode(), fields.get(b"b", b""))
                for stream_id, fields in entries[start : start + _SLICE_ENTRIES]
            ]
            links, refused = inbox.take_in(batch)

            cursor = batch[-1][0]
            self._links += links
            self.received += len(batch)
            self._bytes += sum(len(packed) for _, packed in batch)
            self.lag = max(0.0, wall_time() - stream_id_key(cursor)[0] / 1000)
            self._lag_max = max(self.lag, self._lag_max)
            for stat, reasons in refused.items():
                if reasons:
                    self._count_refused(stat, reasons)
            if now() >= self._break_at:
                await asyncio.sleep(0)
                self._break_at = now() + _SLICE_SECS

    def _count_refused(self, stat: str, reasons: Sequence[str]) -> None:
        """Count refused messages under *stat*, and log the first one.

        *reasons* are errors or hosts, one for each message.
        """
        if not self._refused[stat]:
            message = f"{_REFUSED[stat]}. Further ones are only counted in the stat {stat}"
            logger.warning(message, reasons[0])
        self._refused[stat] += len(reasons)

    def stats(self) -> dict[str, float]:
        """Return the stats of this receiver by name."""
        return {
            "hive/batches/received": self.received,
            "hive/links/received": self._links,
            "hive/batches/links_mean": round(self._links / max(1, self.received), 1),
            "hive/bytes/received": self._bytes,
            **{stat: self._refused[stat] for stat in _REFUSED},
            "hive/lag/secs": round(self.lag, 3),
            "hive/lag/secs_max": round(self._lag_max, 3),
        }
