"""Tests that the longest queues are found in slices."""

import pytest
from frontier_rig import entry

from webcrawl.frontier import encode


@pytest.fixture
def rig(rig_of):
    return rig_of(queues=2000, max_queues=2000)


def push(rig, *counts):
    entries = [entry(host, number) for host, count in counts for number in range(count)]
    rig.frontier.push([encode(one) for one in entries])
    rig.refill_all()


def lengths(rig):
    return [(queue.host, len(queue)) for queue in rig.back.tails.find_longest()]


def test_the_longest_of_many_queues_is_found_and_kept(rig):
    push(rig, *((f"h{number}.test", 1) for number in range(1100)), ("long.test", 90))
    assert [lengths(rig)[0] for _ in range(8)][2:] == [("long.test", 90)] * 6


def test_queues_of_hosts_with_longer_rests_count_as_longer(rig, clock):
    push(rig, ("a.test", 3), ("b.test", 5))
    lease = rig.acquire()
    clock.advance(1.0)
    rig.frontier.contacts.release(lease.key, rest=20.0, min_rest=18.0)
    rig.finish(lease)
    assert lengths(rig) == [("a.test", 2), ("b.test", 5)]
    assert [queue.period for queue in rig.back.tails.find_longest()] == [21.0, 0.0]


def test_a_finished_queue_is_not_a_tail(rig):
    push(rig, ("a.test", 1))
    assert lengths(rig)
    rig.fetch(rig.acquire())
    assert lengths(rig) == []
