"""Entries that are due at a time: none early, none late by more than said, in few queues."""

import pytest
from frontier_rig import Rig, entry
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from webcrawl.frontier import due, encode
from webcrawl.frontier.due import DueQueues, due_at
from webcrawl.frontier.view import FrontierView, Where

HOUR, DAY = 3600.0, 86_400.0


def visit(host, serial=0):
    return replace(entry(host, serial), history=b"x")


@pytest.fixture
def rig(jobdir, clock):
    rig = Rig(jobdir, clock)
    yield rig
    rig.close()


def let_in(rig):
    return rig.frontier.due.work(64, lambda batch: (batch, {}))


def test_an_entry_comes_back_at_its_time_and_is_handed_out(rig, clock):
    rig.frontier.postpone(visit("a.test"), clock() + DAY)
    assert (len(rig.frontier.due), len(rig.frontier), rig.acquire()) == (1, 0, None)
    clock.advance(DAY - 1)
    assert let_in(rig) == 0
    clock.advance(DAY / 6 + HOUR)
    assert rig.frontier.due.next_at <= clock()
    assert let_in(rig) == 1
    assert rig.acquire().entry == visit("a.test")
    assert (len(rig.frontier.due), rig.frontier.due.next_at) == (0, None)


@given(st.lists(st.floats(0, 128 * DAY), max_size=50), st.floats(0, 1e9))
def test_none_is_early_and_none_later_than_a_sixth_and_an_hour(waits, now):
    names = []
    queues = DueQueues.__new__(DueQueues)
    queues._clock, queues._next = (lambda: now), None
    queues._queues = type("Queues", (), {"push": lambda _, name, __: names.append(name)})()
    for wait in waits:
        queues.push(b"", now + wait)
    for wait, name in zip(waits, names, strict=True):
        assert 0 <= due_at(name) - now - wait <= max(HOUR, wait / 6) + 1e-3
    assert len(set(names)) <= 64


@pytest.mark.parametrize("dies", [True, False])
def test_due_entries_survive_the_process(rig, clock, dies):
    for number in range(100):
        rig.frontier.postpone(visit("a.test", number), clock() + DAY)
        if number == 70:
            rig.publish()
    if not dies:
        rig.publish()
    rig.crash()
    assert len(rig.frontier.due) == 100
    assert rig.frontier.check() == []
    clock.advance(2 * DAY)
    while let_in(rig):
        pass
    assert len(rig.frontier) == 100
    rig.publish()
    clock.advance(HOUR)
    rig.publish()
    assert not [*rig.path.glob("due/*/")]


def test_what_was_finished_before_a_crash_holds_nothing_up(rig, clock, monkeypatch):
    monkeypatch.setattr(due, "_FEW", 4)
    for number in range(20):
        rig.frontier.postpone(visit(f"h{number}.test"), clock() + DAY)
    rig.publish()
    clock.advance(2 * DAY)
    for _ in range(20):
        let_in(rig)
        lease = rig.acquire()
        rig.release(lease.entry.host, fetched=True)
        rig.frontier.finish(lease)
    rig.frontier.postpone(visit("last.test"), clock() + DAY)
    rig.crash()
    clock.advance(2 * DAY)
    while let_in(rig):
        pass
    clock.advance(60)
    assert [one.entry.host for one in iter(rig.acquire, None)] == ["last.test"]


def test_a_visit_that_was_finished_is_not_visited_again_after_kill_9(rig, clock):
    rig.push(entry("a.test"))
    lease = rig.acquire()
    rig.publish()
    rig.frontier.finish(lease, due=(visit("a.test"), clock() + DAY))
    clock.advance(2 * DAY)
    assert let_in(rig) == 1
    again = replace(visit("a.test"), history=b"y")
    rig.release("a.test", fetched=True)
    clock.advance(60)
    rig.frontier.finish(rig.acquire(), due=(again, clock() + DAY))
    rig.crash()
    clock.advance(2 * DAY)
    while let_in(rig):
        pass
    clock.advance(60)
    found = [one.entry for one in iter(rig.acquire, None)]
    assert found == [again]
    assert encode(found[0])


def test_readers_see_what_became_due_since_the_checkpoint(rig, clock):
    rig.frontier.postpone(visit("a.test"), clock() + DAY)
    rig.publish()
    rig.frontier.postpone(visit("b.test"), clock() + DAY)
    rig.kill()
    view = FrontierView(path=rig.path, snapshot=rig.published, trust_done=True)
    found = {one.entry.host: one.queue for one in view.entries(view.finished_keys())}
    assert {host: queue.where for host, queue in found.items()} == {
        "a.test": Where.DUE,
        "b.test": Where.DUE,
    }
    assert all(due.due_at(queue.name) - clock() >= DAY for queue in found.values())
    rig.start()


@pytest.mark.parametrize("dies", [True, False])
def test_visits_of_a_host_do_not_wait_for_all_of_its_new_urls(rig, clock, dies):
    rig.push(*(entry("a.test", number) for number in range(1000)))
    rig.frontier.refill(1000)
    for number in range(1000, 1100):
        rig.frontier.postpone(visit("a.test", number), clock() + DAY)
    clock.advance(2 * DAY)
    while let_in(rig):
        rig.frontier.refill(64)
    rig.publish()
    if dies:
        rig.crash()
    assert rig.frontier.check() == []
    found = []
    while (lease := rig.acquire()) is not None:
        found.append(lease.entry)
        rig.release("a.test", fetched=True)
        rig.frontier.finish(lease)
        clock.advance(60)
    visits = [at for at, one in enumerate(found) if one.history]
    assert visits == [*range(1, 200, 2)]
    assert [one.url for one in found if one.history] == [
        visit("a.test", number).url for number in range(1000, 1100)
    ]
    new = [one.url for one in found if not one.history]
    assert new == [entry("a.test", number).url for number in range(1000)]
    assert rig.frontier.check() == []
