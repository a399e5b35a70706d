"""Tests of the Bloom eliminator: fast answers, some loss, and the loss measured."""

import msgspec
import numpy as np
import pytest
from contracts.eliminator import EliminatorContract
from disk import file_size_limit, flip, flipped
from pybloom_live import BloomFilter
from seen_rig import (
    HeldExecutor,
    InlineExecutor,
    bloom_eliminator,
    count_lines,
    damage_of,
    drain,
    names,
    publish,
    submit,
)
from text_tables import lines

from webcrawl.seen import BloomEliminator
from webcrawl.seen.bloom import SAMPLE, LossMeter, error_rate
from webcrawl.seen.bloom_file import HEADER, SavedFilter, read_filter, write_filter
from webcrawl.seen.drain import Cursor
from webcrawl.seen.fingerprint import fingerprints
from webcrawl.seen.snapshots import VERSION, BloomSnapshot
from webcrawl.seen.url_log import Span
from webcrawl.storage.record_log import HEADER_SIZE, CorruptRecordError, NewerFormatError


@pytest.fixture
def inline(opened, tmp_path):
    return opened(bloom_eliminator, path=tmp_path / "seen")


class TestContract(EliminatorContract):
    def make(self, path, executor=None):
        return bloom_eliminator(path, executor)


def test_new_urls_come_out_of_the_bloom_eliminator_without_a_merge(inline):
    submit(inline, names(5))
    assert inline.take(9) == [url.encode() for url in names(5)]


def test_an_old_filter_is_deleted_when_no_snapshot_needs_it(opened, tmp_path):
    eliminator = opened(bloom_eliminator)
    for first in range(0, 300, 10):
        submit(eliminator, names(10, first))
        drain(eliminator)
        publish(eliminator)
    publish(eliminator)
    assert len(list(tmp_path.glob("*.bloom"))) == 1


def test_a_snapshot_with_the_cursor_in_the_file_being_written_opens(opened, tmp_path):
    """Earlier versions wrote such snapshots: the cursor can be in any record."""
    eliminator = opened(bloom_eliminator, log_file_bytes=10_000)
    submit(eliminator, names(3))
    active = Span(1, HEADER_SIZE, (tmp_path / "discovered-000001.log").stat().st_size)
    eliminator.close()
    taken = (1, Cursor(HEADER_SIZE, 0, 2))
    found = bloom_eliminator(tmp_path)
    state = BloomSnapshot(VERSION, 0, (1, HEADER_SIZE), taken, [active])
    found.open(msgspec.msgpack.encode(state))
    assert drain(found) == names(1, 2)
    assert submit(found, names(4)) == 1
    found.close()


def test_a_save_that_fails_is_raised_once_and_the_next_one_succeeds(opened, tmp_path):
    worker = HeldExecutor()
    eliminator = opened(bloom_eliminator, worker, log_file_bytes=10_000)
    submit(eliminator, names(30))
    eliminator.snapshot()
    with file_size_limit(40):
        worker.step()
    with pytest.raises(OSError, match="large"):
        eliminator.take(5)
    assert list(tmp_path.glob("*.bloom")) == []
    eliminator.snapshot()
    worker.step()
    assert len(eliminator.take(50)) == 30
    assert eliminator.stats()["seen/bloom/saves"] == 1
    eliminator.snapshot()
    with file_size_limit(40):
        submit(eliminator, [])


def test_close_logs_a_save_that_failed(opened, caplog):
    worker = HeldExecutor()
    eliminator = opened(bloom_eliminator, worker, log_file_bytes=10_000)
    submit(eliminator, names(30))
    eliminator.snapshot()
    with file_size_limit(40):
        worker.step()
    eliminator.close()
    assert "its missing URLs are still in the URL log" in caplog.text


def test_submitting_goes_on_while_the_filter_is_saved(opened, tmp_path):
    worker = HeldExecutor()
    eliminator = opened(bloom_eliminator, worker, path=tmp_path / "seen", log_file_bytes=10_000)
    submit(eliminator, names(30))
    eliminator.snapshot()
    submit(eliminator, names(30, 20))  # grows it, too
    worker.step()
    saved = eliminator.snapshot()
    assert (tmp_path / "seen" / "filter-000001.bloom") in eliminator.written()
    eliminator.forget()
    worker.run()
    eliminator.close()
    found = opened(bloom_eliminator, path=tmp_path / "seen", snapshot=saved)
    assert drain(found) == names(50)
    assert submit(found, names(50)) == 0
    assert damage_of(found) == []


def test_stats_are_all_of_these(inline):
    submit(inline, names(10))
    submit(inline, names(10))
    stats = inline.stats()
    assert stats.pop("seen/bytes") > 100
    assert stats.pop("seen/bloom/error_rate") < 1e-9
    assert stats.pop("seen/bloom/expected_loss") < 1e-6
    assert "seen/bloom/save_seconds" in stats
    assert count_lines(stats) == lines("""
        seen/bloom/capacity 100
        seen/bloom/filters 1
        seen/bloom/measured_loss 0
        seen/bloom/saves 0
        seen/fingerprints 10
        seen/new 10
        seen/submitted 20
        seen/waiting 10
    """)


def lossy(path, **more):
    return BloomEliminator(path=path, executor=InlineExecutor(), **{"error_rate": 0.1} | more)


