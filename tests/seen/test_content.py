"""Tests of the content-seen test: exact, and without documents in process at a crash."""

import logging
import shutil
import tempfile
from pathlib import Path

import msgspec
import pytest
from disk import file_size_limit
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from seen_rig import HeldExecutor, InlineExecutor, as_found_after_a_kill, count_lines, damage_of
from strategies import examples
from text_tables import each, lines

from webcrawl.seen.content import ContentSeen
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError


@pytest.fixture
def worker():
    return HeldExecutor()


def opened(tmp_path, executor):
    made = ContentSeen(path=tmp_path / "content", executor=executor, buffer_size=10)
    made.open(None)
    yield made
    executor.run()
    assert damage_of(made) == []
    made.close()


@pytest.fixture
def content(tmp_path):
    yield from opened(tmp_path, InlineExecutor())


@pytest.fixture
def held(tmp_path, worker):
    yield from opened(tmp_path, worker)


def process(content, *fps):
    for fp in fps:
        content.test(fp)
        content.commit(fp)


def test_a_spill_goes_between_the_slices_of_a_compaction(held, worker):
    for first in range(1, 41, 10):
        process(held, *range(first, first + 10))
        worker.step()
        held.test(first)
    assert len(worker) == 1  # the compaction of the four runs
    process(held, *range(41, 52))
    while worker.step():
        held.test(1)
    assert held.stats()["content/compact/count"] == 1
    assert held.stats()["content/runs"] == 2


def test_a_full_disk_costs_memory_and_is_logged_once(held, worker, caplog):
    caplog.set_level(logging.ERROR)
    with file_size_limit(300):
        process(held, *range(1, 11))
        worker.step()
        process(held, *range(11, 30))  # a spill is due again after as many more
        worker.step()
        process(held, 30)
    assert held.stats()["content/spill/failed"] == 2
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "File too large" in caplog.text
    assert all(held.test(fp) for fp in range(1, 31))
    process(held, *range(31, 60))
    while worker.step():
        held.test(1)
    assert held.stats()["content/spill/count"] >= 1
    assert all(held.test(fp) for fp in range(1, 60))


def test_close_logs_a_spill_that_failed(held, worker, caplog):
    process(held, *range(1, 11))
    with file_size_limit(300):
        worker.step()
    held.close()
    assert "the next checkpoint includes it" in caplog.text


def test_stats_are_all_of_these(content):
    process(content, *range(1, 12))
    content.test(1)
    content.test(50)
    stats = content.stats()
    assert stats.keys() >= {"content/spill/seconds", "content/compact/seconds"}
    assert count_lines(stats) == lines("""
        content/bytes 12304
        content/compact/count 0
        content/duplicates 1
        content/fingerprints 11
        content/in_process 1
        content/runs 1
        content/spill/count 1
        content/spill/failed 0
        content/tested 13
    """)


@each(
    "snapshot error",
    (b"\xc1", CorruptRecordError),
    (b"\x92\xa4disk\x01", CorruptRecordError),
    (b"\x92\xa7content\x09", NewerFormatError),
    (msgspec.msgpack.encode(("content", 1, [(7, 3)], b"")), CorruptRecordError),
)
def test_a_snapshot_that_cannot_be_used_is_reported(tmp_path, snapshot, error):
    with pytest.raises(error):
        ContentSeen(path=tmp_path, executor=InlineExecutor()).open(snapshot)


class ContentMachine(RuleBasedStateMachine):
    """Model: a set of committed and a set of in-process documents, with crashes."""

    @initialize()
    def begin(self):
        self.root = Path(tempfile.mkdtemp(prefix="content-model-"))
        self.lives = 0
        self.committed, self.in_process = set(), set()
        self.log = []  # the frontier's: what was committed since the published snapshot
        self.published = self.unpublished = None
        self.path = self.root / "0"
        self.start()

    def start(self):
        self.worker = HeldExecutor()
        self.content = ContentSeen(path=self.path, executor=self.worker, buffer_size=5)
        self.content.open(self.published)
        for fp in self.log:
            self.content.commit(fp)

    @rule(fp=st.integers(1, 80))
    def test(self, fp):
        assert self.content.test(fp) == (fp in self.committed or fp in self.in_process)
        if fp not in self.committed:
            self.in_process.add(fp)

    @precondition(lambda self: self.in_process)
    @rule(count=st.integers(1, 9))
    def commit(self, count):
        for fp in sorted(self.in_process)[:count]:
            self.in_process.discard(fp)
            self.committed.add(fp)
            self.log.append(fp)
            self.content.commit(fp)

    @precondition(lambda self: self.in_process)
    @rule()
    def discard(self):
        self.content.discard(self.in_process.pop())

    @precondition(lambda self: len(self.worker))
    @rule()
    def let_the_worker_do_one_thing(self):
        self.worker.step()

    @rule()
    def take_a_snapshot(self):
        self.unpublished = self.content.snapshot()
        self.logged = len(self.log)

    @precondition(lambda self: self.unpublished is not None)
    @rule()
    def publish(self):
        self.published, self.unpublished = self.unpublished, None
        del self.log[: self.logged]
        self.content.forget()

    @rule()
    def die_and_come_back(self):
        self.lives += 1
        copy = as_found_after_a_kill(self.path, self.root / str(self.lives))
        self.stop()
        self.path, self.unpublished = copy, None
        self.in_process.clear()
        self.start()

    def stop(self):
        self.worker.run()
        self.content.close()

    def teardown(self):
        self.in_process.clear()
        self.die_and_come_back()
        self.content.test(1000)
        while self.worker.step():
            self.content.test(1000)
        assert damage_of(self.content) == []
        assert {fp for fp in range(1, 81) if self.content.test(fp)} == self.committed
        self.stop()
        shutil.rmtree(self.root)


TestContentModel = ContentMachine.TestCase
TestContentModel.settings = examples(25, stateful_step_count=60)
