"""Exchange of shards: a drone claims and adopts them, hands them over, and abandons what it lost.

When a shard may be taken is said in drone.py. Of hosts that were perhaps contacted since its last
published checkpoint each rests as after a contact that is on no record, see ``Frontier.open``.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from typing import TYPE_CHECKING

from webcrawl.clock import now
from webcrawl.crawl.job.state_directory import shard_name, shard_names, shard_path
from webcrawl.errors import ObjectStoreError
from webcrawl.hive.bus.inbox import Inbox
from webcrawl.hive.bus.outbox import Outbox
from webcrawl.hive.membership.connection import UNREACHABLE
from webcrawl.hive.membership.membership import Owner
from webcrawl.hive.store.checkpoint_files import LocalRecord
from webcrawl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from webcrawl.hive.membership.membership import Beat
    from webcrawl.hive.parts import DroneParts
    from webcrawl.hive.publication import Publication

logger = logging.getLogger(__name__)

# Shards that are taken over with one beat: this part of what a drone holds, but at least some. A
# drone that adopts all that another has lost takes its time between beats, and its load grows with
# each; and who has lost them for a moment comes back to most.
_TURNS = 8
_FEW = 4
# Seconds between two looks at whether the URLs in process of a leaving shard are done.
_LOOK_SECS = 0.1


class ShardExchange:
    """The exchange of one drone, which hands over by *publication*."""

    def __init__(self, parts: DroneParts, publication: Publication) -> None:
        self._hive = parts
        self._process = parts.process
        self._holding = parts.holding
        self._lease_secs = parts.settings.lease_secs
        self._publication = publication
        # Counters of drones that beat in the store only, and since when they have stood still.
        self._watched: dict[str, tuple[str, float]] = {}
        # Since when Redis, by its word, does not know a shard.
        self._unknown: dict[tuple[str, int], float] = {}
        #: Shards are being handed over: the drone is not idle before others can take them.
        self.is_handing_over = False

    async def work(self, beat: Beat, *, is_ending: bool = False) -> None:
        """Do what *beat*, the latest, asks for. UNREACHABLE; done again with the next.

        With *is_ending* nothing is handed over: the crawl may have ended before others take it.
        """
        if not all((self._path(one) / "CURRENT").exists() for one in self._holding.outboxes):
            self._process.checkpoints.start()  # adopted while the last one was made
        share, leases = beat.state.share, self._holding.leases
        # Of a claim or a release whose answer was lost.
        stray = {one: token for one, token in beat.leases.items() if one not in leases}
        if len(leases) < share:
            if self._holding.is_good():
                await self._take(beat, stray, share - len(leases))
        elif stray:
            await self._hive.membership.release(stray)
        elif len(leases) > share > 0 and not is_ending:
            self.is_handing_over = True
            try:
                await self._hand_over(sorted(leases)[share:])
            finally:
                self.is_handing_over = False

    async def keep(self, leases: Mapping[int, int]) -> None:
        """Register *leases*, of which Redis does not know; abandon those that were lost."""
        accepted = await self._hive.membership.register(leases) if leases else leases
        if lost := leases.keys() - accepted.keys():
            self.abandon(lost)

    async def _take(self, beat: Beat, stray: Mapping[int, int], most: int) -> None:
        """Claim and adopt up to *most* shards: all *stray* ones, then a few others."""
        free = await self._free(beat)
        others = sorted(free.keys() - stray)[: max(beat.state.share // _TURNS, _FEW)]
        free |= {one: Owner(token, self._hive.name) for one, token in stray.items()}
        first = [*sorted(stray), *others][:most]
        if not first:
            return
        with_requests = {*filter(self._has_requests, map(int, shard_names(self._hive.job.path)))}
        claimed = await self._hive.membership.claim({one: free[one] for one in first})
        leases = self._holding.leases
        # From now on beats tell of each whether it was lost: to bring one may take minutes.
        leases |= claimed
        bringing = [
            self._bring(one, token, free[one].token, acknowledged=beat.acknowledged.get(one))
            for one, token in claimed.items()
        ]
        brought = await asyncio.gather(*bringing, return_exceptions=True)
        in_place = {one for one, found in zip(claimed, brought, strict=True) if found is None}
        trusts_logs = with_requests <= in_place | self._holding.outboxes.keys()
        for (number, token), forgets in zip(claimed.items(), brought, strict=True):
            if leases.get(number) != token:
                continue
            if isinstance(forgets, UNREACHABLE):
                del leases[number]
                told = "The shard %d cannot be fetched yet: %s"
                logger.warning(told, number, str(forgets) or type(forgets).__name__)
            elif isinstance(forgets, BaseException):
                raise forgets
            elif not self._process.stop.is_ending:
                self._adopt(number, forgets=bool(forgets), trusts_log=trusts_logs)
                await asyncio.sleep(0)
        self._process.checkpoints.start()

    async def _free(self, beat: Beat) -> dict[int, Owner]:
        """The shards without a living holder, with the last one."""
        state = beat.state
        if not self._holding.has_all and beat.now < state.born_at + self._lease_secs:
            return {}  # drones that are alive have not registered their shards yet
        owners = {one: beat.owners.get(one, Owner(0, "")) for one in range(state.shards)}
        unknown = owners.keys() - beat.owners.keys()
        if unknown and not self._holding.has_all:
            # The drones that Redis has forgotten may be cut off from it.
            owners |= await asyncio.to_thread(self._last_owners, unknown)
        names = [(state.born, one) for one in unknown]
        self._unknown = {name: self._unknown.get(name, now()) for name in names}
        # Who is alive and has not entered a shard for a lease does not hold it; nor does this drone
        # its own, as the last process in its directory did.
        me, held = self._hive.name, self._holding.leases
        gone = {owner.drone for owner in owners.values()} - beat.alive | {me}
        since = now() - self._lease_secs
        left = {n for n in owners if self._unknown.get((state.born, n), since) < since}
        left |= {n for n, owner in owners.items() if owner.drone in gone}
        free = {n: owners[n] for n in left - held.keys()}
        if not self._holding.is_steady:
            free = {one: owner for one, owner in free.items() if owner.drone in ("", me)}
        suspects = {owner.drone for owner in free.values()} - {"", me}
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

    async def _bring(
        self, number: int, token: int, before: int, *, acknowledged: tuple[int, int] | None
    ) -> bool | None:
        """Bring the newest checkpoint of the shard *number*, whose lease has the *token* now and
        had *before*, into its directory. Whether contacts after it may be on no record; None if the
        directory is as the last process that held the shard left it.

        *acknowledged* is one that there was. Without it or a later one the shard must not go on, as
        the links that it had are in no outbox any more."""
        store, path = self._hive.store, self._path(number)
        await self._hive.lifecycle.until_gone(number)
        # One that was never held has none.
        was_held = bool(before) or acknowledged is not None or not self._holding.has_all
        published = await asyncio.to_thread(store.newest, number) if was_held else None
        if published is None and acknowledged is not None:
            raise ObjectStoreError("HIVE_STORE has no checkpoint of it any more")
        if published is None:
            if await asyncio.to_thread(_begin, path, token, before):
                return None
            return was_held
        async with self._publication.transfers:
            fetched = await asyncio.to_thread(
                store.fetch,
                published,
                path,
                token=token,
                before=before,
                acknowledged=acknowledged or (0, 0),
            )
        if fetched.in_place:
            return None
        return not fetched.published.released

    def _path(self, number: int) -> Path:
        return shard_path(self._hive.job.path, shard_name(number))

    def _has_requests(self, number: int) -> bool:
        return Outbox(path=self._path(number) / "outbox").has_requests

    def _adopt(self, number: int, *, forgets: bool, trusts_log: bool) -> None:
        """Go on with the shard *number*, which is in its directory. Blocks, some 10 ms."""
        process, holding, path = self._process, self._holding, self._path(number)
        shard = self._hive.shard_of(number)
        outbox = Outbox(path=path / "outbox")
        inbox = Inbox(
            shard=shard,
            path=path,
            number_of=self._hive.shards.number_of,
        )
        shard.trusts_log = trusts_log
        shard.join("outbox", outbox)
        shard.join("inbox", inbox)
        self._hive.lifecycle.adopt(shard, forgets=forgets)
        if inbox.knows_all_seeds:
            shard.seeds_are_known()
        holding.outboxes[number], holding.inboxes[number] = outbox, inbox
        if number == 0:
            self._hive.live_seeds.begin()
        process.intake.enqueue_early()
        self._hive.stats.inc_value("hive/shards/adopted")

    async def _hand_over(self, numbers: Collection[int]) -> None:
        """Give the shards *numbers* back, with a checkpoint in which nothing of them is missing."""
        holding = self._holding
        leaving = [shard for shard in self._hive.shards if shard.number in numbers]
        for shard in leaving:
            shard.is_leaving = True
        while not all(one.is_idle or one.is_abandoned for one in leaving):  # noqa: ASYNC110  # many things end it
            await asyncio.sleep(_LOOK_SECS)
        released = await self._publication.release(numbers)
        leases = {}
        for shard in leaving:
            number = shard.number
            if shard.is_abandoned:
                continue
            if number not in released:
                shard.is_leaving = False
                continue
            leases[number] = holding.leases.pop(number)
            del holding.outboxes[number], holding.inboxes[number]
            self._hive.lifecycle.abandon(shard, deletes=True)
        self._hive.stats.inc_value("hive/shards/handed_over", len(leases))
        await self._hive.membership.release(leases)

    def abandon(self, lost: Collection[int]) -> None:
        """The shards *lost* are other drones', or may be. If Requests of pages of any shard may be
        in the outbox of one, all shards are given up."""
        holding = self._holding
        gone = {*holding.leases} if any(map(self._has_requests, lost)) else {*lost}
        logger.error(
            "The shards %s were lost to other drones: what was done in %s since the last "
            "checkpoint is given up",
            ", ".join(map(str, sorted(lost))),
            counted(len(gone), "shard"),
        )
        self._hive.sender.forget()
        for number in gone:
            for held in (holding.leases, holding.outboxes, holding.inboxes):
                held.pop(number, None)
        for shard in [one for one in self._hive.shards if one.number in gone]:
            self._hive.stats.inc_value("hive/shards/abandoned")
            self._hive.lifecycle.abandon(shard)


def _begin(path: Path, token: int, before: int) -> bool:
    """Take the shard in *path*, of which nothing was published, under *token*; False if it begins
    anew, as its directory was not used under the token *before*, or has no checkpoint."""
    is_there = 0 < before == LocalRecord.read(path).token and (path / "CURRENT").exists()
    if not is_there:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
    LocalRecord(token=token).write(path)
    return is_there
