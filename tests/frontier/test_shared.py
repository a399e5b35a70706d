"""Tests of clocks that hosts share: one contact at a time, each after the last one's rest."""

import itertools
from functools import partial

import pytest
from disk import full_disk
from frontier_rig import POLICY, Rig, entry
from text_tables import cases, each

from webcrawl.frontier import LargestDelay, shared
from webcrawl.frontier.delay_policy import cut_off

ADDRESS = "203.0.113.7"


def contact(rig, host):
    """Return a lease on a new URL of *host*, whose turn it is."""
    rig.push(entry(host, int(rig.clock.now * 1e6)))
    lease = rig.next()
    assert lease.entry.host == host
    return lease


def claim(rig, host):
    return rig.contacts.claim(contact(rig, host), ADDRESS)


def send_away(rig, lease):
    """Do what the crawler does when the clock is taken; return how long it has to wait."""
    wait = rig.contacts.claim(lease, ADDRESS)
    assert wait > 0
    rig.put_back(lease)
    rig.frontier.contacts.release(lease.entry.host, rest=wait)
    return wait


def test_clock_is_free_again_when_it_has_rested(rig):
    first, second = contact(rig, "a.test"), contact(rig, "b.test")
    assert rig.contacts.claim(first, ADDRESS) == 0.0
    assert rig.contacts.claim(second, ADDRESS) > 0
    rig.frontier.contacts.release("a.test", rest=1.0, shared_rest=20.0)
    assert rig.contacts.claim(second, ADDRESS) > 0
    rig.clock.advance(19.9)
    assert rig.contacts.claim(second, ADDRESS) > 0
    rig.clock.advance(0.1)
    assert rig.contacts.claim(second, ADDRESS) == 0.0
    assert rig.stat("addresses/in_process") == 1
    assert rig.stat("refused") == 3


def test_a_thousand_hosts_of_one_address_get_different_times(rig):
    rig.contacts.claim(contact(rig, "a.test"), ADDRESS)
    times = []
    for n in range(1000):
        if n == 500:
            rig.frontier.contacts.release("a.test", rest=1.0, shared_rest=30.0)
        times.append(rig.clock.now + send_away(rig, contact(rig, f"h{n}.test")))
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert min(gaps) == pytest.approx(cut_off(POLICY, 0.0))
    assert max(times) == pytest.approx(rig.clock.now + 1000 * cut_off(POLICY, 0.0))


def test_all_hosts_of_one_address_get_their_turn(rig_of, clock):
    rig = rig_of(queues=200)
    rig.spread(100)
    free_at = clock.now
    tries = 0
    while (lease := rig.next()) is not None:
        tries += 1
        if rig.contacts.claim(lease, ADDRESS):
            send_away(rig, lease)
            continue
        assert clock.now >= free_at
        clock.advance(0.5)
        free_at = clock.now + 5.0
        rig.frontier.contacts.release(lease.entry.host, rest=1.0, shared_rest=5.0)
        rig.finish(lease)
    assert len(rig.frontier) == 0
    assert tries < 100 * 40


def test_hosts_get_different_times_even_without_a_usual_rest(rig_of):
    rig = rig_of(delay=LargestDelay(factor=0.0, floor=0.0, ceiling=0.0))
    claim(rig, "a.test")
    waits = [send_away(rig, contact(rig, f"h{n}.test")) for n in range(3)]
    assert waits == pytest.approx([0.1, 0.2, 0.3])


def test_memory_of_given_times_is_bounded(rig, monkeypatch):
    monkeypatch.setattr(shared, "_MAX_ASSIGNED", 5)
    for n in range(20):
        for host in (f"a{n}.test", f"b{n}.test"):
            rig.contacts.claim(contact(rig, host), f"203.0.113.{n}")
    assert len(rig.parts.shared._assigned) == 5


@cases(
    "shared_rest expected",
    """
        None | 9.0
        0.0  | 0.0
        2.0  | 2.0
    """,
)
def test_clock_rests_as_long_as_the_host_by_default(rig, shared_rest, expected):
    claim(rig, "a.test")
    rig.frontier.contacts.release("a.test", rest=9.0, shared_rest=shared_rest)
    assert claim(rig, "b.test") == pytest.approx(expected)


