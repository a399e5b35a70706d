import random
from collections import Counter
from functools import partial

import msgspec
import pytest
from disk import file_size_limit
from frontier_rig import entry

from webcrawl.frontier import GeometricSelector, Supply, front_end, overflow
from webcrawl.frontier.snapshot import VERSION
from webcrawl.storage.fifo import DiskFifo
from webcrawl.storage.record_log import NewerFormatError


def is_fair(hosts):
    """Return whether no host was handed out twice while another one with URLs waited."""
    left = Counter(hosts)
    seen = Counter()
    for host in hosts:
        seen[host] += 1
        left[host] -= 1
        if any(seen[host] - seen[other] > 1 for other in left if left[other]):
            return False
    return True


def test_supply_says_how_soon_there_is_something_to_fetch(rig):
    frontier = rig.frontier
    assert frontier.supply is Supply.NONE
    rig.push(*(entry(host, n) for n in range(2) for host in ("fast.test", "slow.test")))
    assert frontier.supply is Supply.NOW
    fast, slow = sorted((rig.next() for _ in range(2)), key=lambda found: found.entry.host)
    assert frontier.supply is Supply.SOON  # both are in process since a moment
    rig.fetch(fast)
    rig.clock.advance(5)
    assert frontier.supply is Supply.NOW
    rig.fetch(rig.next())
    assert frontier.supply is Supply.LATER  # only one contact is left, which lasts long
    rig.fetch(slow, took=5)
    assert frontier.supply is Supply.LATER
    assert frontier.back.is_far("slow.test")
    assert not frontier.back.is_far("fast.test")
    rig.clock.advance(60)
    assert frontier.supply is Supply.NOW
    slow = rig.next()
    assert frontier.supply is Supply.LATER  # it is as it was
    rig.fetch(slow)
    assert frontier.supply is Supply.NONE


def test_hosts_that_rest_for_long_are_far_off_after_a_restart(rig):
    rig.fill("a.test", 2)
    rig.next()
    rig.release("a.test", at_least=3600.0)
    rig.publish()
    rig.crash()
    assert rig.supply is Supply.LATER


def urls(rig):
    return [found.url for found in rig.drain()]


# --- handing out


def test_hosts_take_turns(rig):
    assert [is_fair(hosts) for hosts in ("abcabcab", "aabbcc", "ababaa")] == [True, False, True]
    rig.push(*(entry(f"h{n % 5}.test", n) for n in range(40)))
    assert is_fair([found.host for found in rig.drain()])


def test_rest_asked_for_by_the_server_counts_when_it_is_longer(rig):
    rig.fill("a.test", 3)
    rig.acquire()
    rig.release("a.test", at_least=600.0)
    assert rig.ready_at() == rig.clock() + 600.0
    assert rig.next() is not None
    rig.release("a.test", took=50.0, at_least=60.0)
    assert rig.ready_at() == rig.clock() + 120.0


def test_host_to_which_nothing_was_sent_is_ready_at_once(rig):
    rig.fill("a.test", 2)
    assert rig.acquire() is not None
    rig.release("a.test", fetched=False)
    assert rig.acquire() is not None


def test_double_release_is_refused(rig):
    rig.fill("a.test", 2)
    rig.acquire()
    rig.release("a.test")
    for host in ("a.test", "b.test"):
        with pytest.raises(LookupError, match=f"{host} is not in process"):
            rig.release(host)


def test_entry_put_back_is_the_next_of_its_host(rig):
    rig.fill("a.test", 100)
    lease = rig.acquire()
    # Its robots.txt was fetched instead: that was a contact, and the host rests for it.
    rig.put_back(lease)
    assert rig.acquire() is None
    rig.release("a.test")
    assert rig.acquire() is None
    assert urls(rig) == [f"http://a.test/{n}" for n in range(100)]


# --- priority


def test_urgent_levels_are_fetched_first_and_none_is_starved(rig_of):
    """There are only two queues, so that almost everything waits in the front end."""
    rig = rig_of(queues=2, max_queues=2)
    rig.push(*(entry(f"h{n}.test", n, depth=n % 4) for n in range(800)))
    order = [found.depth for found in rig.drain()]
    assert Counter(order) == dict.fromkeys(range(4), 200)
    first = [order[:200].count(depth) for depth in range(4)]
    assert first[:2] == pytest.approx([100, 50], abs=25)
    assert first[0] > first[1] > first[2] > 0
    assert first[3] > 0


# --- back-end queues