class TestLoss:
    def test_expected_and_measured_agree_with_the_truth(self, opened):
        """The error rate is a tenth, and all fingerprints are in the sample."""
        eliminator = opened(lossy, capacity=3000, log_file_bytes=1 << 20)
        rng = np.random.default_rng(1)
        fps = (rng.integers(1, 1 << 50, 6000, dtype=np.uint64) * np.uint64(SAMPLE)).tolist()
        passed = 0
        for start in range(0, len(fps), 40):
            passed += eliminator.submit(fps[start : start + 40], lambda i: b"x")
        lost = len(fps) - passed
        stats = eliminator.stats()
        assert lost > 100
        # Each loss in the sample stands for 1,024; here everything is in the sample.
        assert stats["seen/bloom/measured_loss"] == lost * SAMPLE
        assert 0.8 * lost < stats["seen/bloom/expected_loss"] < 1.25 * lost
        for start in range(0, len(fps), 40):  # met again, a lost one is not lost again
            assert eliminator.submit(fps[start : start + 40], lambda i: b"x") == 0
        assert eliminator.stats()["seen/bloom/measured_loss"] == lost * SAMPLE
        assert not eliminator.add(fps[0])

    def test_a_filter_that_grows_keeps_its_error_rate(self, opened, caplog):
        eliminator = opened(lossy, capacity=500, save_after=0)
        rng = np.random.default_rng(3)
        for _ in range(500):
            eliminator.submit(rng.integers(1, 1 << 62, 40).tolist(), lambda i: b"")
        stats = eliminator.stats()
        assert stats["seen/bloom/filters"] > 5
        assert stats["seen/bloom/error_rate"] < 0.1
        assert stats["seen/bloom/expected_loss"] < 0.1 * 20_000
        eliminator.snapshot()
        saved = publish(eliminator)
        for rate, says in ((0.1, 0), (0.05, 1)):
            opened(lossy, snapshot=saved, capacity=500, error_rate=rate)
            assert caplog.text.count("more than SEEN_BLOOM_ERROR_RATE") == says

    def test_losses_outlive_the_process(self, opened):
        eliminator = opened(lossy, capacity=50, error_rate=0.2, save_after=0)
        for start in range(1, 4000, 40):
            eliminator.submit([fp * SAMPLE for fp in range(start, start + 40)], lambda i: b"")
        eliminator.snapshot()
        saved = publish(eliminator)
        stats = eliminator.stats()
        again = opened(lossy, snapshot=saved, capacity=50, error_rate=0.2).stats()
        for name in ("measured_loss", "expected_loss", "filters", "capacity"):
            assert again[f"seen/bloom/{name}"] == stats[f"seen/bloom/{name}"] > 0

    def test_error_rate_is_that_of_an_experiment(self):
        rng = np.random.default_rng(2)
        filters = [BloomFilter(2000, 0.05), BloomFilter(4000, 0.05)]
        for held, count in zip(filters, (2000, 1500), strict=True):
            for fp in rng.integers(0, 1 << 62, count).tolist():
                held.add(fp, skip_check=True)
        probes = rng.integers(1 << 62, 1 << 63, 20_000).tolist()
        hits = sum(any(probe in held for held in filters) for probe in probes)
        assert 0.8 * hits < error_rate(filters) * len(probes) < 1.2 * hits

    def test_an_empty_filter_makes_no_error(self):
        assert error_rate([]) == 0.0
        meter = LossMeter()
        meter.record_new([SAMPLE, 2 * SAMPLE, 3], [])
        meter.record_seen(SAMPLE)
        meter.record_seen(5)
        assert (meter.expected, meter.measured, sorted(meter.sample())) == (0.0, 0, [1024, 2048])


class TestFile:
    @pytest.fixture
    def saved(self):
        filters = [BloomFilter(50, 0.01), BloomFilter(100, 0.01)]
        for fp in fingerprints(names(60)):
            filters[fp % 2].add(fp)
        sample = LossMeter(sample=[1024, 2048]).sample()
        return SavedFilter(filters, sample, lost=3, expected=2.5)

    def test_every_flipped_bit_and_every_cut_is_found(self, tmp_path, saved):
        path = tmp_path / "a"
        write_filter(path, saved)
        good = path.read_bytes()
        for at in range(len(good)):
            path.write_bytes(flipped(good, at, 64))
            with pytest.raises((CorruptRecordError, NewerFormatError), match=str(path)):
                read_filter(path)
            path.write_bytes(good[:at])
            with pytest.raises(CorruptRecordError):
                read_filter(path)

    def test_a_later_version_is_refused(self, tmp_path, saved):
        path = tmp_path / "a"
        write_filter(path, saved)
        flip(path, 4, 1 ^ 2)
        with pytest.raises(NewerFormatError, match="use the newer webcrawl"):
            read_filter(path)

    def test_a_missing_file_and_an_unfinished_one(self, tmp_path):
        with pytest.raises(CorruptRecordError, match="missing"):
            read_filter(tmp_path / "a")
        (tmp_path / "a").write_bytes(bytes(HEADER.size + 100))
        with pytest.raises(CorruptRecordError, match="not a filter header"):
            read_filter(tmp_path / "a")
