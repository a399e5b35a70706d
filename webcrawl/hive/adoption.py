"""Adoption of shards: a drone claims free ones, fetches their checkpoints and opens them.

Hosts of an adopted shard may have been contacted after its last published checkpoint. They pause as
after an unrecorded request: see ``Frontier.open``.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path

from webcrawl.clock import now
from webcrawl.crawl.job.state_directory import shard_names
from webcrawl.crawl.task.renderer import Renderer
from webcrawl.errors import ObjectStoreError
from webcrawl.hive.bus.inbox import Inbox
from webcrawl.hive.bus.large_bodies import LargeBodies
from webcrawl.hive.bus.messages import SubresourceMessage
from webcrawl.hive.bus.outbox import outbox_of
from webcrawl.hive.free_shards import FreeShards
from webcrawl.hive.membership.connection import UNREACHABLE, reason_of
from webcrawl.hive.membership.membership import Beat, Owner
from webcrawl.hive.parts import DroneParts
from webcrawl.hive.publication import Publication
from webcrawl.hive.store.checkpoint_files import LocalRecord

logger = logging.getLogger(__name__)

# With each heartbeat, a drone takes over this fraction of its share, but at least a few shards. So
# its load grows gradually, and a drone that lost its shards for a moment gets most of them back.
_SHARE_FRACTION = 8
_MIN_SHARDS = 4


class Adoption:
    """Adopts shards in the drone with *parts*; *publication* limits the number of transfers."""

    def __init__(self, parts: DroneParts, publication: Publication) -> None:
        self._hive = parts
        self._process = parts.process
        self._holding = parts.holding
        self._publication = publication
        self._renderer = parts.process.parts.services.renderer
        self._free = FreeShards(parts)
        # When to try again to fetch shards that could not be fetched.
        self._retry_at: dict[int, float] = {}

    async def adopt(self, beat: Beat, unrecorded: Mapping[int, int], limit: int) -> bool:
        """Claim and adopt up to *limit* shards: first the *unrecorded* ones, then a few free ones.

        *unrecorded* has the tokens of leases that Redis has for this drone but the drone does not.
        Returns whether it has claimed any. Raises one of UNREACHABLE.
        """
        owners = await self._free.find(beat, unrecorded)
        additional = sorted(owners.keys() - unrecorded)[
            : max(beat.state.share // _SHARE_FRACTION, _MIN_SHARDS)
        ]
        wanted = [*sorted(owners.keys() & unrecorded), *additional]
        chosen = [number for number in wanted if self._retry_at.get(number, 0.0) <= now()][:limit]
        if not chosen:
            return False

        with_requests = {
            number
            for number in map(int, shard_names(self._hive.job.path))
            if outbox_of(self._hive.directory(number)).has_requests
        }
        owners = {number: owners[number] for number in chosen}
        if not self._holding.is_redis_complete:
            unknown = [number for number in chosen if not owners[number].token]
            owners |= await asyncio.to_thread(self._last_owners, unknown)
        newest = max(self._holding.newest.values(), default=0)
        claimed = await self._hive.membership.claim(owners, newest, beat.incarnation)
        # From now on, heartbeats show whether they were lost, as fetching them may take minutes.
        leases = self._holding.leases
        leases |= claimed
        fetching = [
            self._fetch(number, token, owners[number].token, beat.acknowledged.get(number))
            for number, token in claimed.items()
        ]
        # Each outcome is that of ``_fetch``, or its exception.
        fetched = await asyncio.gather(*fetching, return_exceptions=True)
        outcomes = dict(zip(claimed, fetched, strict=True))

        continued = {number for number, outcome in outcomes.items() if outcome is None}
        # Logs of finished pages can be trusted only if the Requests of those pages are all here.
        trusts_logs = with_requests <= continued | self._holding.outboxes.keys()
        for number, outcome in outcomes.items():
            if leases.get(number) != claimed[number]:
                continue  # it was lost meanwhile
            if isinstance(outcome, UNREACHABLE):
                del leases[number]
                self._retry_at[number] = now() + self._holding.lease_secs
                logger.warning("Shard %d cannot be fetched yet: %s", number, reason_of(outcome))
            elif isinstance(outcome, BaseException):
                raise outcome
            elif not self._process.stop.is_ending:
                self._open(number, forgets=bool(outcome), trusts_log=trusts_logs)
                await asyncio.sleep(0)
        return True

    def _last_owners(self, numbers: Collection[int]) -> dict[int, Owner]:
        """Return those of the shards *numbers* with checkpoints, and the newest token. Blocks."""
        find = self._hive.store.find_newest
        return {number: Owner(last.token, "") for number in numbers if (last := find(number))}

    async def _fetch(
        self, number: int, token: int, last_token: int, acknowledged: tuple[int, int] | None
    ) -> bool | None:
        """Fetch the newest checkpoint of shard *number* into its directory.

        Returns whether hosts may have been contacted after the checkpoint, or None if the
        directory is as the last holder left it.

        token, last_token: those of the shard's lease now, and of the lease before, which is 0 if
            the shard was never held.
        acknowledged: a checkpoint that existed. The shard must have it or a later one, because the
            links in it are no longer in any outbox.
        """
        store = self._hive.store
        path = self._hive.directory(number)
        await self._process.parts.lifecycle.until_gone(number)
        # Also of a shard that Redis does not know, as it may have older data than the store.
        published = await asyncio.to_thread(store.find_newest, number)
        if published is None:
            if acknowledged is not None:
                raise ObjectStoreError("its checkpoint is missing from HIVE_STORE")
            if await asyncio.to_thread(_prepare_directory, path, token, last_token):
                return None
            return last_token > 0 or not self._holding.is_redis_complete

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

    def _open(self, number: int, *, forgets: bool, trusts_log: bool) -> None:
        """Open shard *number*, which was fetched into its directory. Blocks for about 10 ms.

        forgets: whether hosts may have been contacted after its checkpoint.
        trusts_log: whether pages in its log of finished pages count as finished.
        """
        hive = self._hive
        path = hive.directory(number)
        shard = hive.shard_of(number)
        outbox = outbox_of(path)
        inbox = Inbox(
            shard=shard,
            path=path,
            number_of=hive.shards.number_of,
            on_subresource=partial(receive_subresource, self._renderer, hive.bodies),
        )

        shard.trusts_log = trusts_log
        shard.join("outbox", outbox)
        shard.join("inbox", inbox)
        self._process.parts.lifecycle.adopt(shard, forgets=forgets)
        if inbox.knows_all_seeds:
            shard.feeder.has_all_seeds = True

        self._holding.outboxes[number] = outbox
        self._holding.inboxes[number] = inbox
        if number == 0:
            hive.live_seeds.begin()
        self._process.intake.enqueue_early()
        hive.stats.inc_value("hive/shards/adopted")
        if self._renderer is not None:  # pages wait for hosts of the shard
            self._renderer.resume({number})


def receive_subresource(
    renderer: Renderer | None, bodies: LargeBodies, message: SubresourceMessage
) -> None:
    """Pass *message* on to *renderer*, with the content that it may name in *bodies*."""
    if renderer is None:
        return
    if message.is_stored:
        name = message.content.decode("ascii", "replace")
        bodies.take(name, renderer.receive, on_lost=partial(renderer.ask_again, message.url))
    else:
        renderer.receive(message.content)


def _prepare_directory(path: Path, token: int, last_token: int) -> bool:
    """Prepare the directory *path* of a shard that was never published, for use under *token*.

    Returns whether the directory is continued, because it was last used under *last_token* and has
    a checkpoint. Otherwise it is emptied.
    """
    is_kept = 0 < last_token == LocalRecord.read(path).token and (path / "CURRENT").exists()
    if not is_kept:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
    LocalRecord(token=token).write(path)
    return is_kept
