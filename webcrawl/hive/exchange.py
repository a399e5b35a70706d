"""Exchange of shards: a drone claims and adopts shards, hands them over, and abandons lost ones.

drone.py says when a shard may be taken. Hosts that may have been contacted since its last published
checkpoint pause as after an unrecorded request, see ``Frontier.open``.
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

# A drone takes over a part of its share with each heartbeat, but at least a few shards. So its load
# grows gradually, and a drone that lost its shards for a moment finds most of them again.
_TURNS = 8
_MIN_SHARDS = 4
# Seconds between two checks whether the URLs in process of a leaving shard are done.
_LOOK_SECS = 0.1


class ShardExchange:
    """Exchange of shards by one drone; *publication* uploads those that it hands over."""

    def __init__(self, parts: DroneParts, publication: Publication) -> None:
        self._hive = parts
        self._process = parts.process
        self._holding = parts.holding
        self._lease_secs = parts.settings.lease_secs
        self._publication = publication
        # For drones with heartbeats in the store only: their counter, and when it last changed.
        self._store_beats: dict[str, tuple[str, float]] = {}
        # Shards that Redis does not know, by its ``born``, and since when.
        self._unknown: dict[tuple[str, int], float] = {}
        #: Whether shards are being handed over. Until others can take them, the drone is not idle.
        self.is_handing_over = False

    async def work(self, beat: Beat, *, is_ending: bool = False) -> None:
        """Claim or hand over shards as the latest heartbeat requires.

        With *is_ending* nothing is handed over, because the crawl may end before others take it.
        Raises one of UNREACHABLE; the next heartbeat repeats it.
        """
        if not all((self._path(number) / "CURRENT").exists() for number in self._holding.outboxes):
            self._process.checkpoints.start()  # some were adopted while the last was made
        share, leases = beat.state.share, self._holding.leases
        # Leases in Redis that the drone does not know: the answer to a claim or release was lost.
        unknown = {number: token for number, token in beat.leases.items() if number not in leases}
        if len(leases) < share:
            if self._holding.is_valid():
                await self._claim(beat, unknown, share - len(leases))
        elif unknown:
            await self._hive.membership.release(unknown)
        elif len(leases) > share > 0 and not is_ending:
            self.is_handing_over = True
            try:
                await self._hand_over(sorted(leases)[share:])
            finally:
                self.is_handing_over = False

    async def keep(self, leases: Mapping[int, int]) -> None:
        """Register *leases* that Redis does not have; abandon those that other drones hold."""
        accepted = await self._hive.membership.register(leases) if leases else leases
        if lost := leases.keys() - accepted.keys():
            self.abandon(lost)

    async def _claim(self, beat: Beat, unknown: Mapping[int, int], limit: int) -> None:
        """Claim and adopt up to *limit* shards: all *unknown* ones, then a few others."""
        free = await self._free(beat)
        others = sorted(free.keys() - unknown)[: max(beat.state.share // _TURNS, _MIN_SHARDS)]
        free |= {number: Owner(token, self._hive.name) for number, token in unknown.items()}
        chosen = [*sorted(unknown), *others][:limit]
        if not chosen:
            return
        with_requests = {*filter(self._has_requests, map(int, shard_names(self._hive.job.path)))}
        claimed = await self._hive.membership.claim({number: free[number] for number in chosen})
        leases = self._holding.leases
        # Fetching a shard may take minutes; from now on heartbeats tell whether it was lost.
        leases |= claimed
        fetching = [
            self._fetch(
                number, token, free[number].token, acknowledged=beat.acknowledged.get(number)
            )
            for number, token in claimed.items()
        ]
        fetched = await asyncio.gather(*fetching, return_exceptions=True)
        in_place = {number for number, found in zip(claimed, fetched, strict=True) if found is None}
        trusts_logs = with_requests <= in_place | self._holding.outboxes.keys()
        for (number, token), forgets in zip(claimed.items(), fetched, strict=True):
            if leases.get(number) != token:
                continue
            if isinstance(forgets, UNREACHABLE):
                del leases[number]
                message = "Shard %d cannot be fetched yet: %s"
                logger.warning(message, number, str(forgets) or type(forgets).__name__)
            elif isinstance(forgets, BaseException):
                raise forgets
            elif not self._process.stop.is_ending:
                self._adopt(number, forgets=bool(forgets), trusts_log=trusts_logs)
                await asyncio.sleep(0)
        self._process.checkpoints.start()

    async def _free(self, beat: Beat) -> dict[int, Owner]:
        """Return the shards without a living holder, each with its last one."""
        state = beat.state
        if not self._holding.is_redis_complete and beat.now < state.born_at + self._lease_secs:
            return {}  # living drones have not registered their shards yet
        owners = {number: beat.owners.get(number, Owner(0, "")) for number in range(state.shards)}
        missing = owners.keys() - beat.owners.keys()
        if missing and not self._holding.is_redis_complete:
            # Drones that are missing in Redis may be alive but cut off from it.
            owners |= await asyncio.to_thread(self._last_owners, missing)
        names = [(state.born, number) for number in missing]
        self._unknown = {name: self._unknown.get(name, now()) for name in names}
        # A living drone that has not registered a shard for a lease does not hold it. Neither does
        # this drone, if only its previous process held the shard.
        me, held = self._hive.name, self._holding.leases
        gone = {owner.drone for owner in owners.values()} - beat.alive | {me}
        since = now() - self._lease_secs
        left = {n for n in owners if self._unknown.get((state.born, n), since) < since}
        left |= {n for n, owner in owners.items() if owner.drone in gone}
        free = {n: owners[n] for n in left - held.keys()}
        if not self._holding.is_steady:
            free = {number: owner for number, owner in free.items() if owner.drone in ("", me)}
        suspects = {owner.drone for owner in free.values()} - {"", me}
        if not suspects:
            return free
        living = self._beating(await asyncio.to_thread(self._hive.store.alive, suspects))
        return {number: owner for number, owner in free.items() if owner.drone not in living}

    def _last_owners(self, numbers: Collection[int]) -> dict[int, Owner]:
        """Return the owners of the shards *numbers* in their newest checkpoints. Blocks."""
        newest = {number: self._hive.store.newest(number) for number in numbers}
        return {
            number: Owner(last.token, "" if last.released else last.drone)
            for number, last in newest.items()
            if last is not None
        }

    def _beating(self, counters: Mapping[str, str]) -> set[str]:
        """Return the drones whose heartbeats in the store have changed within a lease."""
        at = now()
        for drone, counter in counters.items():
            if drone not in self._store_beats or self._store_beats[drone][0] != counter:
                self._store_beats[drone] = counter, at
        return {drone for drone in counters if at - self._store_beats[drone][1] < self._lease_secs}

    async def _fetch(
        self, number: int, token: int, before: int, *, acknowledged: tuple[int, int] | None
    ) -> bool | None:
        """Fetch the newest checkpoint of the shard *number* into its directory.

        *token* is that of its lease now, *before* that of the lease before. Returns whether hosts
        may have been contacted after the checkpoint; None if the directory is as the last holder
        left it.

        *acknowledged* is a checkpoint that existed. The shard must have it or a later one, because
        the links in it are no longer in any outbox.
        """
        store, path = self._hive.store, self._path(number)
        await self._hive.lifecycle.until_gone(number)
        # A shard that was never held has no checkpoint.
        was_held = bool(before) or acknowledged is not None or not self._holding.is_redis_complete
        published = await asyncio.to_thread(store.newest, number) if was_held else None
        if published is None and acknowledged is not None:
            raise ObjectStoreError("its checkpoint is missing in HIVE_STORE")
        if published is None:
            if await asyncio.to_thread(_begin_shard, path, token, before):
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
        """Open the shard *number*, which is in its directory. Blocks for about 10 ms."""
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
            shard.note_all_seeds_known()
        holding.outboxes[number], holding.inboxes[number] = outbox, inbox
        if number == 0:
            self._hive.live_seeds.begin()
        process.intake.enqueue_early()
        self._hive.stats.inc_value("hive/shards/adopted")

    async def _hand_over(self, numbers: Collection[int]) -> None:
        """Give up the shards *numbers*, after a checkpoint that has everything of them."""
        holding = self._holding
        leaving = [shard for shard in self._hive.shards if shard.number in numbers]
        for shard in leaving:
            shard.is_leaving = True
        while not all(one.is_idle or one.is_abandoned for one in leaving):  # noqa: ASYNC110  # many events can end it
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
        """Give up the shards *lost*, which other drones hold or may hold.

        If the outbox of one may have Requests from pages of any shard, all shards are given up.
        """
        holding = self._holding
        gone = {*holding.leases} if any(map(self._has_requests, lost)) else {*lost}
        logger.error(
            "The shards %s were lost to other drones: the work of %s since the last checkpoint "
            "is discarded and will be repeated",
            ", ".join(map(str, sorted(lost))),
            counted(len(gone), "shard"),
        )
        self._hive.sender.forget()
        for number in gone:
            for held in (holding.leases, holding.outboxes, holding.inboxes):
                held.pop(number, None)
        for shard in [held for held in self._hive.shards if held.number in gone]:
            self._hive.stats.inc_value("hive/shards/abandoned")
            self._hive.lifecycle.abandon(shard)


def _begin_shard(path: Path, token: int, before: int) -> bool:
    """Begin the shard in *path*, which was never published, under *token*.

    Returns whether its directory is continued: it was used under the token *before* and has a
    checkpoint. Otherwise it is emptied.
    """
    is_there = 0 < before == LocalRecord.read(path).token and (path / "CURRENT").exists()
    if not is_there:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
    LocalRecord(token=token).write(path)
    return is_there
