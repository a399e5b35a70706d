"""Uploads a drone's checkpoints to HIVE_STORE, then acknowledges the links in them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection

from webcrawl.hive.membership.connection import UNREACHABLE
from webcrawl.hive.parts import DroneParts
from webcrawl.hive.store.upload import SupersededError
from webcrawl.storage.record_log import CorruptRecordError
from webcrawl.wording import counted

logger = logging.getLogger(__name__)

# How many shards are transferred to or from the store at a time. Each request to an object store is
# slow, and heartbeats in the store must not have to wait for a free thread.
_MAX_TRANSFERS = 4


class Publication:
    """Publishes the checkpoints of the drone with *parts*, as long as its leases are valid."""

    def __init__(self, parts: DroneParts) -> None:
        self._hive = parts
        self._holding = parts.holding
        #: Held by each upload, and by the downloads of adopted shards.
        self.transfers = asyncio.Semaphore(_MAX_TRANSFERS)
        # Idle shards that are given up with the next checkpoint.
        self._releasing: set[int] = set()
        # Those of them whose last checkpoint is in the store.
        self._released: set[int] = set()

    async def release(self, numbers: Collection[int]) -> set[int]:
        """Publish a last checkpoint of the idle shards *numbers*, so that others can take them.

        Returns the shards whose checkpoint is in the store.
        """
        checkpoints = self._hive.process.checkpoints
        # A checkpoint that has begun already may lack the last work of the shards.
        await checkpoints.settle()
        self._releasing = {*numbers}
        self._released = set()
        await checkpoints.make_another()  # its publication calls ``publish``
        self._releasing = set()
        return self._released

    async def publish(self) -> None:
        """Upload the checkpoint on this disk, and acknowledge the stream entries it contains.

        A failure is only logged, because the next checkpoint repeats the upload.
        """
        published: dict[int, tuple[int, int]] = {}
        # Shards whose outboxes may hold Requests come first: see ``Outbox.has_requests``.
        for has_requests in (True, False):
            outboxes = self._holding.outboxes.items()  # of all held shards
            numbers = [number for number, outbox in outboxes if outbox.has_requests is has_requests]
            await asyncio.gather(*(self._publish(number, published) for number in numbers))
            if not published.keys() >= {*numbers}:
                logger.info(
                    "%s uploaded to HIVE_STORE; the others follow with the next checkpoint",
                    counted(len(published), "shard"),
                )
                break  # pages of the other shards may have left their Requests in these outboxes
        await self._acknowledge(published)

    async def _publish(self, number: int, published: dict[int, tuple[int, int]]) -> None:
        """Upload shard *number*, and add its token and the sequence number to *published*."""
        stop = self._hive.process.stop
        holding = self._holding
        # Read before the first await, so that a checkpoint prepared earlier does not count.
        is_released = number in self._releasing or stop.is_over
        async with self.transfers:
            shard = self._hive.shards.find_held(number)
            if shard is None or not holding.is_valid():
                return

            path = self._hive.directory(number)
            if not (path / "CURRENT").exists():
                return  # the shard was adopted while the checkpoint was made

            # Read before the upload, during which the shard continues.
            token = holding.leases[number]
            try:
                sequence = await asyncio.to_thread(
                    self._hive.store.publish,
                    path,
                    shard=number,
                    token=token,
                    drone=self._hive.name,
                    released=is_released,
                    hosts=shard.hosts.records.database,
                    is_valid=holding.is_valid,
                )
            except SupersededError as error:
                # Another drone has the shard, so the leases in Redis must be confirmed again. The
                # shard ends here with the next heartbeat.
                holding.revoke()
                if error.token:
                    holding.newest[number] = error.token
                logger.warning("%s", error)
                return
            except (OSError, CorruptRecordError) as error:
                self._hive.stats.inc_value("hive/publish/failed")
                logger.warning(
                    "Checkpoint not uploaded to HIVE_STORE; the next one will retry: %s", error
                )
                return
        published[number] = token, sequence
        if is_released:
            self._released.add(number)

    async def _acknowledge(self, published: dict[int, tuple[int, int]]) -> None:
        """Tell the hive which stream entries the *published* checkpoints cover.

        *published* has the token and the sequence number of each shard's checkpoint. Shards that
        were lost during the upload are skipped, even if this drone has claimed them again.
        """
        hive = self._hive
        holding = self._holding
        sequences = {
            number: sequence
            for number, (token, sequence) in published.items()
            if holding.leases.get(number) == token
        }
        if not (sequences and holding.is_redis_up):
            return
        incarnation = hive.receiver.incarnation
        positions = {
            number: holding.inboxes[number].saved_position(incarnation) for number in sequences
        }
        # The links stay in Redis until the next checkpoint if it cannot be reached.
        with contextlib.suppress(*UNREACHABLE):
            await hive.membership.acknowledge(positions, holding.leases, sequences)
            if 0 in sequences:
                await hive.live_seeds.delete_published()
