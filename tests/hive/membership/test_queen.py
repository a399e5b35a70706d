"""Duties of the queen: shares, the hive's supply, and the end of a crawl, on a model of a hive."""

import asyncio
import random
from collections import deque
from types import SimpleNamespace

import pytest
from text_tables import each

from webcrawl.frontier import Supply
from webcrawl.hive.exchange import to_hand_over
from webcrawl.hive.membership.membership import Beat, Owner
from webcrawl.hive.membership.queen import (
    EndDetection,
    busiest_of,
    moves_of,
    share_of,
    supply_of,
)
from webcrawl.hive.membership.report import DroneFigures, HiveState, Report, decode_state

SHARDS = 4


class ModelDrone:
    """A drone: messages wait in its *outbox*, *work* is left in its shards."""

    def __init__(self, shards):
        self.token = 1
        self.shards = set(shards)
        self.outbox = []
        self.work = 0
        self.beats = self.activity = 0
        self.report = Report()

    def make_report(self, positions):
        self.beats += 1
        self.report = Report(
            number=self.beats,
            leases=dict.fromkeys(self.shards, self.token),
            idle=not (self.work or self.outbox),
            activity=self.activity,
            positions={one: positions[one] for one in self.shards},
        )


class ModelHive:
    """Two drones with two shards each, their streams, and a queen's detection."""

    def __init__(self):
        self.drones = {"a": ModelDrone([0, 1]), "b": ModelDrone([2, 3])}
        self.streams = dict.fromkeys(range(SHARDS), 0)
        self.positions = dict.fromkeys(range(SHARDS), "0-0")
        self.published = {name: Report() for name in self.drones}
        self.detection = EndDetection(self.has_unread)

    async def has_unread(self, positions):
        return any(int(at.partition("-")[0]) < self.streams[one] for one, at in positions.items())

    @property
    def has_ended(self):
        received = all(
            self.positions[one] == f"{last}-0" for one, last in self.streams.items() if last
        )
        return received and not any(one.work or one.outbox for one in self.drones.values())

    def report(self, name):
        """A report is made; it is seen when it is published."""
        self.drones[name].make_report(self.positions)

    def publish(self, name):
        self.published[name] = self.drones[name].report

    def send(self, name):
        drone = self.drones[name]
        if drone.outbox:
            self.streams[drone.outbox.pop()] += 1
            drone.activity += 1

    def receive(self, name):
        drone = self.drones[name]
        for one in drone.shards:
            at = int(self.positions[one].partition("-")[0])
            if at < self.streams[one]:
                self.positions[one] = f"{at + 1}-0"
                drone.activity += 1
                drone.work += 1

    def crawl(self, name, target=None):
        drone = self.drones[name]
        if drone.work:
            drone.work -= 1
            if target is not None and target not in drone.shards:
                drone.outbox.append(target)

    def owners(self):
        return {
            shard: Owner(drone.token, name)
            for name, drone in self.drones.items()
            for shard in drone.shards
        }

    async def look(self):
        beat = Beat(
            now=0.0,
            queen="a",
            is_queen=True,
            state=HiveState(shards=SHARDS),
            leases={},
            owners=self.owners(),
            alive=frozenset(self.drones),
            acks={},
            acknowledged={},
            reports=dict(self.published),
        )
        return await self.detection.look(beat)

    def beat_all(self):
        for name in self.drones:
            self.report(name)
            self.publish(name)


def test_an_idle_hive_has_ended_after_a_few_beats():
    hive = ModelHive()
    looks = []
    for _ in range(5):
        hive.beat_all()
        looks.append(asyncio.run(hive.look()))
    assert looks == [False, False, False, True, True]


@pytest.mark.parametrize(
    "trouble",
    ["no report", "a shard without owner", "another token", "a message in a stream"],
)
def test_a_hive_with_something_open_has_not_ended(trouble):
    hive = ModelHive()
    for _ in range(8):
        hive.beat_all()
        if trouble == "no report":
            hive.published["b"] = None
        elif trouble == "a shard without owner":
            hive.drones["b"].shards = {2}
        elif trouble == "another token":
            hive.drones["b"].token += 1
        else:
            hive.streams[2] = 7
        assert not asyncio.run(hive.look())


