"""A drone: one process of a hive, with leases on some of its shards.

Its process crawls the shards that it holds. It beats, and goes by what the beats tell: which shards
those are (exchange.py), when a checkpoint is due (publication.py), when the crawl is over. All of
it runs in the reactor's loop; what blocks on HIVE_STORE is in threads.

What always holds:

* a host is contacted (net/fence.py), a checkpoint published and a position acknowledged only under
  leases that are good: until HIVE_LEASE_SECS after the *beginning* of the last renewal
  (lease_keeper.py), in Redis, or in the store while Redis cannot be reached;
* a shard is taken from a drone only when its lease has ended in Redis and its beats in the store,
  if there are any, have stood still for as long;
* a shard that was lost is not written to any more: whoever adopts it goes on from its last
  published checkpoint and what its stream has since.
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
from webcrawl.urls.registered_domain import SuffixList, use

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from webcrawl.hive.membership.membership import Beat
    from webcrawl.hive.membership.report import HiveState
    from webcrawl.hive.parts import DroneParts

logger = logging.getLogger(__name__)

# Beats in a lease; so many times as many while the drone is idle, as the end of a crawl takes six,
# and while the shards of a new hive are divided.
_BEATS = 5
_SHORT = 8
# Seconds between two looks at leases that have lapsed.
_LAPSED_SECS = 0.1
# Others that were started together with the drone that made the hive have joined it by then.
_JOINED_SECS = 1.0
# Seconds until the first pages of a new hive are published, whatever CHECKPOINT_INTERVAL_SECS is.
_FIRST_SECS = 5.0


class Drone:
    """One process of a hive, which is made of *parts*."""

    def __init__(self, parts: DroneParts) -> None:
        self._hive = parts
        #: Its name in the hive.
        self.name = parts.name
        self.process = parts.process
        self._holding = parts.holding
        # Seconds between two beats.
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
        # Set by each beat that Redis has answered.
        self._has_beaten = asyncio.Event()
        #: The word of the Redis in which the shards are registered.
        self._born = ""
        self._beats = 0
        #: The hive has finished its crawl.
        self.is_over = False
        self._checkpoint = 0

    # --- its life

    def begin(self) -> None:
        """The process is open and holds no shard yet."""
        self._run(self._join())

    async def _join(self) -> None:
        """Enter the hive, or make it. FatalError for one that is not as the settings say."""
        hive, settings, job = self._hive, self._hive.settings, self._hive.job
        shards = [shard_path(job.path, name) for name in shard_names(job.path)]
        if any(map(_is_foreign, shards)):
            raise FatalError(
                f"JOBDIR {job.path} has a crawl of one process: go on with it without HIVE, or "
                "choose another directory."
            )
        key = self.process.parts.services.rules.key
        await check(hive.client)
        try:  # without a lease that could end meanwhile
            await check_for_leases(hive.client, settings.lease_secs)
            state = await hive.membership.found(settings.shards, secs=TIMEOUT_SECS)
            owners = (await hive.membership.look(secs=TIMEOUT_SECS)).owners
        except UNREACHABLE as error:
            raise no_answer(error) from error
        # A drone enters the store before it holds a shard: with one the hive is not new.
        held = owners or shards
        facts = await asyncio.to_thread(
            hive.store.found,
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
                    f"The hive {settings.name} was begun with {name} {saved}, not {given}: go on "
                    "with that, or choose another HIVE and HIVE_STORE."
                )
        self._born = state.born
        self._holding.has_all = facts.born == state.born
        use(SuffixList(await asyncio.to_thread(hive.store.suffixes, facts)))
        job.use(facts.seed)
        self._checkpoint = state.checkpoint
        note_drone(job.path, hive.name)
        hive.keeper.start()
        own = (self._keep_beating(), self._keep_fence(), self._exchange_shards())
        for run in (*own, hive.sender.run(), hive.receiver.run(), hive.live_seeds.run()):
            self._run(run)

    def _run(self, part: Coroutine[Any, Any, None]) -> None:
        """Run *part* beside the crawl, which ends if it fails."""
        task = asyncio.ensure_future(part)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self._tasks.remove(task)
        if isinstance(error, Exception):
            self._hive.stop.fail(error)

    async def close(self) -> None:
        """The process has made its last checkpoint, or failed to, and is closed: other drones may
        take over at once."""
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
            logger.warning("The hive has to wait for this drone's leases to end: %s", error)
        if not self._holding.has_redis:
            await self._leave_store()
        await close(self._hive.client)

    @property
    def processes(self) -> int:
        """The number of drones, as the last beat had them; 1 before the first."""
        return 1 if self._beat is None else len(self._beat.alive)

    @property
    def awaits(self) -> str:
        """The drone, or the seeds, that an idle drone waits for, in words."""
        if self._beat is None or not (busiest := self._beat.state.busiest):
            return "other drones or seeds"
        return f"{busiest} (shares go by the number of drones) or seeds"

    # --- leases

    async def _keep_beating(self) -> None:
        while not is_cancelled():
            await self._beat_once()
            beat = self._beat
            is_new = beat is not None and beat.now < beat.state.begun_at + 2 * self._joining_secs
            await asyncio.sleep(self._pause / (_SHORT if is_new or self._is_ending else 1))

    async def _keep_fence(self) -> None:
        """Break off all contacts in the moment in which the leases lapse."""
        while not is_cancelled():
            left = self._holding.good_until - now()
            if left <= 0:
                self._break_off()
            await asyncio.sleep(left if left > 0 else _LAPSED_SECS)

    def _break_off(self) -> None:
        """End all contacts: their hosts may be other drones' by now."""
        self.process.parts.leases.completion.abort_downloads()
        self._hive.fence.abort()

    async def _beat_once(self) -> None:
        hive, holding = self._hive, self._holding
        try:
            beat = await hive.keeper.beat(self._report())
            unreadable = hive.membership.unreadable + hive.keeper.membership.unreadable
            hive.stats.set_value("hive/unreadable", unreadable)
            if holding.leases and holding.is_in_doubt(beat.incarnation):
                logger.warning("The leases had lapsed when Redis changed: shards are claimed again")
                self._exchange.abandon({*holding.leases})  # the store tells who had them last
            if beat.state.born != self._born:
                await self._enter_again()
                return
            # One that was claimed since the beat is in Redis; one that Redis has forgotten, by a
            # restart or a fail-over, is registered again.
            leases = holding.leases.items()
            await self._exchange.keep({n: one for n, one in leases if beat.leases.get(n) != one})
            if not holding.is_good():
                self._break_off()  # the loop may have come too late to see it
            holding.confirm(beat.began, beat.incarnation)
            self._beat = beat
            hive.sender.on_heartbeat(beat.incarnation, beat.acks)
            hive.receiver.incarnation = beat.incarnation
            if beat.is_queen:
                await self._queen_duties(beat)
        except UNREACHABLE as error:
            if holding.has_redis:
                holding.has_redis = False
                told = "Redis cannot be reached, links to other shards wait on disk: %s"
                logger.warning(told, str(error) or type(error).__name__)
            return
        if not holding.has_redis:
            holding.has_redis = True
            logger.info("Redis is back")
            await self._leave_store()
        self._apply_state(beat.state)
        self._has_beaten.set()

    async def _leave_store(self) -> None:
        """No beats in the store any more. One that stays there stands still, and means nothing."""
        with contextlib.suppress(OSError):
            await asyncio.to_thread(self._hive.store.gone, self._hive.name)

    async def _enter_again(self) -> None:
        """Redis has lost what it had: the shards are registered. The next beat shows it."""
        logger.warning("Redis was emptied: the hive is entered there again")
        self._holding.has_all = False
        state = await self._hive.membership.found(self._hive.settings.shards)
        await self._exchange.keep({**self._holding.leases})
        self._born = state.born

    async def _exchange_shards(self) -> None:
        while not is_cancelled():
            await self._has_beaten.wait()
            self._has_beaten.clear()
            beat = self._beat
            if (
                beat is None
                or not self._holding.has_redis
                or self.is_over
                or self.process.stop.is_ending
            ):
                continue
            try:
                await self._exchange.work(beat, is_ending=self._is_ending)
            except UNREACHABLE as error:
                logger.warning("No shards were exchanged: %s", str(error) or type(error).__name__)

    # --- checkpoints

    def checkpoint_due(self) -> None:
        """CHECKPOINT_INTERVAL_SECS have passed here: the queen's time is the hive's, unless it
        cannot be known."""
        beat = self._beat
        if not self._holding.has_redis or beat is None:
            self.process.checkpoints.start()
        elif beat.is_queen:
            self._run(self._publish_orders(checkpoint=beat.state.checkpoint + 1))

    # --- orders

    async def _publish_orders(self, **orders: Any) -> None:
        try:
            await self._hive.membership.order(**orders)
        except UNREACHABLE as error:
            logger.warning("The queen cannot give orders: %s", error)

    async def _queen_duties(self, beat: Beat) -> None:
        """The queen's duties: see queen.py."""
        hive, state = self._hive, beat.state
        orders: dict[str, Any] = {}
        is_new = beat.now < state.begun_at + self._joining_secs
        share = share_of(state.shards, len(beat.alive), is_new=is_new)
        if is_new and not self._holding.has_all:
            share = state.share  # Redis was emptied: drones are about to register their shards
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
        # One that is being made may have begun before the order.
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

    # --- what the others learn

    @property
    def _is_idle(self) -> bool:
        """Whether nothing is left to do in any shard held, and nothing of it is to be sent."""
        hive = self._hive
        return (
            hive.sender.is_idle
            and not self._exchange.is_handing_over
            and not hive.shards.may_bring
            and all(shard.feeder.is_fed for shard in hive.shards)
            and (0 not in self._holding.inboxes or hive.live_seeds.is_idle)
        )

    @property
    def _is_ending(self) -> bool:
        """Whether the crawl may have ended, or be found to have, at any moment."""
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
            positions={one: inbox.position for one, inbox in self._holding.inboxes.items()},
            supply=int(min(supplies, default=Supply.NONE)),
            round=self._round,
            counted_since=max((one.counted_since for one in domains), default=0),
            figures=self._gauge.read(
                unsent=sum(outbox.unsent for outbox in self._holding.outboxes.values()),
                lag=hive.receiver.lag,
            ),
        )


def _is_foreign(shard: Path) -> bool:
    """Whether the directory *shard* has one that no drone has used: it must not be made anew."""
    is_drones = LocalRecord.read(shard).token or (shard / "outbox").exists()
    return (shard / "CURRENT").exists() and not is_drones
