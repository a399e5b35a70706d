"""The objects that make up a drone, shared by its heartbeats, shard exchange and publications."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

from redis.asyncio import Redis
from scrapy.statscollectors import StatsCollector

from webcrawl.crawl.job.jobdir import Job
from webcrawl.crawl.job.state_directory import shard_name, shard_path
from webcrawl.crawl.process import Process
from webcrawl.crawl.shard.shard import Shard
from webcrawl.crawl.shard.shards import Shards
from webcrawl.hive.bus.large_bodies import LargeBodies
from webcrawl.hive.bus.live_seeds import LiveSeeds
from webcrawl.hive.bus.receiver import Receiver
from webcrawl.hive.bus.sender import Sender
from webcrawl.hive.configuration import HiveSettings
from webcrawl.hive.membership.holding import Holding
from webcrawl.hive.membership.lease_keeper import LeaseKeeper
from webcrawl.hive.membership.membership import Membership
from webcrawl.hive.store.store import CheckpointStore
from webcrawl.net.fence import Fence


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DroneParts:
    """The parts of one drone: its process, its shards, and its connections to other drones.

    job, shards: those of the drone's process.
    name: the drone's name in the hive, unique to each drone.
    compared: the settings to compare with those of other drones.
    shard_of: makes a new, unopened shard from its number.
    suffixes: the text of the public suffix list, used if the hive is new.
    fence: lets the process contact hosts only while its leases are valid.
    keeps_open: whether the hive waits for more seeds when no URL is left.
    """

    name: str
    settings: HiveSettings
    compared: Mapping[str, str]
    process: Process
    job: Job
    shards: Shards
    stats: StatsCollector
    shard_of: Callable[[int], Shard]
    holding: Holding
    fence: Fence
    client: Redis
    membership: Membership
    keeper: LeaseKeeper
    store: CheckpointStore
    sender: Sender
    receiver: Receiver
    live_seeds: LiveSeeds
    bodies: LargeBodies
    suffixes: str
    keeps_open: bool

    def directory(self, number: int) -> Path:
        """Return the directory of shard *number* in this drone's job."""
        return shard_path(self.job.path, shard_name(number))
