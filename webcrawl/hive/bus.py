"""Bus: the way of messages from the outboxes of a process to Redis, and from there to its inboxes.

Each shard has a stream. The sender (sender.py) puts what the outboxes have for one target into few
entries of its stream, field ``b``: messages, packed by ``storage.record_log.pack_many``. Each ID
goes back to the segments whose messages it carried. The receiver (receiver.py) reads the streams of
the shards that are held, each from its position; there are no groups of consumers, whose state in
Redis could disagree with the checkpoint's.

Redis may lose what it has: all of it, or what was written since it last saved or replicated. Then
IDs that were answered mean nothing any more. An *incarnation* names the data and the server
processes that had them without a break. When a beat finds another one, the outboxes are rewound,
streams are read from their beginnings, and acknowledgements count from then on. So a message
arrives at least once whatever happens to Redis, and nothing waits for it but messages.

Both sides try for ever, after 0.1 to 5 seconds. Everything runs in the reactor's loop.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from redis.asyncio import RedisCluster

if TYPE_CHECKING:
    from collections.abc import Mapping

    from redis.asyncio import Redis

    from webcrawl.hive.inbox import Inbox
    from webcrawl.hive.outbox import Outbox
    from webcrawl.hive.receiver import Receiver
    from webcrawl.hive.sender import Sender

logger = logging.getLogger(__name__)


class Bus:
    """The *sender* and the *receiver* of a process; *outboxes* are those of its shards."""

    def __init__(
        self,
        *,
        client: Redis | RedisCluster,
        outboxes: Mapping[int, Outbox],
        sender: Sender,
        receiver: Receiver,
    ) -> None:
        self._client = client
        self._outboxes = outboxes
        self.sender = sender
        self.receiver = receiver
        self._incarnation = ""

    async def run(self) -> None:
        """Send and receive until it is cancelled. Nothing is received before ``heard``."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.sender.run())
            group.create_task(self.receiver.run())

    async def heard(self, *, born: str, acks: Mapping[int, str]) -> None:
        """A beat has told by what word Redis' data are known, and up to where each shard's stream
        is in a published checkpoint. UNREACHABLE if Redis is away again; the next beat tells it."""
        if not born:
            return
        # Asked after the acks were read: if it is the one that gave the IDs, it was all the time.
        incarnation = f"{born} {await _servers(self._client)}"
        if incarnation == self._incarnation:
            for outbox in [*self._outboxes.values()]:
                outbox.acknowledged(acks)
            return
        if self._incarnation:
            logger.info("Redis was started again or lost its data: what it may lack is sent again")
        self._incarnation = incarnation
        self.sender.rewind()
        self.receiver.begin(incarnation)

    def positions(self, inboxes: Mapping[int, Inbox]) -> dict[int, str]:
        """Of each of *inboxes* the position in its last snapshot, which was published, as far as it
        means something in the Redis that there is."""
        if not self._incarnation:
            return {}
        return {number: inbox.prepared(self._incarnation) for number, inbox in inboxes.items()}

    def forget(self) -> None:
        """Shards were abandoned: what their outboxes had may be nowhere, so nothing is spared."""
        self.sender.forget()

    def stats(self) -> dict[str, int | float]:
        """Under their names in the crawl's statistics."""
        return {**self.sender.stats(), **self.receiver.stats()}


async def _servers(client: Any) -> str:
    """Names the server processes that hold the data."""
    if not isinstance(client, RedisCluster):
        return str((await client.execute_command("INFO", "server"))["run_id"])
    nodes = client.get_primaries()
    answers = [await client.execute_command("INFO", "server", target_nodes=one) for one in nodes]
    return " ".join(sorted(str(answer["run_id"]) for answer in answers))
