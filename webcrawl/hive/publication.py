"""Publication: each checkpoint of a drone's shards goes to HIVE_STORE, and then is acknowledged."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from webcrawl.crawl.state_directory import shard_path
from webcrawl.hive.connection import UNREACHABLE
from webcrawl.hive.upload import SupersededError
from webcrawl.storage.record_log import CorruptRecordError

if TYPE_CHECKING:
    from webcrawl.crawl.agent import Agent
    from webcrawl.hive.drone import HiveServices
    from webcrawl.hive.holding import Holding, LeaseTime
    from webcrawl.hive.inbox import Inbox

logger = logging.getLogger(__name__)

# Shards that are published at once: an object store takes its time for each request.
_AT_ONCE: Final = 4


class Publication:
    """Publication of the checkpoints of the drone *name*, as long as its leases are good."""

    def __init__(
        self,
        *,
        name: str,
        agent: Agent,
        services: HiveServices,
        holding: Holding,
        time: LeaseTime,
    ) -> None:
        self._name = name
        self.agent = agent
        self.services = services
        self.holding = holding
        self.time = time
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        #: Shards of which nothing is under way any more, to be given up with the next checkpoint.
        self.to_be_released: set[int] = set()
        #: Those whose last published checkpoint says that they were.
        self.released: set[int] = set()

    async def publish(self) -> None:
        """A checkpoint of all shards is on this disk: bring it to the store, and acknowledge what
        it has of the streams. Warns of what fails: the next checkpoint brings it."""
        published: dict[int, Inbox] = {}
        first = self.services.splitter.with_requests
        for wanted in (True, False):
            some = [number for number in self.holding if (number in first) is wanted]
            await asyncio.gather(*(self._publish(number, published) for number in some))
        await self._acknowledge(published)

    async def _publish(self, number: int, published: dict[int, Inbox]) -> None:
        """Publish the shard *number*, and enter it into *published*."""
        agent = self.agent
        # Before anything else runs: a checkpoint that was prepared earlier does not have it.
        released = number in self.to_be_released or agent.is_over
        async with self._at_once:
            if number not in self.holding or not self.time.is_good():
                return
            held = self.holding[number]
            path = shard_path(agent.job.path, held.shard.name)
            if not (path / "CURRENT").exists():
                return  # adopted while the checkpoint was made
            try:
                await asyncio.to_thread(
                    self.services.store.publish,
                    path,
                    shard=number,
                    token=held.token,
                    drone=self._name,
                    released=released,
                    copy_hosts=held.shard.hosts.records.copy_to,
                    go_on=self.time.is_good,
                )
            except SupersededError as error:
                # Others have the shard, whatever Redis has said; it must say so again.
                self.time.good_until = 0.0
                logger.warning("%s", error)
                return
            except (OSError, CorruptRecordError) as error:
                agent.stats.inc_value("hive/publish/failed")
                logger.warning("A checkpoint is not in HIVE_STORE, the next one will be: %s", error)
                return
        published[number] = held.inbox
        if released:
            self.released.add(number)

    async def _acknowledge(self, published: dict[int, Inbox]) -> None:
        hive = self.services
        if not (published and self.time.has_redis):
            return
        incarnation = hive.receiver.incarnation
        positions = {one: inbox.prepared(incarnation) for one, inbox in published.items()}
        leases = self.holding.leases
        try:
            await hive.membership.acknowledge(
                {one: position for one, position in positions.items() if one in leases}, leases
            )
            if 0 in published:
                await hive.live_seeds.published()
        except UNREACHABLE as error:
            logger.warning("Links are kept until the next checkpoint: %s", error)
