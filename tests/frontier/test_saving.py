"""Tests that a snapshot encoded while the frontier keeps working shows the moment it began."""

import msgspec
import pytest
from frontier_rig import entry
from text_tables import each

from webcrawl.frontier import snapshot as frontier_snapshot
from webcrawl.frontier.snapshot import FrontierSnapshot, decode_snapshot


@pytest.fixture
def rig(rig_of, monkeypatch):
    monkeypatch.setattr(frontier_snapshot, "_PIECE", 1)
    return rig_of(remembered=4)


def held(rig):
    """Return a frontier with queues for hosts a to e; a is in process, and e has spilled."""
    rig.push(*(entry(f"{host}.test", n) for host in "abcd" for n in range(3)))
    rig.fill("e.test", 100)
    rig.push(*(entry(f"gone{n}.test") for n in range(3)))
    rig.refill_all()
    lease = rig.next()
    assert lease.entry.host == "a.test"
    for n in range(3):
        rig.fetch(rig.acquire(f"gone{n}.test"))
    return lease


def fetch(rig, host, count):
    for _ in range(count):
        while (found := rig.acquire(host)) is None:
            rig.clock.advance(1.0)
        rig.fetch(found)


def push(rig, *entries):
    rig.push(*entries)
    rig.refill_all()


def requeue_ahead(rig, _):
    for host in ("c.test", "new.test"):
        rig.requeue(entry(host, 5000), ahead=True)


def forget_rests(rig, _):
    rig.clock.advance(10_000.0)
    push(rig, entry("gone1.test", 1))


CHANGES = {
    "release": lambda rig, _: rig.release("a.test", at_least=77.0),
    "promise": lambda rig, _: rig.contacts.promise("a.test", 500.0),
    "put back": lambda rig, lease: rig.put_back(lease),
    "finish": lambda rig, lease: rig.finish(lease),
    "take": lambda rig, _: [rig.acquire(f"{host}.test").id for host in "ebc"],
    "finish all of one": lambda rig, _: fetch(rig, "b.test", 3),
    "read from disk": lambda rig, _: fetch(rig, "e.test", 40),
    "push": lambda rig, _: push(
        rig, *(entry(f"{host}.test", 1000 + n) for host in "abxe" for n in range(40))
    ),
    "move to front": lambda rig, lease: rig.put_back(lease, behind=entry("d.test", 2)),
    "requeue ahead": requeue_ahead,
    "forget rests": forget_rests,
}


@each("taken_before", 0, 4, 8)
@each("change", *CHANGES)
def test_a_snapshot_has_the_state_before_changes_made_meanwhile(rig, change, taken_before):
    lease = held(rig)
    expected = decode_snapshot(b"".join(rig.parts.snapshot()))
    pieces = rig.parts.snapshot()
    taken = [next(pieces) for _ in range(taken_before)]
    CHANGES[change](rig, lease)
    found = decode_snapshot(b"".join([*taken, *pieces]))
    assert found == msgspec.structs.replace(expected, segment=found.segment)
    assert len(found.queues) == 5
    assert [len(queue.items) for queue in found.queues] == [2, 3, 3, 3, 16]
    assert len(found.remembered) == 3
    # And the next one has all of the changes.
    assert decode_snapshot(b"".join(rig.parts.snapshot())) != expected


def test_a_snapshot_cannot_be_continued_after_a_later_one_began(rig):
    held(rig)
    pieces = rig.parts.snapshot()
    next(pieces)
    later = rig.parts.snapshot()
    with pytest.raises(RuntimeError, match="a later snapshot"):
        b"".join(pieces)
    assert len(decode_snapshot(b"".join(later)).queues) == 5


def test_pieces_together_are_the_whole_snapshot_as_msgpack_has_it(rig):
    held(rig)
    pieces = [*rig.parts.snapshot()]
    assert len(pieces) > 8
    whole = b"".join(pieces)
    assert msgspec.msgpack.decode(whole, type=FrontierSnapshot) == decode_snapshot(whole)
    assert len(msgspec.msgpack.decode(whole)) == len(FrontierSnapshot.__struct_fields__)
