"""Tests of prioritizers, selectors, delay policies and remembered hosts."""

import random
from collections import Counter
from pathlib import Path

import pytest
from contracts.policies import DelayPolicyContract, PrioritizerContract, SelectorContract
from hypothesis import given
from msgspec.structs import replace
from strategies import entries
from text_tables import each

from webcrawl.frontier import (
    DepthRankPrioritizer,
    Entry,
    GeometricSelector,
    HostFacts,
    LargestDelay,
)
from webcrawl.frontier.prioritizer import DepthPrioritizer, RankPrioritizer, ScorePrioritizer
from webcrawl.frontier.rests import HostClocks

POLITE = LargestDelay(
    factor=10.0, floor=3.0, ceiling=120.0, unmeasured=20.0, backoff=10.0, backoff_max=3600.0
)


class TestDepthRank(PrioritizerContract):
    def make(self):
        return DepthRankPrioritizer(levels=5)


class TestDepth(PrioritizerContract):
    def make(self):
        return DepthPrioritizer(levels=5)


class TestRank(PrioritizerContract):
    def make(self):
        return RankPrioritizer(levels=5)


class TestScore(PrioritizerContract):
    def make(self):
        return ScorePrioritizer(levels=5)


class TestGeometric(SelectorContract):
    def make(self, rng):
        return GeometricSelector(rng=rng)


class TestLargestDelay(DelayPolicyContract):
    floor = 3.0

    def make(self):
        return POLITE


@given(entries())
def test_deeper_or_less_popular_is_never_more_urgent(entry):
    level = DepthRankPrioritizer(levels=50).level
    assert level(replace(entry, depth=entry.depth + 1)) >= level(entry)
    assert level(replace(entry, rank=entry.rank * 10)) >= level(entry)


def test_home_page_of_an_unlisted_host_comes_after_all_listed_ones():
    level = DepthRankPrioritizer(levels=16).level
    listed = Entry("http://b.test/", "b.test", 0, 1_000_000)
    assert level(replace(listed, rank=0)) > level(listed)


@given(entries())
def test_rank_prioritizer_ignores_depth_and_puts_unranked_last(entry):
    level = RankPrioritizer(levels=50).level
    deeper = replace(entry, depth=entry.depth + 1)
    further = replace(entry, rank=entry.rank * 2)
    unranked = Entry(entry.url, entry.host)
    assert level(deeper) == level(entry) <= level(further) <= level(unranked) == 50


def test_each_level_gets_half_of_what_the_ones_before_left():
    selector = GeometricSelector(rng=random.Random(1))
    draws = 40_000
    found = Counter(selector.choose([2, 3, 7, 16]) for _ in range(draws))
    for level, share in zip([2, 3, 7, 16], [1 / 2, 1 / 4, 1 / 8, 1 / 8], strict=True):
        assert found[level] / draws == pytest.approx(share, abs=0.01)


def test_back_off_doubles_with_each_failure_up_to_its_end():
    rests = [POLITE.rest(HostFacts([0.01] * 5, failures=n)) for n in range(12)]
    assert rests == [3.0, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]


class Store(dict[str, bytes]):
    """Rest store that never saves anything."""

    def put(self, key, data):
        self[key] = data

    def unsaved_items(self):
        return self.items()

    def written(self):
        return [Path("rests")]


@pytest.fixture
def hosts(clock):
    return HostClocks(clock=clock, limit=3, store=None)


def test_host_clock_is_kept_until_it_is_past(hosts):
    hosts.remember("a.test", 10.0, 2.0, now=5.0)
    hosts.remember("b.test", 7.0, 0.0, now=5.0)
    hosts.remember("past.test", 4.0, 0.0, now=5.0)
    rests = hosts.snapshot(without=())
    assert rests.length == 2
    assert sorted(rests.members) == [("a.test", 10, 2.0), ("b.test", 7, 0.0)]
    assert hosts.find("a.test") == (10.0, 2.0)
    assert hosts.take("a.test") == (10.0, 2.0)
    assert hosts.take("a.test") is None
    assert len(hosts) == 1


@each("taken", True, False)
def test_rests_that_are_over_or_taken_are_eventually_forgotten(hosts, taken):
    for step in range(20_000):
        hosts.remember(f"h{step}.test", step + 600.0, 0.0, now=float(step))
        if taken and step >= 10:
            hosts.take(f"h{step - 10}.test")
        assert len(hosts) <= (11 if taken else 1201)


def test_hosts_that_rest_longest_go_to_the_store_and_come_back(clock):
    store = Store()
    hosts = HostClocks(clock=clock, limit=32, store=store)
    now = clock()
    ends = [(7 * n) % 101 + 1 for n in range(100)]
    for n in ends:
        hosts.remember(f"h{n}.test", now + n, n / 4, now=now)
        assert len(hosts) <= 32
    assert hosts.spilled == len(store) == 100 - len(hosts) < 72
    assert {f"h{n}.test" for n in sorted(ends)[:30]} <= hosts._rests.keys()
    for n in ends:
        assert hosts.take(f"h{n}.test") == pytest.approx((now + n, n / 4), abs=1e-5)
    assert len(hosts) == 0
    # What is in the store stays there until it is over: nothing newer can be said before.
    assert hosts.take("h101.test") == pytest.approx((now + 101, 101 / 4), abs=1e-5)
    assert hosts.take("h1.test") is None


def test_rests_of_one_end_do_not_stay_beyond_the_limit(clock):
    hosts = HostClocks(clock=clock, limit=32, store=Store())
    for n in range(100):
        hosts.remember(f"h{n}.test", clock() + 60.0, 0.0, now=clock())
        assert len(hosts) <= 32


def test_a_clock_set_back_does_not_prolong_a_rest_in_the_store(clock):
    hosts = HostClocks(clock=clock, limit=0, store=Store())
    hosts.remember("a.test", clock() + 30.0, 0.0, now=clock())
    clock.now -= 900
    assert hosts.find("a.test") == pytest.approx((clock() + 30.0, 0.0), abs=1e-5)