async def crawl_at_random(rng):
    hive = ModelHive()
    hive.drones["a"].work = rng.randint(1, 3)
    links = rng.randint(0, 6)
    steps = {"report": 4, "publish": 4, "look": 6, "send": 1, "receive": 1, "crawl": 1}
    while True:
        name = rng.choice("ab")
        match rng.choices([*steps], [*steps.values()])[0]:
            case "crawl":
                links -= 1
                hive.crawl(name, rng.randrange(SHARDS) if links > 0 else None)
            case "look":
                if await hive.look():
                    return hive.has_ended
            case step:
                getattr(hive, step)(name)


@pytest.mark.timeout(60)
def test_the_end_is_found_and_never_before_it_has_come():
    async def crawl_often():
        return [await crawl_at_random(random.Random(seed)) for seed in range(1000)]

    assert all(asyncio.run(crawl_often()))


def test_shares_hold_all_shards():
    assert [share_of(64, drones) for drones in (0, 1, 2, 3, 64, 100)] == [64, 64, 32, 22, 1, 1]


def test_a_new_hive_gives_no_drone_what_it_would_hand_over_to_others():
    assert [share_of(64, drones, is_new=True) for drones in (1, 2, 8, 16)] == [8, 8, 8, 4]
    assert share_of(2, 1, is_new=True) == 1


LEASE_SECS = 10.0


def beat_of(drones, *, now=1000.0, owners=None):
    """What the queen knows of *drones*: how many hosts of each wait, and its shards with the times
    at which it claimed them."""
    reports, rows = {}, {}
    for name, (ready, claimed, *waiting) in drones.items():
        leases = {shard: int(at * 1e6) for shard, at in claimed.items()}
        figures = DroneFigures(ready=ready, waiting=waiting[0] if waiting else len(leases))
        reports[name] = Report(leases=leases, figures=figures)
        rows |= {shard: Owner(token, name) for shard, token in leases.items()}
    return Beat(
        now=now,
        queen="a",
        is_queen=True,
        state=HiveState(shards=64, lease_secs=LEASE_SECS),
        leases={},
        owners=rows if owners is None else owners,
        alive=frozenset(drones),
        acks={},
        acknowledged={},
        reports=reports,
    )


def test_a_drone_without_waiting_hosts_takes_shards_of_the_one_with_most_of_them():
    few, most = (3, {0: 1.0, 1: 1.0}), (9, {2: 1.0, 3: 1.0, 4: 1.0})
    assert moves_of(beat_of({"few": few, "most": most, "free": (0, {5: 1.0})})) == "most free 4096"
    both = {"few": few, "most": most, "one": (0, {5: 1.0}), "other": (0, {6: 1.0, 7: 1.0})}
    assert moves_of(beat_of(both)) == "most one 4096 few other 4096"
    assert moves_of(beat_of({"few": few, "most": most})) == ""
    assert moves_of(beat_of({"one": (0, {5: 1.0, 6: 1.0}), "other": (0, {7: 1.0})})) == ""


def test_a_drone_without_shards_takes_some_of_the_one_that_has_most():
    drones = {"a": (0, {0: 1.0, 1: 1.0}), "b": (0, {2: 1.0, 3: 1.0, 4: 1.0}), "new": (0, {})}
    assert moves_of(beat_of(drones)) == "b new 2"
    drones["a"] = (1, drones["a"][1])
    assert moves_of(beat_of(drones)) == "a new 2"


def test_the_last_shard_of_a_drone_and_shards_that_have_just_moved_stay():
    free = (0, {5: 1.0})
    assert moves_of(beat_of({"last": (9, {0: 1.0}), "free": free})) == ""
    just = 1000.0 - 0.9 * LEASE_SECS
    assert moves_of(beat_of({"slow": (9, {0: 1.0, 1: just}), "free": free})) == ""
    assert moves_of(beat_of({"slow": (9, {0: 1.0, 1: 1.0}), "free": (0, {5: just})})) == ""


