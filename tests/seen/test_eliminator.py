"""Tests of the disk eliminator: each URL once, in first-seen order, whatever the worker does."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from contracts.eliminator import EliminatorContract
from disk import file_size_limit, flip
from seen_rig import (
    HeldExecutor,
    count_lines,
    damage_of,
    disk_eliminator,
    drain,
    names,
    publish,
    submit,
)
from text_tables import cases, each, lines

from webcrawl.seen import levels
from webcrawl.seen.caches.clock import ClockCache
from webcrawl.seen.eliminator import DiskEliminator
from webcrawl.seen.fingerprint import fingerprint, fingerprints
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError


@pytest.fixture
def worker():
    return HeldExecutor()


@pytest.fixture
def inline(opened, tmp_path):
    return opened(path=tmp_path / "seen")


@pytest.fixture
def cache():
    return ClockCache(size=4)


@pytest.fixture
def held(tmp_path, worker, cache):
    """Return an eliminator whose worker moves step by step."""
    made = DiskEliminator(
        path=tmp_path / "seen",
        executor=worker,
        cache=cache,
        buffer_size=8,
        log_file_bytes=10_000,
        tells_own=False,
    )
    made.open(None)
    yield made
    worker.run()
    made.close()


class TestContract(EliminatorContract):
    def make(self, path, executor=None):
        return disk_eliminator(path, executor)


class TestWorker:
    def test_is_full_while_both_buffers_are_full(self, held, worker):
        submit(held, names(8))
        assert not held.is_full
        submit(held, names(7, 8))
        assert not held.is_full
        submit(held, names(1, 15))
        assert held.is_full
        worker.step()
        held.take(7)
        assert held.is_full
        held.take(1)
        assert not held.is_full

    def test_a_full_t_is_merged_while_the_one_before_is_taken(self, held, worker):
        submit(held, names(8))
        submit(held, names(8, 8))  # the first T is T' now
        worker.step()
        held.take(1)
        assert held.is_full  # nobody submits
        assert len(worker) == 1
        worker.step()
        assert drain(held) == names(15, 1)

    def test_waiting_counts_buffer_merge_and_what_was_not_taken(self, held, cache, worker):
        submit(held, names(5))
        assert held.waiting == 5
        held.merge()
        cache.admit(range(1, 9))  # which makes it forget all others
        submit(held, names(5, 3))
        assert held.waiting == 10  # an upper bound: two are duplicates
        worker.step()
        held.take(2)
        assert held.waiting == 8
        held.merge()  # begins the merge of the second page
        worker.step()
        held.take(2)
        assert held.waiting == 1 + 3
        assert len(held.take(9)) + len(held.take(9)) == 4
        assert held.waiting == 0

    def test_on_merged_is_called_when_work_has_ended(self, held, worker):
        calls = []
        held.on_merged = lambda: calls.append(held.merging)
        submit(held, names(3))
        held.merge()
        assert calls == []
        worker.step()
        assert calls == [True]  # not installed yet: that is for the owner's thread
        held.take(1)
        assert not held.merging

    def test_a_merge_does_not_wait_for_a_compaction_to_end(self, opened, worker, monkeypatch):
        monkeypatch.setattr(levels, "_MERGED_BLOCKS", 1)  # many small steps
        seconds = iter(range(10**6))  # each of which takes a second
        eliminator = opened(
            disk_eliminator,
            worker,
            buffer_size=4000,
            log_file_bytes=1 << 20,
            clock=lambda: float(next(seconds)),
        )
        for page in range(4):
            submit(eliminator, names(4000, 4000 * page))
            eliminator.merge()
            worker.step()
            eliminator.take(4000)
        eliminator.take(1)
        assert len(worker) == 1  # the compaction
        submit(eliminator, ["urgent"])
        eliminator.merge()
        worker.step()
        assert eliminator.take(9) == []
        worker.step()
        assert eliminator.take(9) == [b"urgent"]
        assert eliminator.stats()["seen/compact/count"] == 0
        while worker.step():
            eliminator.take(1)
        assert eliminator.stats()["seen/compact/count"] == 1
        assert damage_of(eliminator) == []


class TestAdd:
    def test_certainly_seen_looks_into_cache_and_buffers_only(self, held, cache, worker):
        submit(held, names(6))
        assert all(held.certainly_seen(fp) for fp in fingerprints(names(6)))
        held.merge()
        assert all(held.certainly_seen(fp) for fp in fingerprints(names(6)))
        worker.step()
        held.take(9)
        cache.admit(range(1, 9))  # which makes it forget all others
        assert not held.certainly_seen(fingerprint(names(1)[0]))
        assert not held.certainly_seen(fingerprint("never"))


class TestTrouble:
    def test_a_merge_stopped_by_a_full_disk_is_raised_once_and_tried_again(self, held, worker):
        submit(held, names(5))
        held.merge()
        with file_size_limit(300):
            worker.step()
        with pytest.raises(OSError, match="large"):
            held.take(10)
        assert held.waiting == 5
        assert held.merging
        held.take(10)  # begins it again
        worker.step()
        assert len(held.take(10)) == 5
        assert damage_of(held) == []

    def test_a_compaction_stopped_by_a_full_disk_loses_nothing(self, held, worker):
        for page in range(4):
            submit(held, names(8, 8 * page))
            held.merge()
            worker.step()
            held.take(99)
        held.take(1)
        with file_size_limit(300):
            worker.step()
        with pytest.raises(OSError, match="large"):
            held.take(1)
        held.take(1)
        worker.step()
        held.take(1)
        assert held.stats()["seen/compact/count"] == 1
        assert damage_of(held) == []

    def test_a_damaged_run_is_raised_with_path_and_offset(self, opened, tmp_path):
        eliminator = opened(buffer_size=50_000, log_file_bytes=1 << 20)
        submit(eliminator, names(40_000))
        drain(eliminator, limit=50_000)
        run = next(tmp_path.glob("*.run"))
        flip(run, 4096 + 8 * 3000)
        submit(eliminator, names(40_000, 1))
        with pytest.raises(CorruptRecordError, match=run.name) as caught:
            drain(eliminator, limit=50_000)
        assert (caught.value.path, caught.value.offset) == (run, 4096 + 2 * 8192)
        assert "checksum mismatch in the block" in damage_of(eliminator)[0]

    def test_close_logs_a_merge_that_failed(self, opened, caplog):
        worker = HeldExecutor()
        eliminator = opened(disk_eliminator, worker)
        submit(eliminator, names(5))
        eliminator.merge()
        with file_size_limit(300):
            worker.step()
        eliminator.close()
        assert "it is repeated when the crawl resumes" in caplog.text


class TestSnapshots:
    @each(
        "snapshots error sentence",
        (
            [b"", b"\xc1", b"\x90", b"\x92\xa4disk\x01"],
            CorruptRecordError,
            "unreadable snapshot",
        ),
        ([b"\x92\xa4disk\x03"], NewerFormatError, "use the newer webcrawl"),
        ([b"\x92\xa5Bloom\x01"], CorruptRecordError, "state of a Bloom eliminator"),
    )
    def test_a_snapshot_that_cannot_be_used_is_one_clear_sentence(
        self, tmp_path, snapshots, error, sentence
    ):
        for snapshot in snapshots:
            with pytest.raises(error, match=sentence):
                disk_eliminator(tmp_path).open(snapshot)

    def test_a_snapshot_is_small_however_many_urls_there_are(self, opened):
        eliminator = opened(buffer_size=500, log_file_bytes=10_000)
        sizes = []
        for page in range(100):
            submit(eliminator, names(100, 100 * page))
            eliminator.merge()
            eliminator.take(10_000)
            sizes.append(len(publish(eliminator)))
        assert max(sizes) < 200

    def test_the_files_of_the_snapshot_are_written_and_named(self, opened, tmp_path):
        names_of = [tmp_path / name for name in ("shards/00/seen", "shards/00", "shards", "")]
        path = names_of[0]
        eliminator = opened(path=path)
        submit(eliminator, names(5))
        drain(eliminator)
        submit(eliminator, names(5, 5))
        eliminator.snapshot()
        log = path / "discovered-000001.log"
        assert set(eliminator.written()) == {path / "000001.run", log, *names_of}
        eliminator.forget()
        eliminator.snapshot()
        assert set(eliminator.written()) == {path, log}


class TestStats:
    def test_stats_count_submissions_hits_merges_and_entries(self, inline):
        submit(inline, names(6))
        submit(inline, names(6))
        drain(inline)
        submit(inline, names(2, 10))
        inline.add(fingerprint("added"))
        stats = inline.stats()
        assert stats.keys() >= {"seen/merge/seconds", "seen/compact/seconds"}
        assert count_lines(stats) == lines("""
            seen/buffer/entries 3
            seen/buffer/hits 2
            seen/bytes 12304
            seen/cache/hits 4
            seen/compact/count 0
            seen/fingerprints 6
            seen/merge/count 1
            seen/merge/entries 6
            seen/new 6
            seen/runs 1
            seen/submitted 15
            seen/waiting 2
        """)

    def test_last_merge_secs_is_the_time_of_the_last_merge(self, opened):
        seconds = iter(range(100))
        eliminator = opened(clock=lambda: float(next(seconds)))
        assert eliminator.last_merge_secs == 0.0
        submit(eliminator, names(3))
        drain(eliminator)
        # Sorting, looking up and writing take a second each.
        assert eliminator.last_merge_secs == 3.0
        assert eliminator.stats()["seen/merge/seconds"] == 3.0

    def test_a_large_merge_is_logged_with_its_phases(self, opened, caplog):
        caplog.set_level("INFO")
        eliminator = opened(buffer_size=70_000, log_file_bytes=1 << 30)
        for _ in range(2):
            submit(eliminator, names(66_000))
            drain(eliminator, limit=100_000)
        lines = [record.getMessage() for record in caplog.records]
        assert len(lines) == 2
        assert lines[1].startswith(
            "Merged 65996 recent URLs with 66000 known ones (sorted runs: 1), 0 new; sorting"
        )


def test_a_flood_of_one_time_urls_does_not_wash_popular_ones_out_of_the_cache(opened):
    eliminator = opened(cache_size=50, buffer_size=10_000)
    popular = names(20)
    for page in range(100):
        submit(eliminator, popular + names(30, 1000 + 30 * page))
    assert eliminator.stats()["seen/cache/hits"] > 90 * 20


def test_close_works_after_the_executor_was_shut_down(opened, tmp_path):
    """The scheduler ends like this: no more work, wait for the worker, close the parts."""
    executor = ThreadPoolExecutor(max_workers=1)
    eliminator = opened(disk_eliminator, executor)
    out = 0
    while eliminator.stats()["seen/runs"] < 3:
        submit(eliminator, names(8, out))
        eliminator.merge()
        while eliminator.waiting:
            out += len(eliminator.take(99))
    # The next one fills the level; its compaction has not been taken up when the worker ends.
    submit(eliminator, names(8, out))
    eliminator.merge()
    while eliminator.waiting:
        eliminator.take(99)
    eliminator.take(1)
    executor.shutdown()
    eliminator.close()
    assert len(list(tmp_path.glob("*.run"))) == 5  # four of them to be deleted with a checkpoint


class TestOwn:
    """URLs that other domains have named are let through once more when their own domain does."""

    @pytest.fixture
    def eliminator(self, tmp_path):
        made = disk_eliminator(tmp_path / "seen", tells_own=True)
        made.open(None)
        yield made
        made.close()

    def take(self, eliminator):
        eliminator.merge()
        return drain(eliminator)

    def submit(self, eliminator, text):
        """Submit the words of *text*; those in upper case are foreign."""
        names = text.split()
        fps = fingerprints([name.lower() for name in names])
        flags = [name.isupper() for name in names]
        eliminator.submit(fps, lambda index: names[index].encode(), flags)

    @cases(
        "steps",
        """
        # Each step: what is submitted > what is new. A name in upper case is foreign.
        A a > a
        a A > a
        A > A , a > a , A a > -
        a > a , A > - , a > -
        A b > A b , B a > a , A B a b > -
        A B C D E F G H I J > A B C D E F G H I J , c j K > c j K , C J c j k > k
        """,
    )
    def test_a_url_is_new_once_for_others_and_once_for_its_own_domain(self, eliminator, steps):
        for step in steps.split(" , "):
            submitted, _, new = step.partition(" > ")
            self.submit(eliminator, submitted)
            assert self.take(eliminator) == new.replace("-", "").split()

    def test_a_foreign_url_that_is_finished_is_not_new_for_its_own_domain(self, eliminator):
        self.submit(eliminator, "A")
        assert self.take(eliminator) == ["A"]
        fp = fingerprint("a")
        assert not eliminator.is_own(fp)
        assert eliminator.knows(fp)
        eliminator.note_finished(fp)
        self.submit(eliminator, "a b")
        assert self.take(eliminator) == ["b"]
        self.submit(eliminator, "a b A")
        assert self.take(eliminator) == []
        assert not eliminator.is_own(fp)

    def test_what_the_set_tells_survives_a_restart_and_older_sets_tell_nothing(self, tmp_path):
        for name, tells in (("new", True), ("old", False)):
            made = disk_eliminator(tmp_path / name, tells_own=tells)
            made.open(None)
            self.submit(made, "A")
            self.take(made)
            snapshot = publish(made)
            made.close()
            again = disk_eliminator(tmp_path / name, tells_own=not tells)
            again.open(snapshot)
            self.submit(again, "a")
            assert again.tells_own is tells
            assert self.take(again) == ["a"] * tells
            again.close()