def test_queues_grow_until_the_workers_are_busy(rig_of):
    rig = rig_of(queues=3, max_queues=100)
    rig.spread(200)
    assert all(rig.acquire() for _ in range(20))
    # As many as were asked for, no more: the others are still subject to priority.
    assert rig.stat("queues") == 20
    assert rig.front.size == 180


def test_queues_stop_growing_at_their_ceiling(rig_of):
    rig = rig_of(queues=2, max_queues=5)
    rig.spread(20)
    leases = [*iter(rig.acquire, None)]
    assert len(leases) == 5
    assert rig.ready_at() is None
    assert rig.front.size == 15
    rig.fetch(leases[0])
    assert rig.acquire() is not None


def test_snoozed_host_does_not_end_the_search_for_a_ready_one(rig_of):
    """A thousand URLs of a resting host are ahead of the one URL that could be fetched."""
    rig = rig_of(queues=1, max_queues=10, slice_size=10)
    rig.push(entry("busy.test", 0))
    rig.fetch(rig.acquire())
    rig.push(*(entry("busy.test", n) for n in range(1, 1000)), entry("other.test", 1))
    calls = 0
    while (lease := rig.acquire()) is None:
        assert rig.ready_at() <= rig.clock(), "the caller would wait"
        calls += 1
    assert lease.entry.host == "other.test"
    assert calls >= 40, "one call moved more than two slices"


def test_resting_hosts_do_not_end_the_growth(rig_of):
    """Hosts contacted a moment ago use every queue; another that is ready waits behind them."""
    rig = rig_of(queues=1, max_queues=10)
    for host in "abc":
        rig.push(entry(host, 1))
        rig.fetch(rig.acquire())
    rig.push(*(entry(host, 2) for host in "abcz"))
    while (lease := rig.acquire()) is None:
        assert rig.ready_at() <= rig.clock(), "the caller would wait though z is ready"
    assert lease.entry.host == "z"


def test_flood_of_one_host_goes_to_disk_and_neither_blocks_nor_fills_memory(rig_of, jobdir):
    rig = rig_of("", queues=4, max_queues=10)
    flood = 20_000
    for start in range(0, flood, 1000):
        rig.push(*(entry("flood.test", n) for n in range(start, start + 1000)))
        assert rig.refill(64) == 64
    rig.refill_all()
    assert rig.front.size == 0
    assert rig.stat("queues/spilled") == 1
    rig.publish()
    # All that is in memory is in the snapshot: 48 entries of about 40 bytes.
    assert len(rig.published) < 4000
    assert urls(rig) == [f"http://flood.test/{n}" for n in range(flood)]
    rig.publish()
    assert [path for path in (jobdir / "back").rglob("*") if path.is_file()] == []


def test_disk_space_of_what_was_read_is_given_back_at_each_checkpoint(rig_of, jobdir, monkeypatch):
    monkeypatch.setattr(overflow, "SEGMENT_BYTES", 1000)
    monkeypatch.setattr(front_end, "CHUNK", 16)
    monkeypatch.setattr(front_end, "DiskFifo", partial(DiskFifo, segment_bytes=1000))
    rig = rig_of("", queues=2, max_queues=2)
    flood = 2000
    rig.fill("flood.test", flood)

    def size(name):
        return sum(path.stat().st_size for path in (jobdir / name).rglob("*.log"))

    rig.publish()
    assert size("front") > flood * 6
    rig.refill(flood)
    rig.publish()
    assert size("front") < 3000
    assert size("back") > flood * 6
    for _ in range(flood - 200):
        rig.fetch(rig.next())
    rig.publish()
    assert size("back") < 200 * 64
    assert size("done") < 100
    assert len(rig.drain()) == 200


# --- leases that get lost


def test_expired_lease_returns_its_entry_and_its_host(rig):
    rig.push(*(entry("a.test", n) for n in range(3)), entry("b.test", 9))
    lost = rig.acquire()
    rig.clock.advance(50)
    kept = rig.acquire()
    rig.clock.advance(10)
    assert rig.expire(60) == []
    rig.clock.advance(1)
    assert rig.expire(60) == [lost]
    # The host rests as after a download of 61 s.
    assert rig.ready_at() == rig.clock() + 120.0
    with pytest.raises(LookupError):
        rig.finish(lost)
    with pytest.raises(LookupError):
        rig.release("a.test")
    rig.fetch(kept)
    assert urls(rig) == [f"http://a.test/{n}" for n in range(3)]
    stats = rig.stats()
    assert (stats["frontier/expired"], stats["frontier/put_back"]) == (1, 0)


