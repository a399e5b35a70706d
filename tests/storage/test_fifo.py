"""DiskFifo: order, files, damage, a full disk, and a state machine."""

import os
import shutil
import tempfile
from collections import deque
from pathlib import Path

import msgspec
import pytest
from disk import drain, file_size_limit, item
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from strategies import examples
from text_tables import each

from webcrawl.storage import fifo as module
from webcrawl.storage.fifo import DiskFifo, FifoSnapshot
from webcrawl.storage.record_log import (
    FRAME,
    HEADER_SIZE,
    CorruptRecordError,
    RecordLog,
    compress,
    pack_many,
)


def segment_bytes(frames, chunk):
    """The setting that makes a segment of *frames* frames of *chunk* items of ``item()``."""
    frame = FRAME.size + len(compress(pack_many(items(chunk)), module._LEVEL))
    return HEADER_SIZE + frames * frame - frame // 2


def opened(path, snapshot=None, **settings):
    queue = DiskFifo(path=path, **settings)
    queue.open(snapshot)
    return queue


def through_msgpack(snapshot):
    """As it comes back from a checkpoint."""
    if snapshot is None:
        return None
    return msgspec.msgpack.decode(msgspec.msgpack.encode(snapshot), type=FifoSnapshot)


def open_files(path):
    """The descriptors of this process that lead into *path*."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            target = str(link.readlink())
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
        if target.startswith(str(path)):
            found.append(target)
    return found


def items(*bounds):
    return [*map(item, range(*bounds))]


# The files


def names(path):
    return sorted(file.name for file in path.iterdir())


def test_a_short_queue_never_touches_the_disk(tmp_path):
    queue = opened(tmp_path / "queue", chunk_items=4)
    for n in range(50):
        queue.push(item(n))
        if n >= 3:
            assert queue.pop() == item(n - 3)
    assert not queue.path.exists()
    assert queue.written() == []
    reopened = opened(tmp_path / "queue", queue.snapshot(), chunk_items=4)
    assert drain(reopened) == [item(47), item(48), item(49)]


def test_only_head_and_tail_are_in_memory(tmp_path):
    queue = opened(tmp_path / "queue", chunk_items=4)
    queue.push_many(items(1000))
    snapshot = queue.snapshot()
    assert len(snapshot.head) + len(snapshot.tail) == 4
    assert (snapshot.overflow, len(queue)) == (1000 - 4, 1000)


def test_segments_that_were_read_to_their_end_go_with_the_next_checkpoint(tmp_path):
    queue = opened(tmp_path / "queue", chunk_items=1, segment_bytes=1)
    queue.push_many(items(6))
    assert names(queue.path) == [f"0000000{n}.log" for n in range(5)]
    for _ in range(4):
        queue.pop()
    queue.forget()  # of a checkpoint from before the pops
    assert names(queue.path) == [f"0000000{n}.log" for n in range(5)]
    queue.snapshot()
    queue.forget()
    assert names(queue.path) == ["00000002.log", "00000003.log", "00000004.log"]
    assert drain(queue) == [item(4), item(5)]


def test_files_that_the_snapshot_does_not_name_are_deleted_by_open(tmp_path):
    queue = opened(tmp_path / "queue", chunk_items=1, segment_bytes=1)
    queue.push_many(items(5))
    saved = queue.snapshot()
    queue.push_many(items(5, 9))
    (queue.path / "00000077.log").write_bytes(b"of another time")
    reopened = opened(queue.path, saved, chunk_items=1, segment_bytes=1)
    assert names(queue.path) == [f"0000000{n}.log" for n in range(4)]
    assert drain(reopened) == items(5)


def test_a_queue_saved_with_nothing_on_disk_needs_no_file_and_keeps_none(tmp_path):
    queue = opened(tmp_path / "queue", chunk_items=2)
    queue.push_many(items(9))
    drain(queue)
    queue.push(b"waits")
    saved = queue.snapshot()
    assert names(queue.path) == ["00000000.log"]
    assert list(opened(queue.path, saved, chunk_items=2).path.iterdir()) == []
    shutil.rmtree(queue.path)
    reopened = opened(queue.path, saved, chunk_items=2)
    reopened.push_many(items(9))
    assert drain(reopened) == [b"waits", *items(9)]


def test_written_names_each_new_file_and_directory_once(tmp_path):
    queue = opened(tmp_path / "level" / "queue", chunk_items=1, segment_bytes=1)
    queue.push_many(items(3))
    logs = [queue.path / f"0000000{n}.log" for n in range(3)]
    assert sorted(queue.written()) == [tmp_path, tmp_path / "level", queue.path, *logs[:2]]
    assert queue.written() == []
    queue.push(b"new segment")
    # The old segment too: it got its end record.
    assert sorted(queue.written()) == [queue.path, *logs[1:]]


# Damage


@pytest.fixture
def saved(tmp_path):
    """Nine items in four segments of two frames of one item; the first is in memory."""
    queue = opened(tmp_path / "queue", chunk_items=1, segment_bytes=segment_bytes(2, 1))
    queue.push_many(items(9))
    assert len(names(queue.path)) == 4
    return queue.path, queue.snapshot()


def test_a_missing_segment_is_found_by_open(saved):
    path, snapshot = saved
    (path / "00000002.log").unlink()
    with pytest.raises(CorruptRecordError, match="the segment is gone") as caught:
        opened(path, snapshot)
    assert caught.value.path == path / "00000002.log"


def test_a_last_segment_that_is_too_short_is_found_by_open(saved):
    path, snapshot = saved
    last = path / "00000003.log"
    for size in range(last.stat().st_size - 1, -1, -1):
        os.truncate(last, size)
        with pytest.raises(CorruptRecordError, match=f"{snapshot.tail_offset} bytes expected"):
            opened(path, snapshot)


@each("bad", b"not packed", b"\x78\x01 not compressed")
def test_a_frame_that_holds_no_packed_items_is_damage(tmp_path, bad):
    (tmp_path / "queue").mkdir()
    path = tmp_path / "queue" / "00000000.log"
    with RecordLog.open(path) as log:
        log.append(pack_many([b"good"]))
        good = log.size
        log.append(bad)
    snapshot = FifoSnapshot([], [], 0, HEADER_SIZE, 0, path.stat().st_size, 2)
    queue = opened(tmp_path / "queue", snapshot)
    assert queue.pop() == b"good"
    with pytest.raises(CorruptRecordError, match="not packed items") as caught:
        queue.pop()
    assert (caught.value.path, caught.value.offset) == (path, good)


def test_a_snapshot_that_promises_more_items_than_there_are_is_noticed(saved):
    path, snapshot = saved
    queue = opened(
        path, msgspec.structs.replace(snapshot, overflow=snapshot.overflow + 1), chunk_items=1
    )
    assert [queue.pop() for _ in range(9)] == items(9)
    with pytest.raises(CorruptRecordError):
        queue.pop()


# A full disk


def test_a_full_disk_loses_no_item_and_the_queue_resumes_with_room(tmp_path):
    queue = opened(tmp_path / "queue", chunk_items=2, segment_bytes=segment_bytes(2, 2))
    queue.push_many(items(4))
    number = 4
    for limit in range(0, 400, 23):
        with file_size_limit(limit):
            for _ in range(4):
                try:
                    queue.push(item(number))
                except OSError:
                    assert limit < 330
                number += 1
        assert len(queue) == number
        queue = opened(queue.path, through_msgpack(queue.snapshot()), chunk_items=2,
                       segment_bytes=segment_bytes(2, 2))  # fmt: skip
    assert drain(queue) == items(number)


# Against a deque


class FifoMachine(RuleBasedStateMachine):
    """Any sequence of calls, checkpoints and crashes gives what a deque gives that is copied at
    each checkpoint and put back at each crash."""

    @initialize(chunk=st.integers(1, 4), segment=st.sampled_from([1, 200, 400, 1 << 20]))
    def begin(self, chunk, segment):
        self.directory = Path(tempfile.mkdtemp(prefix="fifo-"))
        self.settings = {"chunk_items": chunk, "segment_bytes": segment}
        self.queue = opened(self.directory / "queue", **self.settings)
        self.model = deque()
        self.published = (None, [])
        self.prepared = None

    @rule(new=st.binary(max_size=20))
    def push(self, new):
        self.queue.push(new)
        self.model.append(new)

    @rule(new=st.lists(st.binary(max_size=9), max_size=12))
    def push_many(self, new):
        self.queue.push_many(new)
        self.model.extend(new)

    @rule(times=st.integers(1, 12))
    def pop(self, times):
        for _ in range(min(times, len(self.model))):
            assert self.queue.pop() == self.model.popleft()

    @precondition(lambda self: self.model)
    @rule()
    def put_back(self):
        self.queue.push_front(self.queue.pop())

    @rule()
    def prepare(self):
        self.prepared = self.queue.snapshot(), list(self.model)

    @precondition(lambda self: self.prepared)
    @rule()
    def publish(self):
        """Whatever happened since the snapshot was taken; the files are as they were then."""
        self.published, self.prepared = self.prepared, None
        self.queue.forget()

    @precondition(lambda self: self.prepared)
    @rule()
    def crash_between_publish_and_forget(self):
        self.published, self.prepared = self.prepared, None
        self.crash()

    @rule()
    def crash(self):
        snapshot, items = self.published
        self.queue = opened(self.directory / "queue", through_msgpack(snapshot), **self.settings)
        self.model = deque(items)
        self.prepared = None

    @invariant()
    def same_length(self):
        assert len(self.queue) == len(self.model)

    def teardown(self):
        if hasattr(self, "queue"):
            assert drain(self.queue) == list(self.model)
            assert open_files(self.directory) == []
            shutil.rmtree(self.directory)


TestFifoMachine = FifoMachine.TestCase
TestFifoMachine.settings = examples(60, stateful_step_count=40)


def test_many_segments_are_deleted_some_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_DELETED_BYTES", 4)
    queue = opened(tmp_path / "queue", chunk_items=1, segment_bytes=1)
    queue.push_many([b"x"] * 60)
    for _ in range(40):
        queue.pop()
    before = len(names(queue.path))
    kept = queue.snapshot()
    for call in range(1, 4):
        assert queue.forget()
        assert len(names(queue.path)) == before - 4 * call
    # What is left over goes when the queue is opened again.
    opened(queue.path, kept, chunk_items=1, segment_bytes=1)
    assert len(names(queue.path)) <= 20 + 1  # the one that was read last
