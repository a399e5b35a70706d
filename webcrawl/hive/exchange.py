"""Exchange of shards: a drone claims and adopts shards, hands them over, and abandons lost ones.

drone.py explains when a drone may take a shard. Hosts of an adopted shard may have been contacted
after its last published checkpoint. They pause as after an unrecorded request: see
``Frontier.open``.
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
from webcrawl.hive.membership.connection import UNREACHABLE, reason_of
from webcrawl.hive.membership.membership import Owner
from webcrawl.hive.publication import pages_of
from webcrawl.hive.store.checkpoint_files import LocalRecord
from webcrawl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from webcrawl.hive.membership.membership import Beat
    from webcrawl.hive.parts import DroneParts
    from webcrawl.hive.publication import Publication

logger = logging.getLogger(__name__)

# With each heartbeat, a drone takes over this fraction of its share, but at least a few shards. So
# its load grows gradually, and a drone that lost its shards for a moment gets most of them back.
_SHARE_FRACTION = 8
_MIN_SHARDS = 4
# Seconds between two checks whether a leaving shard has finished its URLs in process.
_POLL_SECS = 0.1


class ShardExchange:
    """Claims, hands over and abandons the shards of one drone.

    *publication* uploads the checkpoints of shards that are handed over.
    """

    def __init__(self, parts: DroneParts, publication: Publication) -> None:
        self._hive = parts
        self._process = parts.process
        self._holding = parts.holding
        self._lease_secs = parts.settings.lease_secs
        self._publication = publication
        # Heartbeats that drones write to the store, and when each last changed.
        self._store_beats: dict[str, tuple[str, float]] = {}
        # Shards that Redis does not know, or of which the store has a newer token, by (``born``,
        # number), and since when.
        self._unregistered_since: dict[tuple[str, int], float] = {}
        # When to try again to fetch shards that could not be fetched.
        self._retry_at: dict[int, float] = {}
        #: Whether shards are being handed over. Until others can take them, the drone is not idle.
        self.is_handing_over = False

    async def work(self, beat: Beat, *, is_ending: bool = False) -> None:
        """Claim or hand over shards as the latest heartbeat requires.

        If *is_ending*, no shard is handed over, because the crawl may end before another drone
        takes it. Raises one of UNREACHABLE; the work is repeated with the next heartbeat.
        """
        if not all(
            (self._directory(number) / "CURRENT").exists() for number in self._holding.outboxes
        ):
            self._process.checkpoints.start()  # shards were adopted while the last one was made

        share, leases = beat.state.share, self._holding.leases
        # Leases of this drone that only Redis knows: the answer to a claim or release was lost.
        unrecorded = {
            number: token for number, token in beat.leases.items() if number not in leases
        }
        if len(leases) < share:
            if self._holding.is_valid():
                await self._claim(beat, unrecorded, share - len(leases))
        elif unrecorded:
            await self._hive.membership.release(unrecorded)
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

    async def _claim(self, beat: Beat, unrecorded: Mapping[int, int], limit: int) -> None:
        """Claim and adopt up to *limit* shards: first the *unrecorded* ones, then a few free ones.

        *unrecorded* has the tokens of leases that Redis has for this drone but the drone does not.
        """
        owners = await self._free_shards(beat)
        owners |= {number: Owner(token, self._hive.name) for number, token in unrecorded.items()}
        owners = await self._omit_living(owners, beat)
        additional = sorted(owners.keys() - unrecorded)[
            : max(beat.state.share // _SHARE_FRACTION, _MIN_SHARDS)
        ]
        wanted = [*sorted(owners.keys() & unrecorded), *additional]
        chosen = [number for number in wanted if self._retry_at.get(number, 0.0) <= now()][:limit]
        if not chosen:
            return

        with_requests = {*filter(self._has_requests, map(int, shard_names(self._hive.job.path)))}
        claimed = await self._hive.membership.claim(
            {number: owners[number] for number in chosen},
            max(self._holding.newest.values(), default=0),
        )
        last_claims = await self._claim_in_store(claimed)
        claimed = {number: claimed[number] for number in last_claims}
        last_tokens = {n: max(owners[n].token, token) for n, token in last_claims.items()}
        leases = self._holding.leases
        # Fetching a shard may take minutes. From now on, heartbeats show whether it was lost.
        leases |= claimed

        fetching = [
            self._fetch_checkpoint(
                number,
                token,
                last_tokens[number],
                acknowledged=beat.acknowledged.get(number),
            )
            for number, token in claimed.items()
        ]
        # Each outcome is that of ``_fetch_checkpoint``, or its exception.
        fetched = await asyncio.gather(*fetching, return_exceptions=True)

        continued = {
            number for number, outcome in zip(claimed, fetched, strict=True) if outcome is None
        }
        # Logs of finished pages can be trusted only if the Requests of those pages are all here.
        trusts_logs = with_requests <= continued | self._holding.outboxes.keys()
        for (number, token), outcome in zip(claimed.items(), fetched, strict=True):
            if leases.get(number) != token:
                continue  # it was lost meanwhile
            if isinstance(outcome, UNREACHABLE):
                del leases[number]
                self._retry_at[number] = now() + self._lease_secs
                logger.warning("Shard %d cannot be fetched yet: %s", number, reason_of(outcome))
            elif isinstance(outcome, BaseException):
                raise outcome
            elif not self._process.stop.is_ending:
                # The drone that held it before reads of the new claim within a lease. Its own claim
                # may have been lost.
                has_rival = self._holding.needs_claims and last_tokens[number] > 0
                self._adopt(
                    number,
                    forgets=bool(outcome),
                    trusts_log=trusts_logs,
                    rival_secs=self._lease_secs if has_rival else 0.0,
                )
                await asyncio.sleep(0)
        self._process.checkpoints.start()

    async def _free_shards(self, beat: Beat) -> dict[int, Owner]:
        """Return the shards that no living drone holds, each with its last owner."""
        state = beat.state
        if not self._holding.is_redis_complete and beat.now < state.born_at + self._lease_secs:
            return {}  # living drones have not registered their shards yet
        owners = {number: beat.owners.get(number, Owner(0, "")) for number in range(state.shards)}
        unknown = owners.keys() - beat.owners.keys()
        if unknown and not self._holding.is_redis_complete:
            # Drones that Redis does not know may be alive but cut off from it.
            owners |= await asyncio.to_thread(self._last_owners, unknown)

        newest = self._holding.newest
        stale = {number for number, owner in owners.items() if owner.token < newest.get(number, 0)}
        keys = [(state.born, number) for number in unknown | stale]
        self._unregistered_since = {key: self._unregistered_since.get(key, now()) for key in keys}

        # A shard that no drone has registered for the time of a lease is not held. Neither is one
        # that only a drone without a lease held, or only the previous process of this drone.
        own_name, own_leases = self._hive.name, self._holding.leases
        departed = {owner.drone for owner in owners.values()} - beat.alive | {own_name}
        unheld = {number for number in unknown if self._is_overdue(beat, number)}
        unheld |= {number for number, owner in owners.items() if owner.drone in departed}
        free = {number: owners[number] for number in unheld - own_leases.keys()}
        # While its own lease is not steady, a drone cannot tell that the leases of others expired.
        if not self._holding.is_steady:
            free = {
                number: owner for number, owner in free.items() if owner.drone in ("", own_name)
            }
        return free

    def _is_overdue(self, beat: Beat, number: int) -> bool:
        """Return whether no drone has registered shard *number* in Redis for the time of a lease.

        Drones that have a lease in Redis register all that they hold.
        """
        since = self._unregistered_since.get((beat.state.born, number), now())
        return since < now() - self._lease_secs

    async def _omit_living(self, owners: dict[int, Owner], beat: Beat) -> dict[int, Owner]:
        """Return *owners* without the drones that still send heartbeats to the store.

        If shards are also claimed there, all living drones do, so a shard counts as given up if its
        holder has a lease in Redis and does not register it. If it has it after all, its claim is
        no longer the newest one, and the new holder waits until it has stopped.
        """
        holders = await asyncio.to_thread(self._holders, owners)
        suspects = {*holders.values()} - {"", self._hive.name}
        living = self._alive_in_store(await asyncio.to_thread(self._hive.store.alive, suspects))
        registering = beat.alive if self._holding.needs_claims else frozenset()
        return {
            number: owner
            for number, owner in owners.items()
            if holders[number] not in living
            or (holders[number] in registering and self._is_overdue(beat, number))
        }

    def _holders(self, owners: Mapping[int, Owner]) -> dict[int, str]:
        """Return the last holder of each shard in *owners*. Blocks.

        The store knows it if it has a newer token of the shard than Redis.
        """
        holders = {number: owner.drone for number, owner in owners.items()}
        for number, owner in owners.items():
            token = self._holding.newest.get(number, 0)
            if owner.token < token:
                holders[number] = (
                    self._hive.store.claimant(number, token)
                    or self._last_owners([number]).get(number, owner).drone
                )
        return holders

    async def _claim_in_store(self, claimed: Mapping[int, int]) -> dict[int, int]:
        """Claim in the store, if needed, the shards that were *claimed* in Redis.

        Returns those that may be held, each with the token of its last claim in the store, or 0.
        The others are released in Redis.
        """
        if not self._holding.needs_claims:
            return dict.fromkeys(claimed, 0)
        store = self._hive.store
        last_claims = await asyncio.to_thread(store.claim, claimed, self._hive.name)
        if lost := {n: token for n, token in claimed.items() if n not in last_claims}:
            logger.warning(
                "Other drones have claimed the shards %s through another master of Redis",
                ", ".join(map(str, sorted(lost))),
            )
            self._holding.record_tokens(await asyncio.to_thread(store.claims))
            await self._hive.membership.release(lost)
        return last_claims

    def _last_owners(self, numbers: Collection[int]) -> dict[int, Owner]:
        """Return the owners that the newest checkpoints of the shards *numbers* name. Blocks."""
        newest = {number: self._hive.store.newest(number) for number in numbers}
        return {
            number: Owner(checkpoint.token, "" if checkpoint.released else checkpoint.drone)
            for number, checkpoint in newest.items()
            if checkpoint is not None
        }

    def _alive_in_store(self, beats: Mapping[str, str]) -> set[str]:
        """Return the drones whose *beats* in the store changed within the time of a lease."""
        checked_at = now()
        for drone, beat in beats.items():
            if drone not in self._store_beats or self._store_beats[drone][0] != beat:
                self._store_beats[drone] = beat, checked_at
        return {
            drone for drone in beats if checked_at - self._store_beats[drone][1] < self._lease_secs
        }

    async def _fetch_checkpoint(
        self, number: int, token: int, last_token: int, *, acknowledged: tuple[int, int] | None
    ) -> bool | None:
        """Fetch the newest checkpoint of shard *number* into its directory.

        Returns whether hosts may have been contacted after the checkpoint, or None if the
        directory is as the last holder left it.

        token: the token of the shard's lease now.
        last_token: the token of the lease before.
        acknowledged: a checkpoint that existed. The shard must have it or a later one, because the
            links in it are no longer in any outbox.
        """
        store, path = self._hive.store, self._directory(number)
        await self._process.parts.lifecycle.until_gone(number)
        # A shard that was never held has no checkpoint.
        was_held = last_token > 0 or acknowledged is not None or not self._holding.is_redis_complete
        published = await asyncio.to_thread(store.newest, number) if was_held else None
        if published is None and acknowledged is not None:
            raise ObjectStoreError("its checkpoint is missing from HIVE_STORE")

        if published is None:
            if await asyncio.to_thread(_prepare_directory, path, token, last_token):
                return None
            return was_held

        async with self._publication.transfers:
            fetched = await asyncio.to_thread(
                store.fetch,
                published,
                path,
                token=token,
                before=last_token,
                acknowledged=acknowledged or (0, 0),
            )
        return None if fetched is None else not fetched.released

    def _directory(self, number: int) -> Path:
        """Return the directory of shard *number* in this drone's job."""
        return shard_path(self._hive.job.path, shard_name(number))

    def _has_requests(self, number: int) -> bool:
        """Return whether the outbox of shard *number* may hold Requests from other shards."""
        return Outbox(path=self._directory(number) / "outbox").has_requests

    def _adopt(self, number: int, *, forgets: bool, trusts_log: bool, rival_secs: float) -> None:
        """Open shard *number*, which was fetched into its directory. Blocks for about 10 ms.

        forgets: whether hosts may have been contacted after its checkpoint.
        trusts_log: whether pages in its log of finished pages count as finished.
        rival_secs: for how long another drone may still contact the hosts.
        """
        process, holding, path = self._process, self._holding, self._directory(number)
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
        self._process.parts.lifecycle.adopt(shard, forgets=forgets, rival_secs=rival_secs)
        self._publication.published_pages[number] = pages_of(shard)
        if inbox.knows_all_seeds:
            shard.note_all_seeds_known()

        holding.outboxes[number], holding.inboxes[number] = outbox, inbox
        if number == 0:
            self._hive.live_seeds.begin()
        process.intake.enqueue_early()
        self._hive.stats.inc_value("hive/shards/adopted")

    async def _hand_over(self, numbers: Collection[int]) -> None:
        """Give up the shards *numbers*, after a checkpoint with all of their work."""
        holding = self._holding
        leaving = [shard for shard in self._hive.shards if shard.number in numbers]
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
            self._process.parts.lifecycle.abandon(shard, deletes=True)
        self._hive.stats.inc_value("hive/shards/handed_over", len(leases))
        await self._hive.membership.release(leases)

    def abandon(self, lost: Collection[int]) -> None:
        """Give up the shards *lost*, which other drones hold or may hold.

        All shards are given up if the outbox of a lost one may have Requests from their pages.
        """
        holding = self._holding
        given_up = {*holding.leases} if any(map(self._has_requests, lost)) else {*lost}
        abandoned = [shard for shard in self._hive.shards if shard.number in given_up]
        published = (self._publication.published_pages[shard.number] for shard in abandoned)
        logger.error(
            "The shards %s were lost to other drones: about %s of %s, fetched since the last "
            "published checkpoint, are discarded and will be fetched again",
            ", ".join(map(str, sorted(lost))),
            counted(sum(map(pages_of, abandoned)) - sum(published), "page"),
            counted(len(given_up), "shard"),
        )
        self._hive.sender.forget()
        for number in given_up:
            for by_number in (holding.leases, holding.outboxes, holding.inboxes):
                by_number.pop(number, None)
        for shard in abandoned:
            self._hive.stats.inc_value("hive/shards/abandoned")
            self._process.parts.lifecycle.abandon(shard)


def _prepare_directory(path: Path, token: int, last_token: int) -> bool:
    """Prepare the directory *path* of a shard that was never published, for use under *token*.

    Returns whether the directory is continued, because it was last used under *last_token* and
    has a checkpoint. Otherwise it is emptied.
    """
    is_kept = 0 < last_token == LocalRecord.read(path).token and (path / "CURRENT").exists()
    if not is_kept:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
    LocalRecord(token=token).write(path)
    return is_kept
