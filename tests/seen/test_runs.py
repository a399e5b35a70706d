"""Tests of sorted runs: written fingerprints are found, no others, and damage is detected."""

import shutil
import time
import tracemalloc

import numpy as np
import pytest
from disk import flip, flipped, full_disk
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from strategies import examples
from text_tables import each

from webcrawl.seen import runs
from webcrawl.seen.disk_set import merge
from webcrawl.seen.runs import (
    BLOCK,
    BLOCK_BYTES,
    DATA_AT,
    HEADER,
    READ_BLOCKS,
    Run,
    RunWriter,
    write_run,
)
from webcrawl.seen.table import WITH_PAYLOAD, Buffer
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

TOP = (1 << 64) - 1
# More than a run that stays in memory, more than one read.
LARGE = (READ_BLOCKS + 40) * BLOCK + 5


def words(*values):
    return np.array(values, dtype=np.uint64)


def random_words(count, seed=1):
    return np.sort(np.random.default_rng(seed).integers(0, TOP, count, dtype=np.uint64))


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Return the words of a run that is read from disk, and its file."""
    path = tmp_path_factory.mktemp("runs") / "large.run"
    held = random_words(LARGE)
    write_run(path, [held]).close()
    return held, path


@pytest.fixture
def run(large):
    opened = Run.open(large[1])
    yield opened
    opened.close()


@each("count", 1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 40 * BLOCK + 7)
def test_every_word_is_found_again_and_its_neighbours_are_not(tmp_path, count):
    held = random_words(count)
    write_run(tmp_path / "a.run", np.array_split(held, 3) if count > 2 else [held]).close()
    run = Run.open(tmp_path / "a.run", count=len(held))
    assert run.find(held).all()
    others = np.setdiff1d(
        np.unique(np.concatenate((held + np.uint64(1), held - np.uint64(1)))), held
    )
    assert not run.find(others).any()
    for word in held[:: max(1, count // 50)].tolist():
        assert word in run
        assert ((word + 1) & TOP) not in run
    assert np.concatenate(list(run.chunks(blocks=7))).tolist() == held.tolist()
    assert run.size_bytes == run.path.stat().st_size
    run.close()
    run.close()


def test_the_ends_of_the_range_are_ordinary_words(tmp_path):
    run = write_run(tmp_path / "a.run", [words(0, 1, TOP - 1, TOP)])
    assert run.find(words(0, 1, 2, TOP - 2, TOP - 1, TOP)).tolist() == [1, 1, 0, 0, 1, 1]
    assert 0 in run
    assert TOP in run
    run.close()


@examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_find_agrees_with_a_set_for_few_keys_and_for_many(large, run, data):
    held, _ = large
    count = data.draw(st.sampled_from([0, 1, 2, 17, 1000, 20_000, 300_000]))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    # Keys all over the run and keys that lie close together; the odd ones out are in neither.
    at = int(rng.integers(0, len(held)))
    some = np.concatenate((rng.choice(held, count), held[at : at + count]))
    keys = np.sort(np.concatenate((some, rng.integers(0, TOP, count, dtype=np.uint64))))
    place = np.minimum(np.searchsorted(held, keys), len(held) - 1)
    assert np.array_equal(run.find(keys), held[place] == keys)


def test_keys_below_the_first_word_are_not_found(tmp_path, large):
    held, _ = large
    run = write_run(tmp_path / "a.run", [held[held > np.uint64(1 << 63)]])
    keys = held[:100]
    assert not run.find(keys).any()
    assert int(keys[0]) not in run
    run.close()


def test_chunks_that_do_not_increase_are_refused_and_leave_no_file(tmp_path):
    for chunks in ([words(2, 1)], [words(1, 1)], [words(1, 2), words(2, 3)]):
        with pytest.raises(ValueError, match="not strictly increasing"):
            write_run(tmp_path / "a.run", chunks)
        assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_no_file(tmp_path):
    with full_disk(DATA_AT + 100):
        write_run(tmp_path / "a.run", [random_words(50)])
    assert list(tmp_path.iterdir()) == []


def test_an_unfinished_run_is_not_opened(tmp_path):
    writer = RunWriter(path=tmp_path / "a.run")
    writer.append(random_words(3000))
    writer.close()
    with pytest.raises(CorruptRecordError, match="not a run header"):
        Run.open(tmp_path / "a.run")


def test_a_missing_run_and_another_count_than_expected_are_reported(tmp_path, large):
    with pytest.raises(CorruptRecordError, match="missing"):
        Run.open(tmp_path / "a.run")
    with pytest.raises(CorruptRecordError, match="1 expected"):
        Run.open(large[1], count=1)


def test_a_run_of_a_later_version_is_refused(tmp_path, large):
    path = shutil.copy(large[1], tmp_path / "a.run")
    flip(path, 4, 1 ^ 2)
    with pytest.raises(NewerFormatError, match="use the newer webcrawl"):
        Run.open(path)


def test_every_byte_of_the_header_counts(tmp_path):
    path = tmp_path / "a.run"
    write_run(path, [words(1, 2, 3)]).close()
    good = path.read_bytes()
    for at in range(HEADER.size + 4):
        for bit in (1, 128):
            path.write_bytes(flipped(good, at, bit))
            with pytest.raises((CorruptRecordError, NewerFormatError)):
                Run.open(path)


def test_a_run_cut_at_any_byte_is_not_opened(tmp_path):
    path = tmp_path / "a.run"
    write_run(path, [random_words(2000)]).close()
    good = path.read_bytes()
    # Every byte of header, index and the ends of the blocks; the middle of the blocks by steps.
    ends = {*range(HEADER.size + 8), *range(0, len(good), 97), *range(len(good) - 40, len(good))}
    for end in sorted(ends):
        path.write_bytes(good[:end])
        with pytest.raises(CorruptRecordError):
            Run.open(path)


def damaged(path, tmp_path, block):
    """Return an open copy of the run with one bit of *block* flipped."""
    copy = shutil.copy(path, tmp_path / "damaged.run")
    flip(copy, DATA_AT + block * BLOCK_BYTES + 8 * 17)
    return Run.open(copy)


@each("block", 0, 5, READ_BLOCKS - 1, READ_BLOCKS, LARGE // BLOCK)
def test_damage_in_a_block_is_raised_with_path_and_offset_at_use(tmp_path, large, block):
    held, path = large
    run = damaged(path, tmp_path, block)
    inside = held[block * BLOCK : block * BLOCK + 3]
    offset = DATA_AT + block * BLOCK_BYTES
    uses = [
        lambda: int(inside[0]) in run,
        lambda: run.find(inside),
        lambda: run.find(held[::1024]),
        lambda: run.find(held),
        lambda: list(run.chunks(blocks=9)),
    ]
    for use in uses:
        with pytest.raises(CorruptRecordError, match="checksum mismatch in the block") as caught:
            use()
        assert (caught.value.path, caught.value.offset) == (run.path, offset)
    run.close()


def test_damage_elsewhere_does_not_matter_to_a_look_up(tmp_path, large):
    held, path = large
    run = damaged(path, tmp_path, 100)
    assert int(held[0]) in run
    assert run.find(held[:3]).all()
    run.close()


def test_damage_in_a_small_run_is_found_at_open(tmp_path):
    write_run(tmp_path / "a.run", [random_words(3000)]).close()
    with pytest.raises(CorruptRecordError, match="checksum mismatch in the block"):
        damaged(tmp_path / "a.run", tmp_path, 1)


def test_a_file_that_shrinks_while_open_is_reported(tmp_path, large):
    held, path = large
    run = Run.open(shutil.copy(path, tmp_path / "a.run"))
    with run.path.open("r+b") as file:
        file.truncate(DATA_AT + 10 * BLOCK_BYTES + 100)
    with pytest.raises(CorruptRecordError, match="ends within a block"):
        run.find(held)
    run.close()


def test_a_merge_takes_what_the_budget_counts_for_it(tmp_path, monkeypatch):
    """It is 30 bytes for an entry of T', see memory_budget.py, and a constant part."""
    monkeypatch.setattr(runs, "READ_BLOCKS", 16)
    monkeypatch.setattr(runs, "_KEYS", 1 << 12)
    held, others = (random_words(1 << 17, seed=seed) for seed in (1, 2))
    stored = [write_run(tmp_path / f"{n}.run", [held[::n]]) for n in (1, 100)]
    submitted = np.random.default_rng(3).permutation(np.concatenate((held, others))).tolist()
    buffer = Buffer(size=len(submitted))
    buffer.append(submitted, WITH_PAYLOAD)
    tracemalloc.start()
    try:
        merged = merge(buffer, stored, tmp_path / "new.run", time.monotonic, tells_own=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert merged.run.find(others).all()
    assert sum(merged.marks) == len(others)
    assert peak < 30 * len(submitted) + (1 << 20)
    for one in (merged.run, *stored, buffer):
        one.close()
