"""Parts of a drone: what its beats, its exchange of shards and its publications work on."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from webcrawl.clock import now

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis.asyncio import Redis, RedisCluster

    from webcrawl.crawl.agent import Agent
    from webcrawl.crawl.shard import Shard
    from webcrawl.hive.configuration import HiveSettings
    from webcrawl.hive.inbox import Inbox
    from webcrawl.hive.live_seeds import LiveSeeds
    from webcrawl.hive.membership import Membership
    from webcrawl.hive.outbox import Outbox
    from webcrawl.hive.receiver import Receiver
    from webcrawl.hive.sender import Sender
    from webcrawl.hive.splitter import HostSplitter
    from webcrawl.hive.store import CheckpointStore


@dataclasses.dataclass(slots=True, kw_only=True)
class Holding:
    """What a drone holds, by the numbers of the shards, and how long that is good.

    leases: tokens of the shards that were claimed.
    outboxes, inboxes: of those of them that were adopted.
    good_until: until when nobody else can have the shards, by the clock of the process.
    has_redis: whether Redis has answered the last beat.
    has_all: whether Redis has all that it ever had of this hive.
    """

    leases: dict[int, int] = dataclasses.field(default_factory=dict)
    outboxes: dict[int, Outbox] = dataclasses.field(default_factory=dict)
    inboxes: dict[int, Inbox] = dataclasses.field(default_factory=dict)
    good_until: float = 0.0
    has_redis: bool = True
    has_all: bool = False

    def is_good(self) -> bool:
        """Whether nobody else can have the shards."""
        return now() < self.good_until


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DroneParts:
    """A drone's agent and holding, what it has in common with the others, and its ways there.

    name: the drone's in the hive, another one for each process.
    shard_of: makes a new shard of a number, not open.
    suffixes: public suffix list for a new hive.
    """

    name: str
    settings: HiveSettings
    agent: Agent
    shard_of: Callable[[int], Shard]
    holding: Holding
    client: Redis | RedisCluster
    membership: Membership
    store: CheckpointStore
    sender: Sender
    receiver: Receiver
    live_seeds: LiveSeeds
    splitter: HostSplitter
    suffixes: str
