"""Tests that no registered domain uses more than its share of the workers while others wait."""

import heapq
import math

import pytest
from frontier_rig import entry

from webcrawl.frontier.domain_share import DomainShares

WORKERS, MOST = 10, 2


def domain_of(host):
    return ".".join(host.split(".")[-2:])


@pytest.fixture
def rig(rig_of):
    return rig_of(
        queues=3 * WORKERS,
        shares=lambda: DomainShares(domain_of=domain_of, workers=WORKERS, max_busy=MOST),
    )


def hosts(domain, count, *, urls=1):
    return [
        entry(f"h{number}.{domain}", serial) for serial in range(urls) for number in range(count)
    ]


def acquire(rig):
    """Acquire like the scheduler, which asks again immediately when that may help."""
    while (lease := rig.acquire()) is None:
        if (rig.ready_at() or math.inf) > rig.clock.now:
            break
    return lease


def taken(rig, workers=WORKERS):
    """Return the hosts that this many idle workers get now."""
    return [lease.entry.host for _ in range(workers) if (lease := acquire(rig)) is not None]


def good_pages(rig, clock, secs):
    """What workers fetch of good.test in *secs*: its hosts answer in 0.1 s and rest for 1, all
    others take 60 s."""
    free, under_way, pages = WORKERS, [], 0
    end = clock.now + secs
    while clock.now < end:
        while free and (lease := acquire(rig)) is not None:
            free -= 1
            good = lease.entry.host.endswith("good.test")
            heapq.heappush(under_way, (clock.now + (0.1 if good else 60.0), lease.id, lease, good))
        clock.now = round(clock.now + 0.1, 1)
        while under_way and under_way[0][0] <= clock.now:
            _, _, lease, good = heapq.heappop(under_way)
            free += 1
            pages += good
            rig.finish(lease)
            rig.frontier.contacts.release(lease.entry.host, rest=1.0)
    return pages


def test_tarpit_of_many_hosts_costs_others_nothing_but_its_share(rig, clock, rig_of):
    good = [entry(f"h{n}.x{n}good.test", serial) for serial in range(400) for n in range(8)]
    alone = rig_of("alone", queues=3 * WORKERS)
    alone.push(*good)
    best = good_pages(alone, clock, 30)
    # Hundreds of tarpits are in line before the first good host.
    rig.push(*hosts("tarpit.test", 300, urls=2))
    rig.push(*good)
    assert good_pages(rig, clock, 30) >= 0.95 * best > 200


def test_domain_alone_gets_all_workers(rig):
    rig.push(*hosts("big.test", 50))
    assert len(taken(rig)) == WORKERS


def test_domains_beyond_their_shares_use_idle_workers(rig):
    rig.push(*hosts("big.test", 20), *hosts("huge.test", 20), entry("h.small.test"))
    got = [domain_of(host) for host in taken(rig)]
    assert len(got) == WORKERS
    assert "small.test" in got
    assert min(got.count("big.test"), got.count("huge.test")) > MOST


def test_worker_is_kept_for_a_host_that_rests(rig, clock):
    rig.push(*hosts("small.test", 3, urls=2))
    for _ in range(3):
        lease = rig.acquire()
        rig.finish(lease)
        rig.frontier.contacts.release(lease.entry.host, rest=5.0)
    rig.push(*hosts("big.test", 20))
    # Two hosts of small.test may be contacted at once.
    assert len(taken(rig)) == WORKERS - MOST
    assert rig.stat("hosts/held") > 0
    clock.now += 5.0
    assert [domain_of(host) for host in taken(rig, MOST)] == ["small.test"] * MOST


def test_held_host_is_next_when_one_of_its_domain_comes_back(rig):
    rig.push(*hosts("small.test", 20), *hosts("other.test", 20))
    for _ in range(20):
        taken(rig)
    held = rig.stat("hosts/held")
    lease = next(iter(rig.frontier.leases.entries))
    rig.finish(lease)
    rig.frontier.contacts.release(lease.entry.host, rest=0.0)
    assert rig.ready_at() == rig.clock()
    assert len(taken(rig, 1)) == 1
    assert rig.stat("hosts/held") <= held


def test_host_asked_for_by_name_gets_a_turn_if_its_domain_has_one(rig):
    rig.push(*hosts("big.test", 4), *[entry(f"h.one{n}.test") for n in range(12)])
    rig.refill(64)
    first, second, third = (rig.acquire(f"h{n}.big.test") for n in (0, 1, 3))
    assert second is not None
    assert third is None
    assert len(taken(rig, 5)) == 5
    rig.finish(first)
    rig.frontier.contacts.release("h0.big.test", rest=0.0)
    assert rig.acquire("h3.big.test").entry.host == "h3.big.test"


def test_shares_follow_the_number_of_workers(rig):
    rig.push(*hosts("big.test", 20), *hosts("huge.test", 20))
    assert len(taken(rig)) == WORKERS
    for workers, most in ((30, 6), (4, 1), (40, 20)):
        rig.back.line.resize_shares(workers=workers, max_busy=most)
    assert len(taken(rig, 40)) == 40 - WORKERS
