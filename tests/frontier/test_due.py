"""Tests of entries due at a time: never early, never later than promised, in few queues."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from disk import file_size_limit
from frontier_rig import entry
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from text_tables import each

from webcrawl.frontier import Entry, due
from webcrawl.frontier.due import DueQueues, due_at
from webcrawl.frontier.view import Where

HOUR, DAY = 3600.0, 86_400.0


def visit(host, serial=0):
    return replace(entry(host, serial), history=b"x")


def let_in(rig):
    return rig.due.work(64, lambda batch: (batch, {}))


def let_all_in(rig):
    while let_in(rig):
        rig.refill(64)


def test_an_entry_comes_back_at_its_time_and_is_handed_out(rig, clock):
    rig.postpone(visit("a.test"), clock() + DAY)
    assert (len(rig.due), len(rig.frontier), rig.acquire()) == (1, 0, None)
    clock.advance(DAY - 1)
    assert let_in(rig) == 0
    clock.advance(DAY / 6 + HOUR)
    assert rig.due.next_at <= clock()
    assert let_in(rig) == 1
    assert rig.acquire().entry == visit("a.test")
    assert (len(rig.due), rig.due.next_at) == (0, None)


def names_of(waits, now):
    """Return the names of the queues of entries that are due after *waits* seconds."""
    names = []
    queues = DueQueues.__new__(DueQueues)
    queues._clock, queues._next = (lambda: now), None
    queues._queues = type("Queues", (), {"push": lambda _, name, __: names.append(name)})()
    for number, wait in enumerate(waits):
        queues.push(b"%d" % number, now + wait)
    return names


@given(st.lists(st.floats(0, 128 * DAY), max_size=50), st.floats(0, 1e9))
def test_visits_are_never_early_and_late_by_a_sixth_or_an_hour_at_most(waits, now):
    for wait, name in zip(waits, names_of(waits, now), strict=True):
        assert 0 <= due_at(name) - now - wait <= max(HOUR, wait / 6) + 1


def test_entries_that_wait_for_days_are_spread_over_all_hours():
    assert len({*names_of([number * 128 * DAY / 30_000 for number in range(30_000)], 0)}) <= 400
    # Pages of one afternoon, a week later.
    found = Counter(map(due_at, names_of([7 * DAY + number for number in range(8000)], 1e9)))
    assert max(found.values()) < 2000
    assert max(after - before for before, after in pairwise(sorted(found))) <= 2 * HOUR


@each("dies", True, False)
def test_due_entries_survive_a_restart(rig, clock, dies):
    for number in range(100):
        rig.postpone(visit("a.test", number), clock() + DAY)
        if number == 70:
            rig.publish()
    if not dies:
        rig.publish()
    rig.crash()
    assert len(rig.due) == 100
    clock.advance(2 * DAY)
    let_all_in(rig)
    assert len(rig.frontier) == 100
    rig.publish()
    clock.advance(HOUR)
    rig.publish()
    assert not [*rig.path.glob("due/*/")]


def test_entries_finished_before_a_crash_do_not_block_others(rig, clock, monkeypatch):
    monkeypatch.setattr(due, "_MIN_AHEAD", 4)
    for number in range(20):
        rig.postpone(visit(f"h{number}.test"), clock() + DAY)
    rig.publish()
    clock.advance(2 * DAY)
    for _ in range(20):
        let_in(rig)
        rig.fetch(rig.acquire())
    rig.postpone(visit("last.test"), clock() + DAY)
    rig.crash()
    clock.advance(2 * DAY)
    let_all_in(rig)
    clock.advance(60)
    assert [one.entry.host for one in iter(rig.acquire, None)] == ["last.test"]


def test_a_visit_that_was_finished_is_not_visited_again_after_kill_9(rig, clock):
    rig.push(entry("a.test"))
    lease = rig.acquire()
    rig.publish()
    rig.finish(lease, due=(visit("a.test"), clock() + DAY))
    clock.advance(2 * DAY)
    assert let_in(rig) == 1
    again = replace(visit("a.test"), history=b"y")
    rig.release("a.test")
    clock.advance(60)
    rig.finish(rig.acquire(), due=(again, clock() + DAY))
    rig.crash()
    clock.advance(2 * DAY)
    let_all_in(rig)
    clock.advance(60)
    assert [one.entry for one in iter(rig.acquire, None)] == [again]


def test_a_visit_is_set_aside_once_even_if_its_queue_cannot_be_written(rig, clock):
    # Sixteen stay in memory, and the sixteenth of the others has them written.
    rng = random.Random(1)  # its bytes cannot be compressed
    for _ in range(31):
        rig.postpone(replace(entry("b.test"), history=rng.randbytes(1000)), clock() + HOUR)
    rig.push(entry("a.test"))
    rig.publish()
    lease = rig.next()
    with file_size_limit(9000), pytest.raises(OSError, match="File too large"):
        rig.finish(lease, due=(visit("a.test"), clock() + HOUR))
    rig.release("a.test")
    for happens in (lambda: None, rig.publish, rig.crash):
        happens()
        assert (len(rig.due), len(rig.frontier), len(rig.leases)) == (32, 0, 0)


def test_readers_see_what_became_due_since_the_checkpoint(rig, clock):
    rig.postpone(visit("a.test"), clock() + DAY)
    rig.publish()
    rig.postpone(visit("b.test"), clock() + DAY)
    rig.kill()
    found = {one.entry.host: one.queue for one in rig.entries()}
    assert {host: queue.where for host, queue in found.items()} == {
        "a.test": Where.DUE,
        "b.test": Where.DUE,
    }
    assert all(due_at(queue.name) - clock() >= DAY for queue in found.values())


@each("dies", True, False)
def test_visits_of_a_host_do_not_wait_for_all_of_its_new_urls(rig, clock, dies):
    rig.fill("a.test", 1000)
    rig.refill(1000)
    for number in range(1000, 1100):
        rig.postpone(visit("a.test", number), clock() + DAY)
    clock.advance(2 * DAY)
    let_all_in(rig)
    rig.publish()
    if dies:
        rig.crash()
    found = []
    for lease in iter(rig.acquire, None):
        found.append(lease.entry)
        rig.fetch(lease)
        clock.advance(60)
    visits, new = found[1:200:2], found[:200:2] + found[200:]
    wanted = [visit("a.test", number) for number in range(1000, 1100)]
    assert sorted(visits, key=lambda one: one.url) == wanted
    assert new == [entry("a.test", number) for number in range(1000)]


@each("dies", True, False)
def test_urls_to_fetch_last_wait_behind_all_others_of_their_host(rig, clock, dies):
    rig.unknown = {"should_go_last": lambda url: url.count(":") > 1}
    rig.publish()
    rig.crash()
    closed = [Entry(f"http://a.test:{port}/", "a.test") for port in range(81, 121)]
    rig.push(*closed)
    rig.fill("a.test", 20)
    rig.refill_all()
    found = [rig.next()]
    rig.fetch(found[0])
    rig.publish()
    if dies:
        rig.crash()
    assert len(rig.frontier) == 59
    assert {one.url for one in closed} < {one.entry.url for one in rig.entries()}
    assert rig.view().times("a.test").length == 59
    rig.fill("a.test", 20, start=20)  # later, and before them all the same
    for number in range(40, 50):
        rig.postpone(visit("a.test", number), clock() + HOUR)
    clock.advance(3 * HOUR)
    let_all_in(rig)
    found = [found[0].entry, *rig.drain()]
    assert {one.url for one in found[:50]} == {entry("a.test", n).url for n in range(50)}
    assert found[50:] == closed