def test_full_disk_claims_nothing(rig):
    lease = contact(rig, "a.test")
    rig.parts.snapshot()  # a new segment
    with full_disk(8):
        rig.contacts.claim(lease, ADDRESS)
    assert rig.stat("addresses/in_process") == 0
    assert rig.contacts.claim(lease, ADDRESS) == 0.0


# --- across a restart


@each("restart", "crash", "reboot")
@each("saved", False, True)
def test_rest_of_a_clock_holds_after_a_restart(rig, restart, saved):
    """This includes a rest that is longer than a restart would infer, right after the release."""
    rig.publish()
    lease = contact(rig, "a.test")
    rig.contacts.claim(lease, ADDRESS)
    rig.finish(lease)
    rig.frontier.contacts.release("a.test", rest=1.0, shared_rest=600.0)
    if saved:
        rig.publish()
    rig.clock.advance(100.0)
    getattr(rig, restart)()
    assert claim(rig, "b.test") == pytest.approx(500.0)


@each("saved", False, True)
@each("running_for", 0.1, 2.0, 500.0)
def test_contact_that_was_cut_off_rests_as_if_it_had_lasted_until_now(
    rig, clock, saved, running_for
):
    rig.publish()
    claim(rig, "a.test")
    if saved:
        rig.publish()
    clock.advance(running_for)
    rig.crash()
    assert claim(rig, "b.test") == pytest.approx(cut_off(POLICY, running_for), abs=1e-3)


# --- rests that there is no room for in memory


@pytest.fixture
def small(rig_of):
    """Return clocks with two rests in memory and the others in the host records."""
    return rig_of(queues=100, remembered=2)


def visit_all(rig, count, rest):
    for n in range(count):
        lease = contact(rig, f"h{n}.test")
        rig.contacts.claim(lease, f"203.0.113.{n}")
        rig.frontier.contacts.release(f"h{n}.test", rest=rest + n, shared_rest=rest + 100 + n)
        rig.finish(lease)


def assert_resting(rig, count, at_least):
    for n in range(count):
        rig.push(entry(f"h{n}.test", n))
    rig.refill_all()
    assert rig.acquire() is None
    assert rig.ready_at() - rig.clock() >= at_least - 1e-5
    for n in range(count):
        assert rig.contacts.claim(contact(rig, f"new{n}.test"), f"203.0.113.{n}") >= at_least - 1e-5


def test_contact_is_on_disk_before_it_begins(rig):
    lease = contact(rig, "a.test")
    rig.publish()
    rig.contacts.claim(lease, ADDRESS)
    log = b"".join(path.read_bytes() for path in sorted((rig.path / "done").iterdir()))
    assert ADDRESS.encode() in log


def test_rests_in_the_records_are_found_again(small):
    visit_all(small, 30, 500.0)
    assert small.stat("hosts/remembered") == 2
    assert small.stat("hosts/rests_spilled") == 58
    assert_resting(small, 30, 500.0)


@each("written", "no", "before", "after")
@each(
    "restart",
    Rig.crash,
    Rig.reboot,
    partial(Rig.reboot, lost=True),
    ids=["crash", "reboot", "power"],
)
def test_rests_in_the_records_hold_after_a_restart(small, restart, written):
    """They may have been written to disk before the snapshot, after it or never."""
    visit_all(small, 30, 500.0)
    if written == "before":
        small.save_rests()
    small.publish()
    if written == "after":
        small.save_rests()
    small.clock.advance(100.0)
    restart(small)
    assert_resting(small, 30, 400.0)


def test_snapshot_does_not_grow_with_the_rests_that_are_on_disk(small):
    visit_all(small, 5, 500.0)
    small.save_rests()
    before = len(b"".join(small.parts.snapshot()))
    visit_all(small, 5, 500.0)
    visit_all(small, 300, 5000.0)
    small.save_rests()
    assert len(b"".join(small.parts.snapshot())) < before + 100


def test_newer_rest_of_a_queue_is_not_hidden_by_an_older_one_in_the_records(small):
    """The older one was never written, so it is in the snapshot as well."""
    visit_all(small, 10, 50.0)
    small.clock.advance(60.0)
    small.push(entry("h9.test", 1), entry("h9.test", 2))
    small.next()
    small.frontier.contacts.release("h9.test", rest=1000.0)
    small.publish()
    small.crash()
    assert small.acquire() is None
    assert small.ready_at() == pytest.approx(small.clock() + 1000.0)
