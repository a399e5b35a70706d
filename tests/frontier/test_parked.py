"""Tests of parked URLs: their queues, passes, and recovery after a crash."""

from functools import partial

import msgspec
import pytest
from disk import flipped, full_disk
from frontier_rig import entry, urls_of
from text_tables import each

from webcrawl.frontier import encode, parked
from webcrawl.frontier.snapshot import decode_snapshot
from webcrawl.storage.record_log import CorruptRecordError


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(parked, "CHUNK", 2)


def park(rig, count, reason="budget", host="a.test"):
    rig.parked.push(reason, [encode(entry(host, n)) for n in range(count)])


def let_in(entries):
    return entries, {}


def make_pass(rig, *reasons):
    """Make a complete pass that admits everything; return how many entries it checked."""
    rig.parked.begin_pass(reasons)
    total = 0
    while count := rig.parked.reconsider(3, let_in):
        total += count
    return total


def test_parked_urls_wait_outside_the_frontier(rig):
    park(rig, 7)
    park(rig, 2, "trap", "b.test")
    rig.push(entry("c.test"))
    assert len(rig.frontier) == 1
    assert urls_of(rig.drain()) == ["http://c.test/0"]
    assert rig.ready_at() is None
    expected = {"parked": 9, "parked/budget": 7, "parked/trap": 2, "held": 9, "waiting": 0}
    assert {f"frontier/{name}": n for name, n in expected.items()}.items() <= (rig.stats().items())


def test_leased_entry_is_parked_and_its_host_released_without_a_rest(rig):
    rig.fill("a.test", 2)
    lease = rig.next()
    rig.park(lease, "budget")
    rig.release("a.test", fetched=False)
    assert len(rig.leases) == 0
    now = rig.acquire()
    assert now.entry.url == "http://a.test/1"
    park_again = partial(rig.park, reason="budget")
    for again in (rig.put_back, rig.finish, park_again):
        with pytest.raises(LookupError):
            again(lease)
    rig.fetch(now)
    make_pass(rig, "budget")
    assert urls_of(rig.drain()) == ["http://a.test/0"]


@each("reason", "", "Budget", "../front", "9", "a b", "a" * 33)
def test_reason_is_a_word(rig, reason):
    with pytest.raises(ValueError, match="must be a lower-case word"):
        park(rig, 1, reason)


def test_parked_retry_survives_the_log_it_was_in(rig):
    rig.requeue(msgspec.structs.replace(entry("a.test"), attempts=1))
    rig.park(rig.next(), "budget")
    rig.release("a.test", fetched=False)
    rig.publish()
    rig.crash()
    make_pass(rig, "budget")
    assert [found.attempts for found in rig.drain()] == [1]


def test_leftover_queue_that_no_snapshot_names_is_deleted(rig):
    rig.publish()
    park(rig, 9)
    left = rig.path / "parked" / "budget"
    assert [*left.iterdir()]
    rig.crash()
    assert not [*left.iterdir()]
    assert rig.parked.size == 0
    park(rig, 9)
    assert rig.parked.counts == {"budget": 9}


def test_queue_that_ran_empty_leaves_the_snapshot_and_the_disk(rig):
    park(rig, 9)
    rig.publish()
    make_pass(rig, "budget")
    rig.publish()
    assert decode_snapshot(rig.published).parked == {}
    rig.crash()
    assert not [*(rig.path / "parked" / "budget").iterdir()]
    assert len(rig.frontier) == 9


def test_full_disk_loses_nothing_that_is_parked_or_let_in(rig):
    park(rig, 8)
    waiting = rig.parked
    waiting.begin_pass(["budget"])
    with full_disk(8):
        waiting.reconsider(8, lambda data: (data[:4], {"trap": data[4:], "budget": []}))
    assert len(rig.frontier) == 4
    assert waiting.counts == {"budget": 0, "trap": 4}


def test_damaged_queue_is_reported_with_its_place(rig):
    park(rig, 9)
    waiting = rig.parked
    file = next((rig.path / "parked" / "budget").iterdir())
    sound = file.read_bytes()
    file.write_bytes(flipped(sound, len(sound) - 1))
    waiting.begin_pass(["budget"])
    with pytest.raises(CorruptRecordError, match=str(file)):
        waiting.reconsider(9, let_in)
    assert (waiting.size, waiting.due) == (9, 9)
    file.write_bytes(sound)
    assert make_pass(rig, "budget") == 9
