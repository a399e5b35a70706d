"""A drone: one process of a hive, with leases on some of its shards.

Its agent crawls the shards that it holds. Here is decided which those are: it beats, claims shards
without a living holder and adopts them, hands over those above its share, and abandons all when it
has lost one. All of it runs in the reactor's loop; what blocks on HIVE_STORE is in threads.

What always holds:

* a host is contacted, a checkpoint published and a position acknowledged only under leases that are
  good: until HIVE_LEASE_SECS after the *beginning* of the last beat that confirmed them, in Redis,
  or in the store while Redis cannot be reached;
* a shard is taken from a drone only when its lease has ended in Redis and its beats in the store,
  if there are any, have stood still for as long;
* a shard that was lost is not written to any more: whoever adopts it goes on from its last
  published checkpoint and what its stream has since.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import shutil
from typing import TYPE_CHECKING, Any, Final

from webcrawl.clock import now, wall_time
from webcrawl.crawl._engine import wake
from webcrawl.crawl.state_directory import shard_name, shard_path
from webcrawl.errors import FatalError
from webcrawl.frontier import Supply
from webcrawl.frontier.delay_policy import cut_off
from webcrawl.hive.connection import UNREACHABLE, check, close, is_cancelled
from webcrawl.hive.figures import Gauge
from webcrawl.hive.inbox import Inbox
from webcrawl.hive.membership import Owner
from webcrawl.hive.outbox import Outbox
from webcrawl.hive.queen import EndDetection, share_of, supply_of
from webcrawl.hive.report import Report
from webcrawl.hive.store import HiveFacts
from webcrawl.hive.upload import SupersededError
from webcrawl.urls.registered_domain import SuffixList, use

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence

    from redis.asyncio import Redis, RedisCluster

    from webcrawl.crawl.agent import Agent
    from webcrawl.crawl.shard import Shard
    from webcrawl.crawl.statistics import HasStats
    from webcrawl.hive.bus import Bus
    from webcrawl.hive.configuration import HiveSettings
    from webcrawl.hive.live_seeds import LiveSeeds
    from webcrawl.hive.membership import Beat, Membership
    from webcrawl.hive.report import State
    from webcrawl.hive.store import CheckpointStore

logger = logging.getLogger(__name__)

# Beats in a lease; more while the drone is idle, as the end of a crawl takes six.
_BEATS: Final = 5
_BEATS_WHEN_IDLE: Final = 40
# Seconds between two looks at whether the URLs in process of a leaving shard are done.
_LOOK_SECS: Final = 0.1


@dataclasses.dataclass(slots=True)
class Held:
    """A shard that this drone holds, with its lease's *token*."""

    shard: Shard
    token: int
    outbox: Outbox
    inbox: Inbox


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HiveServices:
    """What a drone has in common with the others, and its ways there."""

    client: Redis | RedisCluster
    membership: Membership
    store: CheckpointStore
    outboxes: dict[int, Outbox]
    inboxes: dict[int, Inbox]
    bus: Bus
    live_seeds: LiveSeeds
    reported: Sequence[HasStats]


