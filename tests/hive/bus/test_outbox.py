"""The outbox gives what was appended, in its order, until it is acknowledged; after crashes too."""

import os
import random
import shutil
from collections import deque
from pathlib import Path

import msgspec
import pytest
from crash import die_between_lines
from disk import file_size_limit, flipped, full_disk
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from strategies import examples

from webcrawl.hive.bus.messages import LinkedHosts, decode
from webcrawl.hive.bus.outbox import Outbox
from webcrawl.hive.membership.keys import stream_id_key
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

FAR = dict.fromkeys(range(10), f"{1 << 60}-0")


def opened(path, saved=None, **sizes):
    outbox = Outbox(path=path)
    for name, size in sizes.items():
        setattr(outbox, name, size)
    outbox.open(saved)
    return outbox


def pairs(messages):
    return [(message.target, message.payload) for message in messages]


def taken(outbox):
    """All that it gives, as if nothing were answered."""
    found = []
    while some := outbox.take(1 << 20):
        found += pairs(some)
    return found


def left_in(path, saved=None):
    """Return the messages that another process finds."""
    outbox = opened(path, saved)
    found = taken(outbox)
    outbox.close()
    return found


@pytest.fixture
def path(tmp_path):
    return tmp_path / "outbox"


@pytest.fixture
def outbox(path):
    made = opened(path)
    yield made
    made.close()


def item(number):
    return number % 3, b"message %d" % number


def fill(outbox, start, end):
    items = [item(number) for number in range(start, end)]
    for target, payload in items:
        outbox.append_all([(target, payload, ())])
    return items


def deliver_all(outbox, stream_id="1-0"):
    while some := outbox.take(1 << 20):
        for message in some:
            outbox.mark_delivered(message, stream_id)


def test_names_come_with_messages_that_were_not_written_before(outbox):
    outbox.append_all([(1, b"one", [5, 6]), (2, b"two", [7])])
    assert [message.cache_keys for message in outbox.take(100)] == [[5, 6], [7]]
    outbox.rewind()
    assert [message.cache_keys for message in outbox.take(100)] == [(), ()]


def test_a_segment_goes_when_all_targets_have_acknowledged_it(path, outbox):
    fill(outbox, 0, 6)
    deliver_all(outbox, "9-2")
    outbox.snapshot()
    for acks in ({0: "9-2", 1: "9-2"}, {0: "9-2", 1: "10-0", 2: "9-1"}):
        outbox.acknowledge(acks)
        assert outbox.size > 0
    outbox.acknowledge({0: "9-2", 1: "10-0", 2: "9-2"})
    assert outbox.size == 0
    # The last checkpoint names it.
    assert len(list(path.iterdir())) == 1
    outbox.forget()
    assert len(list(path.iterdir())) == 1
    saved = outbox.snapshot()
    outbox.forget()
    assert list(path.iterdir()) == []
    assert left_in(path, saved) == []


def test_notes_become_one_message_for_each_target(path, outbox):
    for number, host in enumerate(["b.test", "c.test", "b.test"], 1):
        outbox.note(1, "a.test", host, number)
    with file_size_limit(0):
        assert outbox.take(100) == []
    assert outbox.unsent
    ((*_, payload, names, _),) = outbox.take(100)
    assert decode(payload) == LinkedHosts({"a.test": ["b.test", "c.test"]})
    assert names == [3, 2]
    outbox.note(2, "a.test", "b.test", 4)
    assert len(left_in(path, outbox.snapshot())) == 2


def test_a_full_disk_takes_nothing_of_a_page(path, outbox):
    items = fill(outbox, 0, 2)
    with full_disk(0):
        outbox.append_all([(1, b"lost", ()), (2, b"lost", ())])
    items += fill(outbox, 2, 4)
    assert taken(outbox) == items
    assert left_in(path) == items


def test_damage_to_what_a_checkpoint_names_is_raised(path, outbox):
    fill(outbox, 0, 4)
    saved = outbox.snapshot()
    outbox.close()
    (file,) = path.iterdir()
    data = file.read_bytes()
    for at in range(8, len(data)):
        for harmed in (data[:at], flipped(data, at)):
            file.write_bytes(harmed)
            with pytest.raises(CorruptRecordError):
                taken(opened(path, saved))
    file.unlink()
    with pytest.raises(CorruptRecordError):
        opened(path, saved)


