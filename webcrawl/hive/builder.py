"""Builds a drone, or a single-process crawl with live seeds, from the settings."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from functools import partial
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from scrapy.crawler import Crawler

from webcrawl.configuration.values import number
from webcrawl.crawl.builder import ProcessBuilder, should_keep_open
from webcrawl.crawl.job.compared_settings import compared_settings
from webcrawl.crawl.job.suffix_lists import suffix_list_of
from webcrawl.crawl.process import Process, ProcessHooks
from webcrawl.errors import FatalError, ObjectStoreError
from webcrawl.hive.bus.large_bodies import LargeBodies
from webcrawl.hive.bus.live_seeds import LiveSeeds, SeedSource
from webcrawl.hive.bus.receiver import Receiver
from webcrawl.hive.bus.sender import Sender, stream_bytes
from webcrawl.hive.bus.splitter import HostSplitter
from webcrawl.hive.configuration import check_hive_settings, store_url
from webcrawl.hive.drone import Drone
from webcrawl.hive.membership.connection import check, client_of
from webcrawl.hive.membership.holding import Holding
from webcrawl.hive.membership.keys import Keys
from webcrawl.hive.membership.lease_keeper import LeaseKeeper
from webcrawl.hive.membership.membership import Membership
from webcrawl.hive.membership.succession import last_drone
from webcrawl.hive.parts import DroneParts
from webcrawl.hive.store.checkpoint_files import FORMAT
from webcrawl.hive.store.store import CheckpointStore
from webcrawl.net.fence import Fence
from webcrawl.randomness import random_hex
from webcrawl.seen.caches import cache_of

logger = logging.getLogger(__name__)

# How many links sent to other shards a drone remembers, at 160 bytes each. Remembering 50,000 of
# them avoids about 80 % of the messages (Broder et al., section 5).
_CACHE_SIZE = 50_000


def companion_of(crawler: Crawler) -> Drone | LiveSeedReader:
    """Build the part that connects the process of *crawler* to Redis (HIVE_BUILDER)."""
    return drone_of(crawler) if crawler.settings["HIVE"] else live_seed_reader_of(crawler)


def drone_of(crawler: Crawler) -> Drone:
    """Build the drone for *crawler*. Raises FatalError if its settings are invalid for a hive."""
    settings = crawler.settings
    hive_settings = check_hive_settings(settings)
    if not settings["JOBDIR"]:
        raise FatalError("A drone of a hive needs its own JOBDIR.")
    keys = Keys(hive_settings.name)
    client = client_of(settings)
    # The next process in a job directory continues as the same drone. A new drone gets a new name.
    name = last_drone(Path(settings["JOBDIR"]))
    name = name or f"{socket.gethostname()}-{os.getpid()}-{random_hex('drones', 4)}"

    try:
        store = CheckpointStore(url=store_url(settings))
    except ObjectStoreError as error:
        raise FatalError(f"{error}.") from error
    holding = Holding(lease_secs=hive_settings.lease_secs)
    fence = Fence(holding.is_valid, hive_settings.lease_secs)
    cache = cache_of(str(settings["HIVE_CACHE"]), setting="HIVE_CACHE", size=_CACHE_SIZE)
    bodies = LargeBodies(
        store,
        keep_secs=number(settings, "RENDER_WAIT_SECS", at_least=0),
        run=lambda coroutine: drone.run(coroutine),  # noqa: PLW0108  # it is defined later
    )
    splitter_of = partial(HostSplitter, outboxes=holding.outboxes, cache=cache, bodies=bodies)

    # The drone joins the hive later, so its process does not hold any shard yet.
    builder = ProcessBuilder(crawler, number=hive_settings.shards, held=(), remote=splitter_of)
    fail = builder.stop.fail
    sender = Sender(
        client=client,
        keys=keys,
        outboxes=holding.outboxes,
        cache=cache,
        stream_bytes=stream_bytes(hive_settings.shards),
        fail=fail,
    )
    receiver = Receiver(client=client, keys=keys, inboxes=holding.inboxes, fail=fail)

    splitter: Any = builder.shards.remote  # the one that *splitter_of* has built
    process = builder.process(
        ProcessHooks(
            fence=fence,
            may_end=lambda: drone.is_over,
            checkpoint_due=lambda: drone.checkpoint_due(),  # noqa: PLW0108  # it is defined later
            published=lambda: drone.publication.publish(),  # noqa: PLW0108  # it is defined later
            supply=lambda: drone.supply_elsewhere(),  # noqa: PLW0108  # it is defined later
            reported=[splitter, sender, receiver],
            processes=lambda: drone.processes,
            awaits=lambda: drone.awaits,
        )
    )
    live_seeds = LiveSeeds(
        client=client,
        source=SeedSource.from_settings(settings, getattr(crawler.spider, "name", "")),
        process=process,
        stats=crawler.stats,
    )

    def membership_with(client: Redis) -> Membership:
        return Membership(client=client, keys=keys, drone=name, lease_secs=hive_settings.lease_secs)

    # The lease keeper has its own connection, because it uses its own event loop.
    keeper_client = client_of(settings)
    # Drones that do not render, or are of an earlier version, cannot answer about subresources.
    store_format = f"{FORMAT} with rendering" if str(settings["RENDER"]) != "0" else str(FORMAT)
    drone = Drone(
        DroneParts(
            name=name,
            settings=hive_settings,
            compared=compared_settings(settings) | {"HIVE_STORE format": store_format},
            process=process,
            job=process.job,
            shards=process.shards,
            stats=crawler.stats,
            shard_of=builder.shard,
            holding=holding,
            fence=fence,
            client=client,
            membership=membership_with(client),
            keeper=LeaseKeeper(
                client=keeper_client,
                membership=membership_with(keeper_client),
                beat_in_store=lambda: store.beat(name, [*holding.leases]),
                holding=holding,
                fail=fail,
            ),
            store=store,
            sender=sender,
            receiver=receiver,
            live_seeds=live_seeds,
            bodies=bodies,
            suffixes=suffix_list_of(settings).text,
            keeps_open=should_keep_open(crawler),
        )
    )
    return drone


class LiveSeedReader:
    """Reads live *seeds* into a single-process crawl; the scheduler uses it in place of a drone."""

    def __init__(self, *, process: Process, client: Redis, seeds: LiveSeeds) -> None:
        self.process = process
        self._client = client
        self._seeds = seeds
        self._reading: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start reading live seeds. The crawl fails if Redis does not answer."""
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        try:
            await check(self._client)
            await self._seeds.run()
        except Exception as error:  # noqa: BLE001  # otherwise the crawl would wait for seeds forever
            self.process.stop.fail(error)

    async def close(self) -> None:
        """Stop reading live seeds and close the connection to Redis."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._client.aclose()


def live_seed_reader_of(crawler: Crawler) -> LiveSeedReader:
    """Build the reader of LIVE_SEEDS for a single-process crawl. Raises FatalError."""
    settings = crawler.settings
    stays_open = should_keep_open(crawler)
    if not settings["JOBDIR"]:
        raise FatalError("LIVE_SEEDS needs a JOBDIR: seeds stay in Redis until a checkpoint.")
    source = SeedSource.from_settings(settings, getattr(crawler.spider, "name", ""))
    client = client_of(settings)
    builder = ProcessBuilder(crawler)
    process = builder.process(
        ProcessHooks(
            may_end=lambda: seeds.is_idle and not stays_open,
            published=lambda: seeds.delete_published(),  # noqa: PLW0108  # it is defined later
        )
    )
    seeds = LiveSeeds(client=client, source=source, process=process, stats=crawler.stats)
    return LiveSeedReader(process=process, client=client, seeds=seeds)
