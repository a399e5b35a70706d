"""Drone: one process of a hive, with leases on some of the hive's shards.

The process crawls the shards that it holds. The answers to its heartbeats tell it which shards to
hold (exchange.py), when to make a checkpoint (publication.py), and when the crawl is over. All of
this runs in the reactor's loop; calls that block on HIVE_STORE run in threads.

Invariants:

* a host is contacted (net/fence.py), a checkpoint published and a position acknowledged only while
  the leases are valid: until HIVE_LEASE_SECS after the *beginning* of the last renewal
  (lease_keeper.py), in Redis, or in the store while Redis cannot be reached;
* a shard is taken from a drone only when its lease has ended in Redis and its heartbeats in the
  store, if there are any, have not changed for that long. They name its shards, because Redis may
  come back with data that lack them;
* a lost shard is not written to any more: its next holder continues from its last published
  checkpoint and the later entries of its stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from webcrawl.clock import now
from webcrawl.crawl.engine._engine import wake
from webcrawl.crawl.job.compared_settings import FIXED, differences, digests
from webcrawl.crawl.job.state_directory import shard_names, shard_path
from webcrawl.errors import FatalError, StoreAwayError, UnreachableError
from webcrawl.frontier import Supply
from webcrawl.hive.exchange import ShardExchange
from webcrawl.hive.membership.connection import (
    RETRY_SECS,
    TIMEOUT_SECS,
    UNREACHABLE,
    check,
    check_for_leases,
    fatal_error_of,
    is_cancelled,
    reason_of,
)
from webcrawl.hive.membership.membership import Beat
from webcrawl.hive.membership.queen import EndDetection, busiest_of, moves_of, share_of, supply_of
from webcrawl.hive.membership.report import Gauge, HiveState, Report, drone_name
from webcrawl.hive.membership.succession import had_drone, record_drone
from webcrawl.hive.parts import DroneParts
from webcrawl.hive.publication import Publication
from webcrawl.hive.store.checkpoint_files import FORMAT, LocalRecord
from webcrawl.hive.store.store import HiveFacts
from webcrawl.urls.registered_domain import SuffixList, use_list
from webcrawl.wording import counted

logger = logging.getLogger(__name__)
_T = TypeVar("_T")

_BEATS_PER_LEASE = 5
# Heartbeats are this many times as frequent while the drone is idle, because detecting the end of a
# crawl takes six of them. They are also while the shards of a new hive are being divided.
_FAST_FACTOR = 8
# Seconds between two checks whether expired leases are valid again.
_EXPIRED_CHECK_SECS = 0.1
# The pause of a drone that waits for HIVE_STORE.
_STORE_PAUSE = "hive_store"
# Drones that were started together join a new hive within this many seconds.
_JOINING_SECS = 1.0
# A new hive makes its first checkpoint after this many seconds, even if CHECKPOINT_INTERVAL_SECS is
# longer.
_FIRST_SECS = 5.0


class Drone:
    """One process of a hive, made of *parts*."""

    def __init__(self, parts: DroneParts) -> None:
        #: Its parts.
        self.parts = parts
        self.process = parts.process
        self._holding = parts.holding
        # Seconds between two heartbeats.
        self._pause = parts.settings.lease_secs / _BEATS_PER_LEASE
        # For how long after its start a hive counts as new, so that other drones may still join.
        self._joining_secs = min(self._pause, _JOINING_SECS)
        self.publication = Publication(parts)
        self._exchange = ShardExchange(parts, self.publication)
        self._gauge = Gauge(
            name=drone_name(parts.job.path),
            health=parts.process.health,
            stats=parts.stats,
            clock=now,
        )
        self._end = EndDetection(parts.membership.has_unread)
        # Tasks that run until the drone is closed.
        self._tasks: list[asyncio.Task[None]] = []
        # The last answer to a heartbeat; None before the first.
        self._beat: Beat | None = None
        # Set when Redis has answered a heartbeat; cleared when shards are exchanged.
        self._has_beaten = asyncio.Event()
        # Identifies the Redis data in which the shards are registered (``HiveState.born``); it is
        # "" until the drone has entered the hive there.
        self._known_born = ""
        # Whether this drone may take shards, as it was accepted in Redis and in HIVE_STORE.
        self._has_joined = False
        # The tokens of all shards at the last heartbeat.
        self._tokens: dict[int, int] = {}
        self._beat_count = 0  # number of heartbeats so far
        #: Whether the hive has finished its crawl.
        self.is_over = False
        # The number of the last checkpoint order that this drone has followed.
        self._followed_checkpoint = 0
        # In which settings the hive differed from this drone when it joined, in words.
        self._differs = ""

    # --- start and end

    def begin(self) -> None:
        """Join the hive. Called once the process is open; it does not hold any shard yet."""
        self.run(self._join())

    async def _join(self) -> None:
        """Join the hive, or create it, and start this drone's tasks.

        If a drone has joined from this directory before, it waits while Redis or HIVE_STORE is
        away. It also waits for HIVE_STORE if other drones own shards. Raises FatalError if the hive
        was started with other settings.
        """
        hive = self.parts
        settings = hive.settings
        job = hive.job
        shard_directories = [shard_path(job.path, name) for name in shard_names(job.path)]
        if any(map(_is_of_single_process, shard_directories)):
            raise FatalError(
                f"JOBDIR {job.path} contains a single-process crawl: continue it without HIVE, or "
                "choose another directory."
            )
        politeness_key = self.process.parts.services.rules.key

        # A new drone does not wait for a server that is away, as its settings may be wrong.
        is_known = bool(shard_directories) or had_drone(job.path)
        state, beat = await self._reach("hive_redis", self._enter_redis, waits=is_known)
        self._known_born = state.born
        # Orders from before this drone joined are not for it.
        self._followed_checkpoint = state.checkpoint
        hive.keeper.start()
        # It may have a lease from now on, and its heartbeats tell the others that it waits.
        self.run(self._keep_beating())
        self.run(self._keep_fence())

        def enter_store() -> tuple[HiveFacts, str]:
            facts = HiveFacts(
                shards=settings.shards,
                politeness_key=politeness_key,
                born=state.born,
                seed=job.seed,
                settings={**hive.compared},
            )
            # Each drone enters the store before it holds a shard. So if any shard was ever held,
            # the hive is not new, and its store must not be empty.
            facts = hive.store.enter(
                facts, hive.suffixes, may_be_new=not (beat.owners or shard_directories)
            )
            return facts, hive.store.suffixes(facts)

        facts, suffixes = await self._reach(
            _STORE_PAUSE,
            partial(asyncio.to_thread, enter_store),
            waits=is_known or bool(beat.owners),
        )
        # Redis and the store may be those of different hives.
        for name, saved, current in (
            ("HIVE_SHARDS", facts.shards, settings.shards),
            ("HIVE_SHARDS", state.shards, settings.shards),
            ("POLITENESS_KEY", facts.politeness_key, politeness_key),
        ):
            if saved != current:
                raise FatalError(
                    f"The hive {settings.name} was started with {name} {saved}, not {current}: "
                    "keep the old value, or choose another HIVE and HIVE_STORE."
                )

        await self._compare_settings(facts)
        self._holding.is_redis_complete = facts.born == self._known_born
        use_list(SuffixList(suffixes))
        job.use_hash_seed(facts.seed)
        record_drone(job.path, hive.name)
        self._has_joined = True
        self.run(hive.sender.run())
        self.run(hive.receiver.run())
        self.run(hive.live_seeds.run())
        self.run(self._exchange_shards())

    async def _compare_settings(self, facts: HiveFacts) -> None:
        """Compare this drone's settings with those in *facts*, and make them those of the hive.

        Raises FatalError if settings differ that a living drone must share.
        """
        hive = self.parts
        own = hive.compared
        if facts.settings == own:
            return
        # The longest that a drone of the hive may live without a heartbeat.
        lease_secs = max(hive.settings.lease_secs, float(facts.settings.get("HIVE_LEASE_SECS", 0)))
        # Redis was emptied since the hive was created. Wait until all living drones have sent it
        # heartbeats again.
        if facts.born != self._known_born:
            await asyncio.sleep(lease_secs)
        if refused := differences(own, facts.settings, FIXED):
            fixed, _ = digests(own)
            if await self._has_living_others(fixed, lease_secs):
                raise FatalError(
                    f"The hive {hive.settings.name} runs with {refused}: keep the old value, or "
                    "stop all drones to change it."
                )
        if found := differences(own, facts.settings):
            self._differs = f"settings differ: the hive had {found}"
            logger.warning("In this drone, %s", self._differs)
        new_facts = replace(facts, format=FORMAT, settings={**own})
        await self._reach(
            _STORE_PAUSE,
            partial(asyncio.to_thread, hive.store.replace_facts, new_facts),
            waits=True,
        )

    async def _has_living_others(self, fixed: str, lease_secs: float) -> bool:
        """Return whether other drones are alive whose fixed settings do not have the hash *fixed*.

        The lease of a drone that was killed ends within *lease_secs*.
        """
        until = now() + lease_secs
        while True:
            _, beat = await self._reach("hive_redis", self._enter_redis, waits=True)
            has_others = any(
                drone != self.parts.name and (report is None or report.settings[0] != fixed)
                for drone, report in beat.reports.items()
            )
            if not has_others or now() > until:
                return has_others
            await asyncio.sleep(self._joining_secs)

    async def _enter_redis(self) -> tuple[HiveState, Beat]:
        """Create the hive in Redis if needed, and return its state and a look at it.

        Raises FatalError if Redis cannot be used.
        """
        hive = self.parts
        # The checks take some time, so they come before the drone has a lease that could expire.
        try:
            await check(hive.client)
            await check_for_leases(hive.client)
            state = await hive.membership.enter(hive.settings.shards, secs=TIMEOUT_SECS)
            return state, await hive.membership.look(secs=TIMEOUT_SECS)
        except UNREACHABLE as error:
            raise fatal_error_of(error) from error

    async def _reach(self, name: str, enter: Callable[[], Awaitable[_T]], *, waits: bool) -> _T:
        """Call *enter* and return its result; with *waits*, call it until its server answers.

        Meanwhile the crawl has the pause *name*, and the process can be stopped.
        """
        pauses = self.process.pauses
        while True:
            try:
                result = await enter()
            except (UnreachableError, StoreAwayError) as error:
                if not waits:
                    raise
                if is_cancelled():  # and ``enter`` has not passed it on
                    raise asyncio.CancelledError from error
                if pauses.hold(name, f"Waiting to join the hive: {error}"):
                    logger.warning("Waiting to join the hive: %s", error)
                await asyncio.sleep(RETRY_SECS)
            else:
                pauses.lift(name)
                return result

    @property
    def _waits_for_store(self) -> bool:
        """Whether this drone cannot join the hive yet because HIVE_STORE is away."""
        return _STORE_PAUSE in self.process.pauses.names

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run *coroutine* as a task until the drone is closed. If it fails, the crawl ends."""
        task = asyncio.ensure_future(coroutine)
        task.add_done_callback(self._on_task_end)
        self._tasks.append(task)

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self._tasks.remove(task)
        # If it is cancelled while it connects, redis-py may raise any error.
        if isinstance(error, Exception) and not task.cancelling():
            self.process.stop.fail(error)

    async def close(self) -> None:
        """Release the leases, so that other drones can take over the shards immediately.

        Called when the process is closed, after its last checkpoint was made or has failed.
        """
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

        membership = self.parts.membership
        await self.parts.keeper.stop()
        try:
            if self._known_born:  # it may have a lease, even without an answer to a heartbeat
                await membership.release_all()
                await membership.leave()
        except UNREACHABLE as error:
            message = "The hive must wait until this drone's leases expire: %s"
            logger.warning(message, reason_of(error))
        if self.is_over:  # no page waits for a subresource any more
            with contextlib.suppress(OSError):
                await asyncio.to_thread(self.parts.store.delete_bodies)
        if not self._holding.is_redis_up:  # it has written heartbeats to the store
            await asyncio.to_thread(self._leave_store)
        await self.parts.client.aclose()

    @property
    def processes(self) -> int:
        """Return the number of living drones at the last heartbeat; 1 before the first."""
        return 1 if self._beat is None else len(self._beat.alive)

    @property
    def awaits(self) -> str:
        """Describe what an idle drone waits for: another drone, or seeds."""
        if self._beat is None or not (busiest := self._beat.state.busiest):
            return "other drones or seeds"
        return f"{busiest}, which hands over hosts, or seeds"

    # --- leases

    async def _keep_beating(self) -> None:
        """Send heartbeats until cancelled."""
        while not is_cancelled():
            await self._beat_once()
            beat = self._beat
            is_new = beat and abs(beat.now - beat.state.begun_at) < 2 * self._joining_secs
            is_ending = self._is_idle and not self.parts.keeps_open
            await asyncio.sleep(self._pause / (_FAST_FACTOR if is_new or is_ending else 1))

    async def _keep_fence(self) -> None:
        """Abort all requests as soon as the leases expire. Runs until cancelled."""
        while not is_cancelled():
            secs_left = self._holding.valid_until - now()
            if secs_left <= 0:
                self._abort_requests()
            await asyncio.sleep(secs_left if secs_left > 0 else _EXPIRED_CHECK_SECS)

    def _abort_requests(self) -> None:
        """Abort all requests, because other drones may hold their hosts by now."""
        self.process.parts.leases.completion.abort_downloads()
        self.parts.fence.abort()

    async def _beat_once(self) -> None:
        """Send one heartbeat, and follow what the answer says about leases and orders."""
        hive = self.parts
        holding = self._holding
        if lost := holding.superseded:
            self._exchange.abandon(lost)
        try:
            beat = await hive.keeper.beat(self._report())
            # The drone and its keeper have a connection and a membership each.
            unreadable = hive.membership.unreadable + hive.keeper.membership.unreadable
            hive.stats.set_value("hive/unreadable", unreadable)
            if holding.leases and holding.is_in_doubt(beat.incarnation):
                logger.warning(
                    "The leases expired while Redis changed; shards will be claimed again"
                )
                self._exchange.abandon({*holding.leases})  # the store says who held them last
            # The answer of an emptied Redis says nothing about leases or orders.
            if beat.state.born != self._known_born:
                await self._join_again()
                return

            # Register leases that Redis has lost in a restart. Leases claimed since the heartbeat
            # may be registered again, which does no harm.
            claimed = holding.leases.items()
            await self._exchange.keep(
                {number: token for number, token in claimed if beat.leases.get(number) != token}
            )
            if not holding.is_valid():
                self._abort_requests()  # the loop may have been too late to notice
            holding.confirm(beat.began, beat.incarnation)
            if self._waits_for_store:
                # Drones that reach the store may take the shards of this drone's last process.
                await hive.membership.release_all()

            self._beat = beat
            self._ask_again(beat)
            hive.sender.on_heartbeat(beat.incarnation, beat.acks)
            hive.receiver.incarnation = beat.incarnation  # it now reads these streams
            if beat.is_queen:
                await self._do_queen_duties(beat)
        except UNREACHABLE as error:
            if holding.is_redis_up:  # it was until now: log this only once
                holding.is_redis_up = False
                message = "Redis cannot be used: %s; links to other processes wait on disk"
                logger.warning(message, reason_of(error))
            return

        if not holding.is_redis_up:
            holding.is_redis_up = True
            logger.info("Redis can be reached again")
            # A thread of its own, because a store that hangs would block one of the loop's.
            threading.Thread(target=self._leave_store, daemon=True).start()
        self._apply_state(beat.state)
        self._has_beaten.set()

    def _ask_again(self, beat: Beat) -> None:
        """Let pages that wait for hosts of other shards ask again if these have new holders."""
        renderer = self.process.parts.services.renderer
        if renderer is None:
            return
        tokens = {number: owner.token for number, owner in beat.owners.items()}
        moved = {n for n, token in tokens.items() if self._tokens.get(n) != token}
        self._tokens |= tokens
        if moved:
            renderer.resume(moved)

    def _leave_store(self) -> None:
        """Delete this drone's heartbeat in the store. Blocks.

        If that fails, the heartbeat no longer changes, so other drones ignore it.
        """
        with contextlib.suppress(OSError):
            self.parts.store.end_beats(self.parts.name)

    async def _join_again(self) -> None:
        """Register the hive and this drone's shards again, because Redis has lost its data."""
        logger.warning("Redis was emptied: registering the hive there again")
        self._holding.is_redis_complete = False
        state = await self.parts.membership.enter(self.parts.settings.shards)
        await self._exchange.keep({**self._holding.leases})
        self._known_born = state.born

    async def _exchange_shards(self) -> None:
        """Claim or hand over shards after each heartbeat, until cancelled."""
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
                await self._exchange.work(beat)
            except UNREACHABLE as error:
                logger.warning("Shards cannot be exchanged: %s", reason_of(error))

    # --- checkpoints

    def checkpoint_due(self) -> None:
        """Order a checkpoint of all drones, if this drone is the queen.

        Called every CHECKPOINT_INTERVAL_SECS. While Redis cannot be reached, each drone makes its
        checkpoints by its own clock.
        """
        beat = self._beat
        if not self._holding.is_redis_up or beat is None:
            self.process.checkpoints.start()
        elif beat.is_queen:
            self.run(self._publish_orders(checkpoint=beat.state.checkpoint + 1))

    # --- orders

    async def _publish_orders(self, **orders: Any) -> None:
        """Set the fields *orders* of the hive's state in Redis, which all drones follow."""
        with contextlib.suppress(*UNREACHABLE):  # the heartbeat says so
            await self.parts.membership.order(**orders)

    async def _do_queen_duties(self, beat: Beat) -> None:
        """Divide shards, order checkpoints and detect the end, as the queen's duties (queen.py)."""
        hive = self.parts
        state = beat.state
        # The clock of Redis may have been put back since.
        is_hive_new = abs(beat.now - state.begun_at) < self._joining_secs
        reports = [report for report in beat.reports.values() if report is not None]
        # Drones that wait take no shards yet.
        drones = len(beat.alive) - sum(report.waits for report in reports)
        share = share_of(state.shards, drones, is_new=is_hive_new)

        # The orders that should be in force. Those that are not yet are published below.
        supply, current_round, since = supply_of(reports)
        has_pages = any(report.figures.pages for report in reports)
        wanted: dict[str, Any] = {
            "share": share,
            "moves": moves_of(beat),
            "busiest": busiest_of(beat.reports),
            "supply": int(supply),
            "round": current_round,
            "counted_since": since,
        }
        # While some shards have no holder, the totals would be too small.
        if sum(len(report.leases) for report in reports) == state.shards:
            pages = sum(report.figures.pages for report in reports)
            given_up = sum(report.figures.given_up for report in reports)
            wanted["done"] = f"{counted(pages, 'page')}, {counted(given_up, 'URL')} given up"
        if has_pages:
            wanted["has_pages"] = True
            # The first checkpoint of a hive does not wait for the interval.
            if not state.checkpoint and beat.now > state.begun_at + _FIRST_SECS:
                wanted["checkpoint"] = 1
        if not (state.finished or hive.keeps_open) and await self._end.look(beat):
            wanted["finished"] = True

        orders = {name: value for name, value in wanted.items() if value != getattr(state, name)}
        if orders:
            await self._publish_orders(**orders)

    def _apply_state(self, state: HiveState) -> None:
        """Follow the queen's orders in *state*."""
        process = self.process
        self.parts.stats.set_value("hive/now", state.done)
        # The network works for other drones, so it is not what keeps hosts from answering.
        if state.has_pages:
            process.parts.services.rules.outage.note_answer()
        # A checkpoint in progress does not count, because it may have begun before the order.
        if state.checkpoint != self._followed_checkpoint and process.checkpoints.start():
            self._followed_checkpoint = state.checkpoint

        for shard in self.parts.shards:
            domains = shard.hosts.records.domains
            if domains.current_round < state.round:
                domains.begin_round(state.round, counted_since=state.counted_since)

        if state.finished and not self.is_over:
            self.is_over = True
            wake(process.parts.services.crawler.engine)
        if state.stopping and not process.stop.is_ending:
            self.process.stop.ask("hive_stopped")

    def supply_elsewhere(self) -> Supply:
        """Return how soon any shard of the hive will have URLs to fetch, according to the queen."""
        state = None if self._beat is None else self._beat.state
        # The queen's supply is that of another round.
        if state is None or state.round != self._round:
            return Supply.SOON
        return Supply(state.supply)

    @property
    def _round(self) -> int:
        """The current reputation round of the held shards, or of the hive if none is held."""
        rounds = (shard.hosts.records.domains.current_round for shard in self.parts.shards)
        return max(rounds, default=0 if self._beat is None else self._beat.state.round)

    # --- reports to other drones

    @property
    def _is_idle(self) -> bool:
        """Whether no held shard has work left and no message waits to be sent."""
        hive = self.parts
        return (
            hive.sender.is_idle
            and not self._exchange.is_handing_over
            and not hive.shards.has_pending
            and all(shard.feeder.has_all_seeds for shard in hive.shards)
            and (0 not in self._holding.inboxes or hive.live_seeds.is_idle)
        )

    def _report(self) -> Report:
        """Build the report that is sent with the next heartbeat."""
        hive = self.parts
        self._beat_count += 1
        supplies = [shard.feeder.supply() for shard in hive.shards]
        # Links that are not sent yet will soon be URLs of other shards.
        if not hive.sender.is_idle:
            supplies.append(Supply.SOON)
        domains = [shard.hosts.records.domains for shard in hive.shards]
        return Report(
            number=self._beat_count,
            leases=self._holding.leases,
            idle=self._is_idle,
            waits=not self._has_joined,
            activity=hive.sender.sent + hive.receiver.received,
            positions={number: inbox.position for number, inbox in self._holding.inboxes.items()},
            # The lowest one is that with the earliest URLs.
            supply=int(min(supplies, default=Supply.NONE)),
            round=self._round,
            counted_since=max((domain.counted_since for domain in domains), default=0),
            settings=digests(hive.compared),
            figures=self._gauge.read(
                unsent=sum(outbox.unsent for outbox in self._holding.outboxes.values()),
                lag=hive.receiver.lag,
                differs=self._differs,
            ),
        )


def _is_of_single_process(shard: Path) -> bool:
    """Return whether the directory *shard* belongs to a single-process crawl, without a hive."""
    is_of_hive = LocalRecord.read(shard).token or (shard / "outbox").exists()
    return (shard / "CURRENT").exists() and not is_of_hive
