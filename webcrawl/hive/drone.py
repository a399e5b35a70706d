"""Drone: one process of a hive, with leases on some of its shards.

Its process crawls the shards that it holds. Its heartbeats tell it which shards those are
(exchange.py), when a checkpoint is due (publication.py), and when the crawl is over. All of it runs
in the reactor's loop; calls that block on HIVE_STORE run in threads.

Invariants:

* a host is contacted (net/fence.py), a checkpoint published and a position acknowledged only while
  the leases are valid: until HIVE_LEASE_SECS after the *beginning* of the last renewal
  (lease_keeper.py), in Redis, or in the store while Redis cannot be reached;
* a shard is taken from a drone only when its lease has ended in Redis and its heartbeats in the
  store, if there are any, have not changed for that long;
* a lost shard is not written to any more: its next holder continues from its last published
  checkpoint and the later entries of its stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from webcrawl.clock import now
from webcrawl.crawl.engine._engine import wake
from webcrawl.crawl.job.state_directory import shard_names, shard_path
from webcrawl.errors import FatalError
from webcrawl.frontier import Supply
from webcrawl.hive.exchange import ShardExchange
from webcrawl.hive.membership.connection import (
    TIMEOUT_SECS,
    UNREACHABLE,
    check,
    check_for_leases,
    close,
    is_cancelled,
    no_answer,
)
from webcrawl.hive.membership.queen import EndDetection, busiest_of, share_of, supply_of
from webcrawl.hive.membership.report import Gauge, Report, drone_name
from webcrawl.hive.membership.succession import note_drone
from webcrawl.hive.publication import Publication
from webcrawl.hive.store.checkpoint_files import LocalRecord
from webcrawl.hive.store.store import HiveFacts
from webcrawl.urls.registered_domain import SuffixList, use_list

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from webcrawl.hive.membership.membership import Beat
    from webcrawl.hive.membership.report import HiveState
    from webcrawl.hive.parts import DroneParts

logger = logging.getLogger(__name__)

# Heartbeats per lease.
_BEATS = 5
# Heartbeats are this many times as frequent while the drone is idle, because detecting the end of a
# crawl takes six of them, and while the shards of a new hive are divided.
_SPEEDUP = 8
# Seconds between two checks of expired leases.
_LAPSED_SECS = 0.1
# Drones that were started together with the first one have joined the hive after so many seconds.
_JOINED_SECS = 1.0
# A new hive publishes its first pages after so many seconds, even with a long
# CHECKPOINT_INTERVAL_SECS.
_FIRST_SECS = 5.0


class Drone:
    """One process of a hive, made of *parts*."""

    def __init__(self, parts: DroneParts) -> None:
        self._hive = parts
        #: Its name in the hive.
        self.name = parts.name
        self.process = parts.process
        self._holding = parts.holding
        # Seconds between two heartbeats.
        self._pause = parts.settings.lease_secs / _BEATS
        self._joining_secs = min(self._pause, _JOINED_SECS)
        self.publication = Publication(parts)
        self._exchange = ShardExchange(parts, self.publication)
        self._gauge = Gauge(
            name=drone_name(parts.job.path),
            health=parts.process.health,
            stats=parts.stats,
            clock=now,
        )
        self._end = EndDetection(parts.membership.last_ids)
        self._tasks: list[asyncio.Task[None]] = []
        self._beat: Beat | None = None
        # Set by each heartbeat that Redis has answered.
        self._has_beaten = asyncio.Event()
        #: Identifies the Redis data in which the shards are registered.
        self._born = ""
        self._beats = 0
        #: Whether the hive has finished its crawl.
        self.is_over = False
        self._checkpoint = 0

    # --- start and end

    def begin(self) -> None:
        """Start once the process is open; it does not hold any shard yet."""
        self._run(self._join())

    async def _join(self) -> None:
        """Join the hive, or create it. FatalError if it was begun with other settings."""
        hive, settings, job = self._hive, self._hive.settings, self._hive.job
        shards = [shard_path(job.path, name) for name in shard_names(job.path)]
        if any(map(_is_foreign, shards)):
            raise FatalError(
                f"JOBDIR {job.path} has a crawl of one process: continue it without HIVE, or "
                "choose another directory."
            )
        key = self.process.parts.services.rules.key
        await check(hive.client)
        try:  # before there is a lease that could expire meanwhile
            await check_for_leases(hive.client, settings.lease_secs)
            state = await hive.membership.enter(settings.shards, secs=TIMEOUT_SECS)
            owners = (await hive.membership.look(secs=TIMEOUT_SECS)).owners
        except UNREACHABLE as error:
            raise no_answer(error) from error
        # A drone writes to the store before it holds a shard, so if any shard is held, the hive is
        # not new.
        held = owners or shards
        facts = await asyncio.to_thread(
            hive.store.enter,
            HiveFacts(
                shards=settings.shards,
                politeness_key=key,
                born=state.born,
                seed=job.seed,
            ),
            self._hive.suffixes,
            may_be_new=not held,
        )
        for name, saved, given in (
            ("HIVE_SHARDS", facts.shards, settings.shards),
            ("HIVE_SHARDS", state.shards, settings.shards),
            ("POLITENESS_KEY", facts.politeness_key, key),
        ):
            if saved != given:
                raise FatalError(
                    f"The hive {settings.name} was begun with {name} {saved}, not {given}: keep "
                    "the old value, or choose another HIVE and HIVE_STORE."
                )
        self._born = state.born
        self._holding.is_redis_complete = facts.born == state.born
        use_list(SuffixList(await asyncio.to_thread(hive.store.suffixes, facts)))
        job.use_hash_seed(facts.seed)
        self._checkpoint = state.checkpoint
        note_drone(job.path, hive.name)
        hive.keeper.start()
        own = (self._keep_beating(), self._keep_fence(), self._exchange_shards())
        for run in (*own, hive.sender.run(), hive.receiver.run(), hive.live_seeds.run()):
            self._run(run)

    def _run(self, part: Coroutine[Any, Any, None]) -> None:
        """Run *part* next to the crawl, which ends if it fails."""
        task = asyncio.ensure_future(part)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self._tasks.remove(task)
        if isinstance(error, Exception):
            self._hive.stop.fail(error)

    async def close(self) -> None:
        """Release the leases, so that other drones can take over immediately.

        Called when the process has made its last checkpoint, or failed to, and is closed.
        """
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        membership = self._hive.membership
        await self._hive.keeper.stop()
        try:
            await membership.release(self._holding.leases)
            await membership.leave()
        except UNREACHABLE as error:
            logger.warning("The hive must wait until this drone's leases expire: %s", error)
        if not self._holding.is_redis_up:
            await self._leave_store()
        await close(self._hive.client)

    @property
    def processes(self) -> int:
        """Return the number of drones in the last heartbeat; 1 before the first."""
        return 1 if self._beat is None else len(self._beat.alive)

    @property
    def awaits(self) -> str:
        """Return in words what an idle drone waits for: another drone, or seeds."""
        if self._beat is None or not (busiest := self._beat.state.busiest):
            return "other drones or seeds"
        return f"{busiest} (hosts are divided evenly, not by load) or seeds"

    # --- leases

    async def _keep_beating(self) -> None:
        while not is_cancelled():
            await self._beat_once()
            beat = self._beat
            is_new = beat is not None and beat.now < beat.state.begun_at + 2 * self._joining_secs
            await asyncio.sleep(self._pause / (_SPEEDUP if is_new or self._is_ending else 1))

    async def _keep_fence(self) -> None:
        """Abort all requests at the moment when the leases expire."""
        while not is_cancelled():
            left = self._holding.valid_until - now()
            if left <= 0:
                self._abort_requests()
            await asyncio.sleep(left if left > 0 else _LAPSED_SECS)

    def _abort_requests(self) -> None:
        """Abort all requests, because other drones may hold their hosts by now."""
        self.process.parts.leases.completion.abort_downloads()
        self._hive.fence.abort()

    async def _beat_once(self) -> None:
        hive, holding = self._hive, self._holding
        try:
            beat = await hive.keeper.beat(self._report())
            unreadable = hive.membership.unreadable + hive.keeper.membership.unreadable
            hive.stats.set_value("hive/unreadable", unreadable)
            if holding.leases and holding.is_in_doubt(beat.incarnation):
                logger.warning("The leases expired while Redis changed; shards are claimed again")
                self._exchange.abandon({*holding.leases})  # the store says who held them last
            if beat.state.born != self._born:
                await self._join_again()
                return
            # Registers leases that Redis has lost in a restart or failover. Those claimed since the
            # heartbeat are in Redis, too, which does no harm.
            leases = holding.leases.items()
            await self._exchange.keep(
                {n: lease for n, lease in leases if beat.leases.get(n) != lease}
            )
            if not holding.is_valid():
                self._abort_requests()  # the loop may have been too late to notice
            holding.confirm(beat.began, beat.incarnation)
            self._beat = beat
            hive.sender.on_heartbeat(beat.incarnation, beat.acks)
            hive.receiver.incarnation = beat.incarnation
            if beat.is_queen:
                await self._queen_duties(beat)
        except UNREACHABLE as error:
            if holding.is_redis_up:
                holding.is_redis_up = False
                message = "Redis cannot be reached; links to other processes wait on disk: %s"
                logger.warning(message, str(error) or type(error).__name__)
            return
        if not holding.is_redis_up:
            holding.is_redis_up = True
            logger.info("Redis can be reached again")
            await self._leave_store()
        self._apply_state(beat.state)
        self._has_beaten.set()

    async def _leave_store(self) -> None:
        """Delete the heartbeat in the store. If one stays, it no longer changes and is ignored."""
        with contextlib.suppress(OSError):
            await asyncio.to_thread(self._hive.store.end_beats, self._hive.name)

    async def _join_again(self) -> None:
        """Register the hive and the shards in a Redis that has lost its data."""
        logger.warning("Redis was emptied: registering the hive there again")
        self._holding.is_redis_complete = False
        state = await self._hive.membership.enter(self._hive.settings.shards)
        await self._exchange.keep({**self._holding.leases})
        self._born = state.born

    async def _exchange_shards(self) -> None:
        while not is_cancelled():
            await self._has_beaten.wait()
            self._has_beaten.clear()
            beat = self._beat
            if (
                beat is None
                or not self._holding.is_redis_up
                or self.is_over
                or self.process.stop.is_ending
            ):
                continue
            try:
                await self._exchange.work(beat, is_ending=self._is_ending)
            except UNREACHABLE as error:
                logger.warning("Shards cannot be exchanged: %s", str(error) or type(error).__name__)

    # --- checkpoints

    def checkpoint_due(self) -> None:
        """Start a checkpoint after CHECKPOINT_INTERVAL_SECS.

        All drones follow the queen's clock, or their own if Redis cannot be reached.
        """
        beat = self._beat
        if not self._holding.is_redis_up or beat is None:
            self.process.checkpoints.start()
        elif beat.is_queen:
            self._run(self._publish_orders(checkpoint=beat.state.checkpoint + 1))

    # --- orders

    async def _publish_orders(self, **orders: Any) -> None:
        try:
            await self._hive.membership.order(**orders)
        except UNREACHABLE as error:
            logger.warning("Orders to the other drones cannot be sent: %s", error)

    async def _queen_duties(self, beat: Beat) -> None:
        """Do the queen's duties (queen.py): divide shards, order checkpoints, detect the end."""
        hive, state = self._hive, beat.state
        orders: dict[str, Any] = {}
        is_new = beat.now < state.begun_at + self._joining_secs
        share = share_of(state.shards, len(beat.alive), is_new=is_new)
        if is_new and not self._holding.is_redis_complete:
            share = state.share  # Redis was emptied; drones are about to register their shards
        if share != state.share:
            orders["share"] = share
            self._beat = beat._replace(state=replace(state, share=share))
        reports = [report for report in beat.reports.values() if report is not None]
        if (busiest := busiest_of(beat.reports)) != state.busiest:
            orders["busiest"] = busiest
        supply, number, since = supply_of(reports)
        if (supply, number, since) != (state.supply, state.round, state.counted_since):
            orders |= {"supply": int(supply), "round": number, "counted_since": since}
        has_pages = any(report.figures.pages for report in reports)
        if not state.checkpoint and has_pages and beat.now > state.begun_at + _FIRST_SECS:
            orders["checkpoint"] = 1
        if not (state.finished or hive.keeps_open) and await self._end.look(beat):
            orders["finished"] = True
        if orders:
            await self._publish_orders(**orders)

    def _apply_state(self, state: HiveState) -> None:
        process = self.process
        # A checkpoint that is being made does not count: it may have begun before the order.
        if state.checkpoint != self._checkpoint and process.checkpoints.start():
            self._checkpoint = state.checkpoint
        for shard in self._hive.shards:
            domains = shard.hosts.records.domains
            if domains.current_round < state.round:
                domains.begin_round(state.round, counted_since=state.counted_since)
        if state.finished and not self.is_over:
            self.is_over = True
            wake(process.parts.services.crawler.engine)
        if state.stopping and not process.stop.is_ending:
            self._hive.stop.ask("hive_stopped")

    def supply_elsewhere(self) -> Supply:
        state = None if self._beat is None else self._beat.state
        if state is None or state.round != self._round:
            return Supply.SOON
        return Supply(state.supply)

    @property
    def _round(self) -> int:
        rounds = (shard.hosts.records.domains.current_round for shard in self._hive.shards)
        return max(rounds, default=0 if self._beat is None else self._beat.state.round)

    # --- reports to other drones

    @property
    def _is_idle(self) -> bool:
        """Return whether no held shard has work left, and no message waits to be sent."""
        hive = self._hive
        return (
            hive.sender.is_idle
            and not self._exchange.is_handing_over
            and not hive.shards.has_pending
            and all(shard.feeder.has_all_seeds for shard in hive.shards)
            and (0 not in self._holding.inboxes or hive.live_seeds.is_idle)
        )

    @property
    def _is_ending(self) -> bool:
        """Whether the crawl may end at any moment."""
        return self._is_idle and not self._hive.keeps_open

    def _report(self) -> Report:
        hive = self._hive
        self._beats += 1
        supplies = [shard.feeder.supply() for shard in hive.shards]
        if not hive.sender.is_idle:
            supplies.append(Supply.SOON)
        domains = [shard.hosts.records.domains for shard in hive.shards]
        return Report(
            number=self._beats,
            leases=self._holding.leases,
            idle=self._is_idle,
            activity=hive.sender.sent + hive.receiver.received,
            positions={number: inbox.position for number, inbox in self._holding.inboxes.items()},
            supply=int(min(supplies, default=Supply.NONE)),
            round=self._round,
            counted_since=max((domain.counted_since for domain in domains), default=0),
            figures=self._gauge.read(
                unsent=sum(outbox.unsent for outbox in self._holding.outboxes.values()),
                lag=hive.receiver.lag,
            ),
        )


def _is_foreign(shard: Path) -> bool:
    """Return whether *shard* is the directory of a crawl without a hive, not to be replaced."""
    is_drones = LocalRecord.read(shard).token or (shard / "outbox").exists()
    return (shard / "CURRENT").exists() and not is_drones