def test_a_drone_that_adopts_shards_or_waits_for_the_store_takes_no_others():
    slow, free = (9, {0: 1.0, 1: 1.0}), (0, {5: 1.0})
    beat = beat_of({"slow": slow, "free": free})
    assert moves_of(beat) == "slow free 4096"
    beat.owners[6] = Owner(int(1e6), "free")
    assert moves_of(beat) == ""
    waits = beat_of({"slow": slow, "new": (0, {})})
    waits.reports["new"] = Report(waits=True)
    assert moves_of(waits) == ""
    waits.reports["new"] = None
    assert moves_of(waits) == ""


def secs_of(rates, *, shards=64, pages=24_000):
    """How long drones of *rates*, pages a second, take for *pages*, by the queen's orders.

    Shards are of different sizes, and each move takes half a lease."""
    rng = random.Random(1)
    sizes = [rng.expovariate(1) for _ in range(shards)]
    waiting = {number: pages * size / sum(sizes) for number, size in enumerate(sizes)}
    holders = {number: number % len(rates) for number in waiting}
    claimed_at = dict.fromkeys(waiting, 0.0)
    under_way = {}
    ready = [deque([0] * 5, 5) for _ in rates]
    secs, step = 0.0, LEASE_SECS / 5
    while any(left > 0 for left in waiting.values()):
        secs += step
        for drone, rate in enumerate(rates):
            held = [one for one in holders if holders[one] == drone and one not in under_way]
            budget = rate * step
            for number in sorted(held, key=waiting.get, reverse=True):
                done = min(budget, waiting[number])
                waiting[number] -= done
                budget -= done
            ready[drone].append(sum(waiting[one] > 0 for one in held))
        for number, (taker, arrives_at) in [*under_way.items()]:
            if secs >= arrives_at:
                holders[number], claimed_at[number] = taker, secs
                del under_way[number]
        drones = {
            str(drone): (
                min(ready[drone]),
                {one: claimed_at[one] for one in holders if holders[one] == drone},
                int(sum(waiting[one] for one in holders if holders[one] == drone)),
            )
            for drone in range(len(rates))
        }
        beat = beat_of(drones, now=secs)
        for number, (taker, _) in under_way.items():
            beat.owners[number] = Owner(beat.owners[number].token, str(taker))
        names = moves_of(beat).split()
        for giver, taker, one_in in zip(*[iter(names)] * 3, strict=True):
            held = [
                SimpleNamespace(number=one, frontier=range(int(waiting[one])))
                for one in drones[giver][1]
            ]
            for number in to_hand_over(held, int(one_in)):
                under_way[number] = int(taker), secs + LEASE_SECS / 2
    return secs


@pytest.mark.parametrize(
    ("rates", "at_most"),
    [((40, 10), 1.3), ((25, 25), 1.1), ((40, 40, 10, 10), 1.3)],
)
def test_drones_of_different_speed_end_together(rates, at_most):
    assert secs_of(rates) <= at_most * 24_000 / sum(rates)


def test_the_drone_that_others_wait_for_is_the_one_with_the_most_urls():
    def report(waiting, name="", *, idle=False):
        return Report(figures=DroneFigures(name=name, waiting=waiting), idle=idle)

    idle, few, most = report(0, idle=True), report(7), report(2700, "drone 1")
    assert busiest_of({"a": idle, "b": few, "c": most, "d": None}) == "drone 1"
    assert busiest_of({"a": idle, "b": few}) == "b"
    for nobody_waits in ({"b": few, "c": most}, {"a": idle}, {"d": None}, {}):
        assert busiest_of(nobody_waits) == ""


def test_the_supply_is_the_least_once_all_are_in_the_same_round():
    def reports(*pairs):
        return [Report(supply=supply, round=number) for supply, number in pairs]

    assert supply_of(reports((Supply.LATER, 1), (Supply.NONE, 1))) == (Supply.LATER, 1, 0)
    assert supply_of(reports((Supply.LATER, 1), (Supply.NONE, 2))) == (Supply.SOON, 2, 0)
    assert supply_of([]) == (Supply.NONE, 0, 0)


@each("moves", "a b", "a b 0", "a b x", "a b 2 c", "a  b 2", "a b 1" * 50 + "!")
def test_moves_that_no_queen_writes_are_unreadable(moves):
    assert decode_state({"moves": "a b 2 c d 4096"}).moves
    with pytest.raises(ValueError, match="moves"):
        decode_state({"moves": moves})
