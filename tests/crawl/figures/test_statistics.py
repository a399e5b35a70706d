"""Whether politeness is what the crawl waits for, told from a real frontier."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from frontier_rig import Rig, entry

from webcrawl.crawl.figures.statistics import PolitenessBound


@pytest.fixture
def rig(tmp_path, clock):
    made = Rig(tmp_path, clock)
    yield made
    made.frontier.close()


@pytest.fixture
def bound(rig):
    return PolitenessBound(frontier=rig.frontier, live=SimpleNamespace(workers=2), clock=rig.clock)


def test_a_crawl_whose_last_hosts_rest_is_bound_by_politeness(rig, bound, clock):
    rig.push(entry("a.test", 0), entry("a.test", 1))
    bound.look()
    assert not bound.holds
    assert bound.secs_left is None
    lease = rig.acquire()
    rig.fetch(lease)
    assert rig.acquire() is None
    bound.look()
    assert bound.holds
    assert bound.secs_left == pytest.approx(3.0)
    clock.advance(2)
    bound.look()
    assert bound.secs == 2
    clock.advance(1)
    rig.fetch(rig.acquire())
    bound.look()
    assert not bound.holds
    assert bound.secs == 3


def test_a_crawl_with_busy_workers_is_not(rig, bound):
    rig.push(*(entry(f"{name}.test", n) for name in "ab" for n in range(2)))
    first, second = rig.acquire(), rig.acquire()
    assert rig.acquire() is None
    bound.look()
    assert not bound.holds
    rig.fetch(first)
    bound.look()
    assert bound.holds
    rig.fetch(second)


def test_a_crawl_with_ready_hosts_or_urls_in_the_front_end_is_not(rig, bound):
    rig.push(entry("a.test", 0), entry("b.test", 0), entry("b.test", 1))
    rig.fetch(rig.acquire())
    bound.look()
    assert not bound.holds


def test_a_crawl_without_urls_is_not(bound):
    bound.look()
    assert not bound.holds
