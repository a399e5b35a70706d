"""Exchange of shards: a drone adopts shards, hands them over, and abandons lost ones.

drone.py explains when a drone may take a shard; free_shards.py finds those, adoption.py takes them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping

from webcrawl.crawl.shard.shard import Shard
from webcrawl.hive.adoption import Adoption
from webcrawl.hive.bus.outbox import outbox_of
from webcrawl.hive.membership.membership import Beat
from webcrawl.hive.parts import DroneParts
from webcrawl.hive.publication import Publication
from webcrawl.wording import counted

logger = logging.getLogger(__name__)

# Seconds between two checks whether a leaving shard has finished its URLs in process.
_POLL_SECS = 0.1


def to_hand_over(shards: Iterable[Shard], one_in: int) -> list[int]:
    """Return *one_in* so many of *shards* for another drone, beginning with the second fullest."""
    # Seeds are read by the holder of shard 0.
    waiting = [shard for shard in shards if shard.number and len(shard.frontier)]
    waiting.sort(key=lambda shard: len(shard.frontier), reverse=True)
    return [shard.number for shard in waiting[1::one_in]]


class ShardExchange:
    """Holds the shards that the heartbeats of the drone with *parts* require.

    *publication* uploads the checkpoints of shards that are handed over.
    """

    def __init__(self, parts: DroneParts, publication: Publication) -> None:
        self._hive = parts
        self._holding = parts.holding
        self._publication = publication
        self._adoption = Adoption(parts, publication)
        #: Whether shards are being handed over. Until others can take them, the drone is not idle.
        self.is_handing_over = False
        # Whether shards were adopted since the last checkpoint that was started here.
        self._has_adopted = False

    async def work(self, beat: Beat) -> None:
        """Adopt or hand over shards as the latest heartbeat requires.

        Raises one of UNREACHABLE; the work is repeated with the next heartbeat.
        """
        hive = self._hive
        leases = self._holding.leases
        # Leases of this drone that only Redis knows: another drone has handed over the shard, or
        # the answer to a claim or release was lost.
        unrecorded = {
            number: token for number, token in beat.leases.items() if number not in leases
        }
        limit = max(beat.state.share - len(leases), len(unrecorded))
        may_adopt = limit > 0 and self._holding.is_valid()
        if may_adopt and await self._adoption.adopt(beat, unrecorded, limit):
            self._has_adopted = True
        elif self._has_adopted:
            # One checkpoint of all shards that were adopted in a row.
            self._has_adopted = not hive.process.checkpoints.start()
        words = iter(beat.state.moves.split())
        for giver, taker, one_in in zip(words, words, words, strict=False):
            if giver == hive.name and (numbers := to_hand_over(hive.shards, int(one_in))):
                self.is_handing_over = True
                try:
                    await self._hand_over(numbers, taker)
                finally:
                    self.is_handing_over = False

    async def keep(self, leases: Mapping[int, int]) -> None:
        """Register *leases* that Redis does not have; abandon those that other drones hold."""
        accepted = await self._hive.membership.register(leases) if leases else leases
        if lost := leases.keys() - accepted.keys():
            self.abandon(lost)

    async def _hand_over(self, numbers: Collection[int], taker: str) -> None:
        """Give the shards *numbers* to *taker*, after a checkpoint with all of their work."""
        hive = self._hive
        holding = self._holding
        leaving = [shard for shard in hive.shards if shard.number in numbers]
        for shard in leaving:
            shard.is_leaving = True
        while not all(shard.is_idle or shard.is_abandoned for shard in leaving):  # noqa: ASYNC110  # many events can end it
            await asyncio.sleep(_POLL_SECS)

        released = await self._publication.release(numbers)
        leases = {}
        for shard in leaving:
            number = shard.number
            if shard.is_abandoned:
                continue
            if number not in released:  # its upload failed
                shard.is_leaving = False
                continue
            leases[number] = holding.leases.pop(number)
            del holding.outboxes[number], holding.inboxes[number]
            hive.process.parts.lifecycle.abandon(shard, deletes=True)
        hive.stats.inc_value("hive/shards/handed_over", len(leases))
        await hive.membership.release(leases, taker=taker)

    def abandon(self, lost: Collection[int]) -> None:
        """Give up the shards *lost*, which other drones hold or may hold by now.

        All shards are given up if the outbox of a lost one may have Requests from their pages.
        """
        hive = self._hive
        holding = self._holding
        takes_requests = any(outbox_of(hive.directory(number)).has_requests for number in lost)
        given_up = {*holding.leases} if takes_requests else {*lost}
        abandoned = [shard for shard in hive.shards if shard.number in given_up]
        logger.error(
            "The shards %s were lost to other drones: what was fetched for %s since the last "
            "published checkpoint is discarded and will be fetched again",
            ", ".join(map(str, sorted(lost))),
            counted(len(given_up), "shard"),
        )
        hive.sender.forget()
        for number in given_up:
            for by_number in (holding.leases, holding.outboxes, holding.inboxes):
                by_number.pop(number, None)
        for shard in abandoned:
            hive.stats.inc_value("hive/shards/abandoned")
            hive.process.parts.lifecycle.abandon(shard)