def test_a_snapshot_of_a_later_version_is_refused(tmp_path):
    with pytest.raises(NewerFormatError):
        opened(tmp_path, msgspec.msgpack.encode([2, 1, []]))
    with pytest.raises(CorruptRecordError):
        opened(tmp_path, b"none")


def _checkpoint(path, outbox):
    (path / "saved.tmp").write_bytes(outbox.snapshot())
    (path / "saved.tmp").rename(path / "saved")
    outbox.forget()


def _write_and_checkpoint(path):
    """What dies between any two lines, in a process of its own."""
    outbox = opened(path / "outbox", segment_bytes=100)
    fill(outbox, 0, 3)
    _checkpoint(path, outbox)
    fill(outbox, 3, 6)
    deliver_all(outbox)
    _checkpoint(path, outbox)
    outbox.acknowledge(FAR)
    _checkpoint(path, outbox)
    fill(outbox, 6, 8)


def test_a_process_killed_between_any_two_lines_loses_nothing(tmp_path):
    start, out = tmp_path / "start", tmp_path / "out"
    start.mkdir()
    out.mkdir()
    lefts = die_between_lines("tests.hive.bus.test_outbox:_write_and_checkpoint", start, out)
    items = [item(number) for number in range(8)]
    found = []
    for left in lefts:
        saved = left / "saved"
        found.append(left_in(left / "outbox", saved.read_bytes() if saved.exists() else None))
    # More and more of the first six, all of them, then none of them, then the last two.
    assert sorted({len(got) for got in found[: found.index(items[:6])]}) == [0, 1, 2, 3, 4, 5]
    for got in found:
        assert got in ([], items[6:7], items[6:]) or got == items[: len(got)]
    assert found[-1] == items[6:]
    assert len(lefts) > 15


class Model(RuleBasedStateMachine):
    """An outbox beside a list of what it was given."""

    def __init__(self):
        super().__init__()
        self.path = Path(os.environ["TMPDIR"]) / f"outbox-{random.randrange(1 << 60)}"
        self.saved = None
        self.prepared = None
        self.numbers = 0
        self.left = []  # not known to be acknowledged
        self.clock = 0
        self.acked = set()
        self.begin()

    def begin(self):
        self.outbox = opened(self.path, self.saved, segment_bytes=150, held_bytes=60)
        self.stored = {}
        self.rewind()

    @rule(count=st.integers(1, 4))
    def append(self, count):
        messages = [item(self.numbers + i) for i in range(count)]
        self.numbers += count
        self.outbox.append_all([(target, payload, ()) for target, payload in messages])
        self.left.extend(messages)
        self.expected.extend(messages)

    @rule(limit=st.integers(1, 200))
    def take(self, limit):
        got = self.outbox.take(limit)
        assert bool(got) == bool(self.expected)
        for message in got:
            assert (message.target, message.payload) == self.expected.popleft()
        self.under_way += got

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def deliver(self, data):
        count = data.draw(st.integers(1, len(self.under_way)))
        for message in self.under_way[:count]:
            self.clock += 1
            self.stored[message.payload] = f"{self.clock}-0"
            self.outbox.mark_delivered(message, f"{self.clock}-0")
        del self.under_way[:count]

    @rule(back=st.integers(0, 10))
    def acknowledge(self, back):
        at = f"{max(0, self.clock - back)}-0"
        for _, payload in self.left:
            if payload in self.stored and stream_id_key(self.stored[payload]) <= stream_id_key(at):
                self.acked.add(payload)
        self.outbox.acknowledge(dict.fromkeys(range(3), at))

    @rule()
    def prepare(self):
        self.prepared = self.outbox.snapshot()

    @precondition(lambda self: self.prepared)
    @rule()
    def publish(self):
        self.saved, self.prepared = self.prepared, None
        self.outbox.forget()

    @rule()
    def rewind(self):
        self.outbox.rewind()
        self.under_way = []
        found = taken(self.outbox)
        self.outbox.rewind()
        assert all(one in found or one[1] in self.acked for one in self.left)
        # *expected* are still to be taken.
        self.left, self.expected = found, deque(found)

    @rule()
    def crash(self):
        self.outbox.close()
        self.prepared = None
        self.begin()

    @invariant()
    def it_knows_whether_all_is_sent(self):
        assert (self.outbox.unsent == 0) == (not self.expected and not self.under_way)

    def teardown(self):
        self.outbox.close()
        shutil.rmtree(self.path)


TestModel = Model.TestCase
TestModel.settings = examples(100, stateful_step_count=40)
