"""Exchange of shards: a drone claims and adopts them, hands them over, and abandons what it lost.

A shard is taken from a drone only when its lease has ended in Redis and its beats in the store, if
there are any, have stood still for as long. One that was lost is not written to any more: whoever
adopts it goes on from its last published checkpoint and what its stream has since. Of hosts that
were perhaps contacted since that checkpoint none is contacted before the rest after a contact that
lasted until now.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from typing import TYPE_CHECKING, Final

from webcrawl.clock import now, wall_time
from webcrawl.crawl.state_directory import shard_name, shard_path
from webcrawl.errors import HiveStoreError
from webcrawl.frontier.delay_policy import cut_off
from webcrawl.hive.connection import UNREACHABLE
from webcrawl.hive.holding import Held
from webcrawl.hive.inbox import Inbox
from webcrawl.hive.membership import Owner
from webcrawl.hive.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from webcrawl.crawl.agent import Agent
    from webcrawl.crawl.shard import Shard
    from webcrawl.hive.drone import HiveServices
    from webcrawl.hive.holding import Holding, LeaseTime
    from webcrawl.hive.membership import Beat
    from webcrawl.hive.publication import Publication

logger = logging.getLogger(__name__)

# Seconds between two looks at whether the URLs in process of a leaving shard are done.
_LOOK_SECS: Final = 0.1


class ShardExchange:
    """The exchange of one drone; *shard_of* makes a new shard of a number, not open.

    *publication* is the drone's, with its agent, services and name; *lease_secs* is
    HIVE_LEASE_SECS.
    """

    def __init__(
        self,
        *,
        name: str,
        shard_of: Callable[[int], Shard],
        publication: Publication,
        lease_secs: float,
    ) -> None:
        self._name = name
        self._shard_of = shard_of
        self._publication = publication
        self._agent: Agent = publication.agent
        self._hive: HiveServices = publication.services
        self._holding: Holding = publication.holding
        self._time: LeaseTime = publication.time
        self._lease_secs = lease_secs
        # Counters of drones that beat in the store only, and since when they have stood still.
        self._watched: dict[str, tuple[str, float]] = {}

    async def work(self, beat: Beat) -> None:
        """Do what *beat*, the latest, asks for. UNREACHABLE; done again with the next."""
        share, held = beat.state.share, self._holding
        # Of a claim or a release whose answer was lost.
        stray = {one: token for one, token in beat.leases.items() if one not in held}
        if len(held) < share:
            if self._time.is_good():
                await self._take(beat, stray, share - len(held))
        elif stray:
            await self._hive.membership.release(stray)
        elif len(held) > share > 0:
            await self._hand_over([*held][share:])

    async def _take(self, beat: Beat, stray: Mapping[int, int], most: int) -> None:
        """Claim and adopt up to *most* shards, *stray* ones first."""
        free = await self._free(beat)
        free |= {one: Owner(token, self._name) for one, token in stray.items()}
        first = sorted(free, key=lambda one: (one not in stray, one))[:most]
        if not first:
            return
        claimed = await self._hive.membership.claim({one: free[one] for one in first})
        bringing = [
            self._bring(one, token, free[one].token, is_published=one in beat.acks)
            for one, token in claimed.items()
        ]
        for (number, token), quiet_until in zip(
            claimed.items(), await asyncio.gather(*bringing, return_exceptions=True), strict=True
        ):
            if isinstance(quiet_until, UNREACHABLE):
                told = "The shard %d cannot be fetched yet: %s"
                logger.warning(told, number, quiet_until or type(quiet_until).__name__)
            elif isinstance(quiet_until, BaseException):
                raise quiet_until
            elif not self._agent.is_ending:
                self._adopt(number, token, quiet_until)
                await asyncio.sleep(0)
        self._agent.start_checkpoint()

    async def _free(self, beat: Beat) -> dict[int, Owner]:
        """The shards without a living holder, with the last one."""
        state = beat.state
        if not self._time.is_new and beat.now < state.born_at + self._lease_secs:
            return {}  # drones that are alive have not registered their shards yet
        owners = {one: beat.owners.get(one, Owner(0, "")) for one in range(state.shards)}
        if not self._time.is_new and len(beat.owners) < state.shards:
            # The drones that Redis has forgotten may be cut off from it.
            unknown = [one for one in owners if one not in beat.owners]
            owners |= await asyncio.to_thread(self._last_owners, unknown)
        free = {one: owner for one, owner in owners.items() if owner.drone not in beat.alive}
        suspects = {owner.drone for owner in free.values() if owner.drone}
        if not suspects:
            return free
        living = self._standing(await asyncio.to_thread(self._hive.store.alive, suspects))
        return {one: owner for one, owner in free.items() if owner.drone not in living}

    def _last_owners(self, numbers: Collection[int]) -> dict[int, Owner]:
        """Those of the shards *numbers* as their newest checkpoints say. Blocks."""
        found = {one: self._hive.store.newest(one) for one in numbers}
        return {
            number: Owner(last.token, "" if last.released else last.drone)
            for number, last in found.items()
            if last is not None
        }

    def _standing(self, counters: Mapping[str, str]) -> set[str]:
        """The drones whose beats in the store have not stood still for a lease."""
        at = now()
        for drone, counter in counters.items():
            if drone not in self._watched or self._watched[drone][0] != counter:
                self._watched[drone] = counter, at
        return {one for one in counters if at - self._watched[one][1] < self._lease_secs}

    async def _bring(self, number: int, token: int, before: int, *, is_published: bool) -> float:
        """Bring the newest checkpoint of the shard *number*, whose lease has the *token* now and
        had *before*, into its directory. Until when none of its hosts may be contacted.

        *is_published*: there was one. Without it the shard must not begin anew, as the links that
        it had are in no outbox any more."""
        store, path = self._hive.store, self._path(number)
        await self._agent.until_gone(number)
        # One that was never held has none.
        was_held = bool(before) or is_published or not self._time.is_new
        published = await asyncio.to_thread(store.newest, number) if was_held else None
        if published is None and is_published:
            raise HiveStoreError("HIVE_STORE has no checkpoint of it any more")
        if published is None:
            await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
            return self._rest_since(0.0) if was_held else 0.0
        fetched = await asyncio.to_thread(store.fetch, published, path, token=token, before=before)
        if fetched.in_place or fetched.published.released:
            return 0.0
        return self._rest_since(fetched.published.written_at)

    def _path(self, number: int) -> Path:
        return shard_path(self._agent.job.path, shard_name(number))

    def _adopt(self, number: int, token: int, quiet_until: float) -> None:
        """Go on with the shard *number*, which is in its directory. Blocks, some 10 ms."""
        agent, path = self._agent, self._path(number)
        shard = self._shard_of(number)
        held = Held(shard, token, Outbox(path=path / "outbox"), Inbox(shard=shard, path=path))
        shard.join("outbox", held.outbox)
        shard.join("inbox", held.inbox)
        agent.adopt(shard, quiet_until=quiet_until)
        if held.inbox.knows_all_seeds:
            shard.seeds_are_known()
        self._holding.add(held)
        if number == 0:
            self._hive.live_seeds.begin()
        agent.enqueue_early()
        agent.stats.inc_value("hive/shards/adopted")

    def _rest_since(self, at: float) -> float:
        """Until when no host may be contacted of which it is not known what was sent to it since
        *at*, epoch seconds."""
        return now() + cut_off(self._agent.live.delay, max(0.0, wall_time() - at))

    async def _hand_over(self, numbers: Collection[int]) -> None:
        """Give the shards *numbers* back, with a checkpoint in which nothing of them is missing."""
        publication = self._publication
        leaving = [self._holding[number].shard for number in numbers]
        for shard in leaving:
            shard.is_leaving = True
        while not all(one.is_idle or one.is_abandoned for one in leaving):  # noqa: ASYNC110  # many things end it
            await asyncio.sleep(_LOOK_SECS)
        await self._agent.until_no_checkpoint()
        publication.to_be_released.update(numbers)
        publication.released.clear()
        await self._agent.checkpoint()
        publication.to_be_released.clear()
        if any(shard.is_abandoned for shard in leaving):
            return
        if not publication.released.issuperset(numbers):
            for shard in leaving:
                shard.is_leaving = False
            return
        leases = {}
        for number in numbers:
            held = self._holding.let_go(number)
            leases[number] = held.token
            self._agent.part_with(held.shard)
        self._agent.stats.inc_value("hive/shards/handed_over", len(leases))
        await self._hive.membership.release(leases)

    def abandon(self, lost: Collection[int]) -> None:
        """The shards *lost* are other drones', and what belongs to one shard may be in another's
        outbox: all are given up."""
        logger.error(
            "The shards %s were lost to other drones: all that was done since the last checkpoint "
            "is given up",
            ", ".join(map(str, sorted(lost))),
        )
        self._agent.stats.inc_value("hive/shards/abandoned", len(self._holding))
        self._hive.sender.forget()
        for number in [*self._holding]:
            self._agent.abandon(self._holding.let_go(number).shard)
