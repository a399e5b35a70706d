"""Adoption of shards: a drone claims free ones, fetches their checkpoints and opens them.

Hosts of an adopted shard may have been contacted after its last published checkpoint. They pause as
after an unrecorded request: see ``Frontier.open``.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

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


class _Claim(NamedTuple):
    """The tokens of a shard's lease now, and of the lease before; 0 if the shard was never held."""

    token: int
    last_token: int


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
        claims = await self._claim({number: owners[number] for number in chosen})
        fetching = [
            self._fetch(number, claim, acknowledged=beat.acknowledged.get(number))
            for number, claim in claims.items()
        ]
        # Each outcome is that of ``_fetch``, or its exception.
        fetched = await asyncio.gather(*fetching, return_exceptions=True)
        outcomes = dict(zip(claims, fetched, strict=True))

        continued = {number for number, outcome in outcomes.items() if outcome is None}
        # Logs of finished pages can be trusted only if the Requests of those pages are all here.
        trusts_logs = with_requests <= continued | self._holding.outboxes.keys()
        leases = self._holding.leases
        lease_secs = self._holding.lease_secs
        for number, outcome in outcomes.items():
            claim = claims[number]
            if leases.get(number) != claim.token:
                continue  # it was lost meanwhile
            if isinstance(outcome, UNREACHABLE):
                del leases[number]
                self._retry_at[number] = now() + lease_secs
                logger.warning("Shard %d cannot be fetched yet: %s", number, reason_of(outcome))
            elif isinstance(outcome, BaseException):
                raise outcome
            elif not self._process.stop.is_ending:
                # The drone that held it before reads of the new claim within a lease. Its own claim
                # may have been lost.
                has_rival = self._holding.needs_claims and claim.last_token > 0
                self._open(
                    number,
                    forgets=bool(outcome),
                    trusts_log=trusts_logs,
                    rival_secs=lease_secs if has_rival else 0.0,
                )
                await asyncio.sleep(0)
        return True

    async def _claim(self, owners: Mapping[int, Owner]) -> dict[int, _Claim]:
        """Claim the shards of *owners* in Redis, and in the store if needed; return those claimed.

        From now on, heartbeats show whether they were lost, as fetching them may take minutes.
        """
        holding = self._holding
        membership = self._hive.membership
        tokens = await membership.claim(owners, max(holding.newest.values(), default=0))
        last_claims = dict.fromkeys(tokens, 0)  # tokens of the last claims in the store
        if holding.needs_claims:
            store = self._hive.store
            last_claims = await asyncio.to_thread(store.claim, tokens, self._hive.name)
            if lost := {n: token for n, token in tokens.items() if n not in last_claims}:
                logger.warning(
                    "Other drones have claimed the shards %s through another master of Redis",
                    ", ".join(map(str, sorted(lost))),
                )
                holding.record_tokens(await asyncio.to_thread(store.claims))
                await membership.release(lost)

        claims = {
            number: _Claim(tokens[number], max(owners[number].token, last_claim))
            for number, last_claim in last_claims.items()
        }
        holding.leases |= {number: claim.token for number, claim in claims.items()}
        return claims

    async def _fetch(
        self, number: int, claim: _Claim, *, acknowledged: tuple[int, int] | None
    ) -> bool | None:
        """Fetch the newest checkpoint of shard *number* into its directory.

        Returns whether hosts may have been contacted after the checkpoint, or None if the
        directory is as the last holder left it.

        acknowledged: a checkpoint that existed. The shard must have it or a later one, because the
            links in it are no longer in any outbox.
        """
        store = self._hive.store
        path = self._hive.directory(number)
        await self._process.parts.lifecycle.until_gone(number)
        # A shard that was never held has no checkpoint.
        was_held = (
            claim.last_token > 0 or acknowledged is not None or not self._holding.is_redis_complete
        )
        published = await asyncio.to_thread(store.find_newest, number) if was_held else None
        if published is None:
            if acknowledged is not None:
                raise ObjectStoreError("its checkpoint is missing from HIVE_STORE")
            if await asyncio.to_thread(_prepare_directory, path, claim):
                return None
            return was_held

        async with self._publication.transfers:
            fetched = await asyncio.to_thread(
                store.fetch,
                published,
                path,
                token=claim.token,
                before=claim.last_token,
                acknowledged=acknowledged or (0, 0),
            )
        return None if fetched is None else not fetched.released

    def _open(self, number: int, *, forgets: bool, trusts_log: bool, rival_secs: float) -> None:
        """Open shard *number*, which was fetched into its directory. Blocks for about 10 ms.

        forgets: whether hosts may have been contacted after its checkpoint.
        trusts_log: whether pages in its log of finished pages count as finished.
        rival_secs: for how long another drone may still contact the hosts.
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
        self._process.parts.lifecycle.adopt(shard, forgets=forgets, rival_secs=rival_secs)
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


def _prepare_directory(path: Path, claim: _Claim) -> bool:
    """Prepare the directory *path* of a shard that was never published, for use under *claim*.

    Returns whether the directory is continued, because it was last used under the lease before and
    has a checkpoint. Otherwise it is emptied.
    """
    is_kept = 0 < claim.last_token == LocalRecord.read(path).token and (path / "CURRENT").exists()
    if not is_kept:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
    LocalRecord(token=claim.token).write(path)
    return is_kept
