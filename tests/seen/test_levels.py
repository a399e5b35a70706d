"""Tests of levels: always few runs, and files deleted only when no snapshot needs them."""

import numpy as np
import pytest
from conftest import FakeClock
from hypothesis import given
from hypothesis import strategies as st
from seen_rig import HeldExecutor, InlineExecutor
from strategies import examples

from webcrawl.seen.background import Background
from webcrawl.seen.compaction import Compactor
from webcrawl.seen.levels import FAN_OUT, Levels, merge_runs
from webcrawl.seen.runs import write_run
from webcrawl.storage.record_log import CorruptRecordError

TOP = (1 << 64) - 1


def overlap(runs):
    """Return whether a fingerprint is in two of *runs*."""
    names = [name for chunk in merge_runs(runs) for name in chunk.tolist()]
    return len({*names}) < len(names)


@pytest.fixture
def levels(tmp_path):
    made = Levels(path=tmp_path)
    made.open([])
    yield made
    made.close()


def random_words(count, seed):
    return np.sort(np.random.default_rng(seed).integers(0, TOP, count, dtype=np.uint64))


def add(levels, *counts):
    for count in counts:
        path = levels.next_file()
        levels.add(write_run(path, [random_words(count, int(path.stem))]))


def files(path):
    return sorted(file.name for file in path.iterdir())


def compaction(levels, executor):
    background = Background(executor=executor)
    return Compactor(levels=levels, background=background, clock=FakeClock()), background


def compact(levels):
    compactor, background = compaction(levels, InlineExecutor())
    assert compactor.start(others_wait=False)
    background.settle()
    return levels.runs[0]


def test_merged_is_all_words_in_order(levels):
    add(levels, 5, 70_000, 1, 3000, 40_000)
    whole = np.concatenate(list(merge_runs(levels.runs)))
    every = np.concatenate([chunk for run in levels.runs for chunk in run.chunks(blocks=99)])
    assert np.array_equal(whole, np.sort(every))
    assert list(merge_runs([])) == []


def test_a_full_level_is_compacted_with_all_smaller_runs(levels):
    add(levels, 10, 600_000, *[60_000] * FAN_OUT, 20)
    assert [run.count for run in levels.crowded_runs()] == [10, *[60_000] * FAN_OUT, 20]


@examples(15)
@given(counts=st.lists(st.sampled_from([1, 50, 2000, 40_000, 90_000]), max_size=40))
def test_there_are_few_runs_and_all_words_whatever_comes(tmp_path_factory, counts):
    path = tmp_path_factory.mktemp("levels")
    levels = Levels(path=path)
    levels.open([])
    total = 0
    for count in counts:
        add(levels, count)
        total += levels.runs[-1].count
        while levels.crowded_runs():
            compact(levels)
        # Counts up to 3.6 million are five levels.
        assert len(levels.runs) <= 5 * (FAN_OUT - 1)
        assert sum(run.count for run in levels.runs) == total
    assert not overlap(levels.runs)
    levels.close()


def test_a_replaced_run_is_kept_until_a_snapshot_without_it_is_published(levels):
    add(levels, *[10] * FAN_OUT)
    old = [run.path for run in levels.runs]
    named = levels.snapshot()
    assert [number for number, _ in named] == [1, 2, 3, 4]
    assert levels.written() == old
    levels.forget()
    new = compact(levels)
    assert levels.forget() == []  # publication of the snapshot that names the old ones
    assert levels.snapshot() == [(5, new.count)]
    assert levels.written() == [new.path]
    assert levels.forget() == old
    assert levels.written() == []


def test_what_an_unpublished_snapshot_named_must_still_be_synced_for_the_next(levels):
    add(levels, 10)
    levels.snapshot()
    add(levels, 20)
    levels.snapshot()
    assert levels.written() == [run.path for run in levels.runs]
    levels.forget()
    levels.snapshot()
    assert levels.written() == []


def test_open_deletes_unnamed_runs_and_numbers_continue(levels, tmp_path):
    add(levels, 10, 20, 30)
    named = levels.snapshot()[:2]
    levels.close()
    (tmp_path / "000077.run").write_bytes(b"half written")
    again = Levels(path=tmp_path)
    again.open(named)
    assert files(tmp_path) == ["000001.run", "000002.run"]
    assert again.next_file().name == "000003.run"
    again.close()


def test_open_reports_a_missing_or_exchanged_run(levels, tmp_path):
    add(levels, 10, 20)
    named = levels.snapshot()
    levels.close()
    (tmp_path / "000001.run").rename(tmp_path / "000002.run")
    for wanted in (named, named[1:]):
        again = Levels(path=tmp_path)
        with pytest.raises(CorruptRecordError):
            again.open(wanted)
        again.close()


def test_a_fingerprint_in_two_runs_is_found(levels):
    same = random_words(5000, 1)
    for _ in range(2):
        levels.add(write_run(levels.next_file(), [same]))
    assert overlap(levels.runs)


def test_compacting_runs_that_are_not_disjoint_fails_and_leaves_no_file(levels, tmp_path):
    for _ in range(FAN_OUT):
        levels.add(write_run(levels.next_file(), [random_words(50, 1)]))
    compactor, background = compaction(levels, InlineExecutor())
    compactor.start(others_wait=False)
    with pytest.raises(ValueError, match="not strictly increasing"):
        background.settle()
    compactor.abandon()
    assert len(files(tmp_path)) == FAN_OUT


def test_others_and_compaction_take_turns(levels):
    worker = HeldExecutor()
    compactor, background = compaction(levels, worker)
    add(levels, *[600_000] * FAN_OUT)
    assert not compactor.start(others_wait=True)  # the others were not served yet
    slices = 0
    seconds = iter(range(10**6))
    compactor._clock = lambda: float(next(seconds))  # each chunk takes a second
    compactor.abandon()
    while compactor.start(others_wait=True):
        worker.step()
        background.settle()
        slices += 1
        if len(levels.runs) > 1:
            assert not compactor.start(others_wait=True)
    assert slices > 3
    assert compactor.count == 1
    assert [run.count for run in levels.runs] == [600_000 * FAN_OUT]


def test_abandoning_between_slices_deletes_the_half_written_run(levels, tmp_path):
    worker = HeldExecutor()
    compactor, background = compaction(levels, worker)
    add(levels, *[600_000] * FAN_OUT)
    seconds = iter(range(10**6))
    compactor._clock = lambda: float(next(seconds))
    assert compactor.start(others_wait=False)
    compactor.give_way()
    worker.step()
    background.settle()
    assert "000005.run" in files(tmp_path)
    compactor.abandon()
    assert "000005.run" not in files(tmp_path)
    assert len(levels.runs) == FAN_OUT
    compactor.abandon()


def test_a_failed_deletion_is_only_logged(tmp_path, caplog):
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    background = Background(executor=InlineExecutor())
    background.delete([tmp_path / "directory", tmp_path / "gone", tmp_path / "file"])
    background.close("lost")
    assert files(tmp_path) == ["directory"]
    assert "Could not delete" in caplog.text