def test_an_expired_contact_is_followed_by_no_less_than_the_host_asks_for(rig):
    """Its robots.txt asks for ten minutes between contacts, however the last one ended."""
    rig.fill("a.test", 2)
    rig.acquire()
    rig.frontier.contacts.release("a.test", rest=600.0, min_rest=600.0)
    rig.clock.advance(601)
    lost = rig.acquire()
    rig.clock.advance(61)
    assert lost in rig.expire(60)
    assert rig.ready_at() == rig.clock() + 600.0


def test_the_shortest_rest_of_a_contact_holds_after_crash_or_expiry(rig):
    """The frontier itself no longer knows a host whose queue had run empty."""
    for n, end in enumerate((rig.crash, lambda: rig.expire(0))):
        host = f"h{n}.test"
        rig.requeue(entry(host, n))
        rig.acquire()
        rig.contacts.promise(host, 600.0)
        rig.contacts.promise(host, 30.0)  # less than that is nothing new
        rig.clock.advance(1)
        end()
        began = rig.clock()
        lease = rig.next()
        assert rig.clock() - began == pytest.approx(600.0, abs=1e-3)
        rig.frontier.contacts.release(host, rest=0.0)
        rig.finish(lease)


def test_several_expired_leases_of_a_host_keep_their_order(rig):
    rig.fill("a.test", 4)
    for _ in range(3):
        rig.next()
        rig.release("a.test")
    assert len(rig.expire(0)) == 2, "the last one was acquired just now"
    rig.clock.advance(1)
    assert len(rig.expire(0)) == 1
    assert urls(rig) == [f"http://a.test/{n}" for n in (2, 0, 1, 3)]


# --- statistics, errors


def test_statistics_count_everything(rig):
    rig.push(*(entry(f"h{n % 3}.test", n) for n in range(9)))
    rig.requeue(entry("r.test", depth=5))
    fetched, returned, _ = (rig.acquire() for _ in range(3))
    rig.fetch(fetched)
    rig.put_back(returned)
    found = rig.stats()
    assert {name: value for name, value in found.items() if value} == {
        "frontier/pushed": 9,
        "frontier/requeued": 1,
        "frontier/moved": 10,
        "frontier/popped": 3,
        "frontier/put_back": 1,
        "frontier/finished": 1,
        "frontier/waiting": 8,
        "frontier/back": 8,
        "frontier/leased": 1,
        "frontier/queues": 8,
        "frontier/hosts/ready": 1,
        "frontier/hosts/snoozed": 1,
        "frontier/hosts/in_process": 2,
    }


def test_full_disk_hands_nothing_out_and_loses_nothing(rig):
    rig.spread(10)
    lease = rig.acquire()
    rig.parts.snapshot()  # a new segment: the next contact must be journaled
    with file_size_limit(8):
        for write in (
            rig.acquire,
            lambda: rig.finish(lease),
            lambda: rig.requeue(entry("r.test")),
            lambda: rig.release(lease.entry.host, at_least=9.0),
        ):
            with pytest.raises(OSError, match="File too large"):
                write()
            assert (len(rig.frontier), len(rig.leases)) == (9, 1)
    rig.fetch(lease)
    assert len(rig.drain()) == 9


def test_snapshot_of_a_later_format_is_refused(rig):
    rig.kill()
    rig.published = msgspec.msgpack.encode([VERSION + 1, "something new"])
    with pytest.raises(NewerFormatError, match="use the newer webcrawl that wrote it"):
        rig.start()


def test_order_of_the_hosts_follows_from_the_seed_of_chance(rig_of):
    orders = []
    for number, seed in enumerate([1, 1, 2]):
        selector = GeometricSelector(rng=random.Random(seed))
        rig = rig_of(str(number), queues=2, max_queues=3, selector=selector)
        rig.push(*(entry(f"h{n}.test", n, depth=n % 3) for n in range(60)))
        orders.append(urls(rig))
    assert orders[0] == orders[1] != orders[2]


def test_urls_are_fresh_for_seven_days_after_their_last_answer(rig, clock):
    day = 86_400.0
    begun = clock()
    for number in range(20):
        rig.counts.answer(0.0, clock() - number * day / 2)
    assert rig.stat("fresh") in {13, 14}
    rig.counts.answer(begun - day, begun)
    assert rig.stat("fresh") in {13, 14}
    rig.publish()
    rig.crash()
    assert rig.stat("fresh") in {13, 14}
    clock.advance(8 * day)
    assert rig.stat("fresh") == 0
    rig.counts.answer(begun, clock())
    rig.counts.answer(begun - 20 * day, begun - 10 * day)
    assert rig.stat("fresh") == 1