class Drone:
    """One process of a hive. *shard_of* makes a new shard of a number, not open.

    *name* is the drone's in the hive, another one for each process; *suffixes* is the public suffix
    list for a new hive.
    """

    def __init__(
        self,
        *,
        name: str,
        agent: Agent,
        shard_of: Callable[[int], Shard],
        services: HiveServices,
        settings: HiveSettings,
        suffixes: str,
    ) -> None:
        self._name = name
        self.agent = agent
        self._shard_of = shard_of
        self._hive = services
        self._settings = settings
        self._lease_secs = settings.lease_secs
        self._suffixes = suffixes
        self._held: dict[int, Held] = {}
        #: Whether Redis has all that it ever had of this hive.
        self._is_new = False
        self._gauge = Gauge(agent=agent, clock=now)
        self._end = EndDetection(services.membership.last_ids)
        self._tasks: list[asyncio.Task[None]] = []
        self._beat: Beat | None = None
        #: The word of the Redis in which the shards are registered.
        self._born = ""
        self._beats = 0
        self._good_until = 0.0
        self._has_redis = True
        self._is_over = False
        self._incarnation = 0
        self._checkpoint = 0
        # Shards whose last checkpoint said that they were handed over.
        self._handed_over: set[int] = set()
        # Counters of drones that beat in the store only, and since when they have stood still.
        self._watched: dict[str, tuple[str, float]] = {}

    # --- its life

    def begin(self) -> None:
        """The agent is open and holds no shard yet."""
        agent = self.agent
        agent.may_contact = self._has_good_leases
        agent.may_end = lambda: self._is_over
        agent.checkpoint_due = self._checkpoint_is_due
        agent.on_published.append(self._publish)
        agent.shards.supply_elsewhere = self._supply_elsewhere
        agent.reported += self._hive.reported
        self._run(self._join())

    async def _join(self) -> None:
        """Enter the hive, or make it. FatalError for one that is not as the settings say."""
        hive, settings = self._hive, self._settings
        await check(hive.client)
        state = await hive.membership.found(settings.shards)
        facts = await asyncio.to_thread(
            hive.store.found,
            HiveFacts(shards=settings.shards, politeness_key=self.agent.rules.key, born=state.born),
            self._suffixes,
        )
        for name, saved, given in (
            ("HIVE_SHARDS", facts.shards, settings.shards),
            ("HIVE_SHARDS", state.shards, settings.shards),
            ("POLITENESS_KEY", facts.politeness_key, self.agent.rules.key),
        ):
            if saved != given:
                raise FatalError(
                    f"The hive {settings.name} was begun with {name} {saved}, not {given}: go on "
                    "with that, or choose another HIVE and HIVE_STORE."
                )
        self._born = state.born
        self._is_new = facts.born == state.born
        use(SuffixList(await asyncio.to_thread(hive.store.suffixes, facts)))
        self._checkpoint = state.checkpoint
        for run in (self._keep_beating(), self._move(), hive.bus.run(), hive.live_seeds.run()):
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
            self.agent.stop.fail(error)

    async def close(self) -> None:
        """The agent has made its last checkpoint, or failed to, and is closed: other drones may
        take over at once."""
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        membership = self._hive.membership
        try:
            await membership.release(self._leases)
            await membership.leave()
        except UNREACHABLE as error:
            logger.warning("The hive has to wait for this drone's leases to end: %s", error)
        if not self._has_redis:
            await asyncio.to_thread(self._hive.store.gone, self._name)
        await close(self._hive.client)

    # --- leases

    @property
    def _leases(self) -> dict[int, int]:
        return {number: held.token for number, held in self._held.items()}

    def _has_good_leases(self) -> bool:
        return now() < self._good_until

    @property
    def _pause(self) -> float:
        """Seconds between two beats."""
        return self._lease_secs / _BEATS

    async def _keep_beating(self) -> None:
        while not is_cancelled():
            await self._beat_once()
            # An idle hive comes to its end soon.
            pause = self._lease_secs / _BEATS_WHEN_IDLE if self._is_idle else self._pause
            await asyncio.sleep(pause)

    async def _beat_once(self) -> None:
        if not self._has_redis:
            await self._beat_in_store()
        began = now()
        try:
            beat = await self._hive.membership.beat(self._report())
        except UNREACHABLE as error:
            if self._has_redis:
                self._has_redis = False
                told = "Redis cannot be reached, links to other shards wait on disk: %s"
                logger.warning(told, error or type(error).__name__)
                await self._beat_in_store()
            return
        if not self._has_redis:
            self._has_redis = True
            logger.info("Redis is back")
            await asyncio.to_thread(self._hive.store.gone, self._name)
        if beat.born != self._born:
            await self._go_on_in_new_redis()
            return
        try:
            await self._compare(beat)
            self._good_until = began + self._lease_secs
            self._beat = beat
            await self._hive.bus.heard(born=beat.born, acks=beat.acks)
            if beat.is_queen:
                await self._rule(beat)
        except UNREACHABLE as error:
            logger.warning("Redis answered a beat, and then no more: %s", error)
        self._obey(beat.state)

    async def _compare(self, beat: Beat) -> None:
        """Abandon all shards if one was lost. One that was claimed since the beat is in Redis; one
        that Redis has forgotten, by a restart or a fail-over, is registered again."""
        differing = {
            number: held.token
            for number, held in self._held.items()
            if beat.leases.get(number) != held.token
        }
        if differing:
            accepted = await self._hive.membership.register(differing)
            if lost := differing.keys() - accepted.keys():
                self._abandon_all(lost)

    async def _beat_in_store(self) -> None:
        """Redis cannot be reached: the leases stay good by beats in the store, as long as none came
        too late. After one that did the shards may be others' by now: Redis must say."""
        began = now()
        if not self._has_good_leases():
            return
        try:
            await asyncio.to_thread(self._hive.store.beat, self._name)
        except OSError as error:
            logger.warning("HIVE_STORE cannot be reached either: %s", error)
            return
        if self._has_good_leases():
            self._good_until = began + self._lease_secs
        else:
            logger.warning("A beat in HIVE_STORE came too late: no shard is crawled without Redis")

    async def _go_on_in_new_redis(self) -> None:
        """Redis has lost what it had: the shards are registered. The next beat shows it."""
        logger.warning("Redis was emptied: the hive is entered there again")
        self._is_new = False
        membership = self._hive.membership
        try:
            state = await membership.found(self._settings.shards)
            accepted = await membership.register(self._leases)
        except UNREACHABLE as error:
            logger.warning("Redis answered a beat, and then no more: %s", error)
            return
        self._born = state.born
        if lost := self._leases.keys() - accepted.keys():
            self._abandon_all(lost)

    def _abandon_all(self, lost: Collection[int]) -> None:
        logger.error(
            "The shards %s were lost to other drones: all that was done since the last checkpoint "
            "is given up",
            ", ".join(map(str, sorted(lost))),
        )
        self.agent.stats.inc_value("hive/shards/abandoned", len(self._held))
        self._hive.bus.forget()
        for number in [*self._held]:
            self.agent.abandon(self._let_go(number).shard)
        self._incarnation += 1

    # --- shards come and go

    async def _move(self) -> None:
        """Claim, adopt and hand over shards, as the latest beat says."""
        while not is_cancelled():
            await asyncio.sleep(self._pause / 2)
            beat = self._beat
            if beat is None or not self._has_redis or self._is_over or self.agent.is_ending:
                continue
            try:
                excess = len(self._held) - beat.state.share
                if beat.state.share and excess > 0:
                    await self._hand_over(sorted(self._held)[-excess:])
                elif excess < 0 and self._has_good_leases():
                    await self._take(beat, -excess)
            except UNREACHABLE as error:
                logger.warning("No shards were exchanged: %s", error)

    async def _take(self, beat: Beat, most: int) -> None:
        """Claim and adopt up to *most* shards."""
        free = await self._free(beat)
        # Of a claim whose answer was lost.
        own = {one for one, token in beat.leases.items() if one not in self._held}
        free |= {one: Owner(beat.leases[one], self._name) for one in own}
        wanted = {
            one: free[one] for one in sorted(free, key=lambda one: (one not in own, one))[:most]
        }
        if not wanted:
            return
        claimed = await self._hive.membership.claim(wanted)
        for number, token in claimed.items():
            await self._adopt(number, token, wanted[number].token)

    async def _free(self, beat: Beat) -> dict[int, Owner]:
        """The shards without a living holder, with the last one."""
        state = beat.state
        if not self._is_new and beat.now < state.born_at + self._lease_secs:
            return {}  # drones that are alive have not registered their shards yet
        owners = {one: beat.owners.get(one, Owner(0, "")) for one in range(state.shards)}
        if not self._is_new and len(beat.owners) < state.shards:
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

    async def _adopt(self, number: int, token: int, before: int) -> None:
        """Go on with the shard *number*, whose lease has the *token* now and had *before*."""
        agent, hive, store = self.agent, self._hive, self._hive.store
        path = shard_path(agent.job.path, shard_name(number))
        await agent.until_gone(number)
        published = await asyncio.to_thread(store.newest, number)
        quiet_until = 0.0
        if published is None:
            await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
            if before or not self._is_new:
                quiet_until = self._rest_since(0.0)
        else:
            fetched = await asyncio.to_thread(
                store.fetch, published, path, token=token, before=before
            )
            if not (fetched.in_place or fetched.published.released):
                quiet_until = self._rest_since(fetched.published.written_at)
        if agent.is_ending:
            return
        shard = self._shard_of(number)
        held = Held(shard, token, Outbox(path=path / "outbox"), Inbox(shard=shard, path=path))
        shard.join("outbox", held.outbox)
        shard.join("inbox", held.inbox)
        agent.adopt(shard, quiet_until=quiet_until)
        if held.inbox.knows_all_seeds:
            shard.seeds_are_known()
        self._held[number] = held
        hive.outboxes[number], hive.inboxes[number] = held.outbox, held.inbox
        if number == 0:
            hive.live_seeds.begin()
        agent.enqueue_early()
        agent.stats.inc_value("hive/shards/adopted")

    def _rest_since(self, at: float) -> float:
        """Until when no host may be contacted of which it is not known what was sent to it since
        *at*, epoch seconds."""
        return now() + cut_off(self.agent.live.delay, max(0.0, wall_time() - at))

    def _let_go(self, number: int) -> Held:
        """The shard *number* is not held any more."""
        del self._hive.outboxes[number], self._hive.inboxes[number]
        return self._held.pop(number)

    async def _hand_over(self, numbers: Collection[int]) -> None:
        """Give the shards *numbers* back, with a checkpoint in which nothing of them is missing."""
        leaving = [self._held[number] for number in numbers]
        for held in leaving:
            held.shard.is_leaving = True
        while not all(one.shard.is_idle or one.shard.is_abandoned for one in leaving):  # noqa: ASYNC110  # many things end it
            await asyncio.sleep(_LOOK_SECS)
        self._handed_over.clear()
        await self.agent.checkpoint()
        if any(held.shard.is_abandoned for held in leaving):
            return
        if not self._handed_over.issuperset(numbers):
            for held in leaving:
                held.shard.is_leaving = False
            return
        leases = {}
        for number in numbers:
            held = self._let_go(number)
            leases[number] = held.token
            self.agent.part_with(held.shard)
        await self._hive.membership.release(leases)
        self.agent.stats.inc_value("hive/shards/handed_over", len(leases))

    # --- checkpoints

    async def _publish(self) -> None:
        """A checkpoint of all shards is on this disk: bring it to the store, and acknowledge what
        it has of the streams."""
        agent, hive = self.agent, self._hive
        published: dict[int, Inbox] = {}
        # The requests of all pages are in the first outbox: it is published before their pages.
        for number, held in sorted(self._held.items()):
            path = shard_path(agent.job.path, held.shard.name)
            if held.shard.is_abandoned or not (path / "CURRENT").exists():
                continue  # lost or adopted while the checkpoint was made
            released = held.shard.is_leaving or agent.is_ending
            try:
                await asyncio.to_thread(
                    hive.store.publish,
                    path,
                    shard=number,
                    token=held.token,
                    drone=self._name,
                    released=released,
                    copy_hosts=held.shard.hosts.records.copy_to,
                    go_on=self._has_good_leases,
                )
            except SupersededError as error:
                # Others have the shard, whatever Redis has said; it must say so again.
                self._good_until = 0.0
                logger.warning("%s", error)
                break
            except OSError as error:
                agent.stats.inc_value("hive/publish/failed")
                logger.warning("A checkpoint is not in HIVE_STORE, the next one will be: %s", error)
                continue
            published[number] = held.inbox
            if released:
                self._handed_over.add(number)
        positions = hive.bus.positions(published)
        if self._has_redis and positions:
            try:
                await hive.membership.acknowledge(positions, self._leases)
                if 0 in published:
                    await hive.live_seeds.published()
            except UNREACHABLE as error:
                logger.warning("Links are kept until the next checkpoint: %s", error)

    def _checkpoint_is_due(self) -> None:
        """CHECKPOINT_INTERVAL_SECS have passed here: the queen's time is the hive's, unless it
        cannot be known."""
        beat = self._beat
        if not self._has_redis or beat is None:
            self.agent.start_checkpoint()
        elif beat.is_queen:
            self._run(self._order(checkpoint=beat.state.checkpoint + 1))

    # --- orders

    async def _order(self, **orders: Any) -> None:
        try:
            await self._hive.membership.order(**orders)
        except UNREACHABLE as error:
            logger.warning("The queen cannot give orders: %s", error)

    async def _rule(self, beat: Beat) -> None:
        """The queen's duties: see queen.py."""
        state = beat.state
        orders: dict[str, Any] = {}
        share = share_of(state.shards, len(beat.alive))
        # In a hive that has just begun others are about to join.
        if share != state.share and (state.share or beat.now > state.born_at + self._pause):
            orders["share"] = share
        reports = [report for report in beat.reports.values() if report is not None]
        supply, number, since = supply_of(reports)
        if (supply, number, since) != (state.supply, state.round, state.counted_since):
            orders |= {"supply": int(supply), "round": number, "counted_since": since}
        if not state.finished and await self._end.look(beat):
            orders["finished"] = True
        if orders:
            await self._order(**orders)

    def _obey(self, state: State) -> None:
        agent = self.agent
        if state.checkpoint != self._checkpoint:
            self._checkpoint = state.checkpoint
            agent.start_checkpoint()
        for shard in agent.shards:
            domains = shard.hosts.records.domains
            if domains.current_round < state.round:
                domains.begin_round(state.round, counted_since=state.counted_since)
        if state.finished and not self._is_over:
            self._is_over = True
            wake(agent.crawler.engine)
        if state.stopping and not agent.is_ending:
            agent.stop.ask("hive_stopped")

    def _supply_elsewhere(self) -> Supply:
        state = None if self._beat is None else self._beat.state
        if state is None or state.round != self._round:
            return Supply.SOON
        return Supply(state.supply)

    @property
    def _round(self) -> int:
        rounds = (shard.hosts.records.domains.current_round for shard in self.agent.shards)
        return max(rounds, default=0 if self._beat is None else self._beat.state.round)

    # --- what the others learn

    @property
    def _is_idle(self) -> bool:
        """Whether nothing is left to do in any shard held, and nothing of it is to be sent."""
        hive, agent = self._hive, self.agent
        return (
            hive.bus.sender.is_idle
            and not agent.shards.may_bring
            and all(held.shard.feeder.is_fed for held in self._held.values())
            and (0 not in self._held or hive.live_seeds.is_idle)
        )

    def _report(self) -> Report:
        hive, agent = self._hive, self.agent
        self._beats += 1
        supplies = [shard.feeder.supply() for shard in agent.shards]
        if not hive.bus.sender.is_idle:
            supplies.append(Supply.SOON)
        domains = [shard.hosts.records.domains for shard in agent.shards]
        return Report(
            number=self._beats,
            leases=self._leases,
            idle=self._is_idle,
            incarnation=self._incarnation,
            activity=hive.bus.sender.sent + hive.bus.receiver.received,
            positions={number: held.inbox.position for number, held in self._held.items()},
            supply=int(min(supplies, default=Supply.NONE)),
            round=self._round,
            counted_since=max((one.counted_since for one in domains), default=0),
            figures=self._gauge.read(
                unsent=sum(outbox.unsent for outbox in hive.outboxes.values()),
                lag=hive.bus.receiver.lag,
            ),
        )
