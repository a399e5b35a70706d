"""Reading a sorted run past damage: what is lost is little, told, and never out of order."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webcrawl.seen.run_scan import scan_run
from webcrawl.seen.runs import BLOCK, BLOCK_BYTES, DATA_AT, write_run
from webcrawl.storage.record_log import NewerFormatError

COUNT = 3 * BLOCK + 100


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "000001.run"
    words = np.unique(np.random.default_rng(1).integers(0, 1 << 64, COUNT, dtype=np.uint64))
    write_run(path, [words]).close()
    return path, path.read_bytes(), words


def scanned(path, data, count=COUNT):
    path.write_bytes(data)
    blocks = list(scan_run(path, count=count))
    words = np.concatenate([block.words for block in blocks])
    assert bool((words[1:] > words[:-1]).all())
    return words, [(block.offset, block.wrong) for block in blocks if block.wrong]


def test_a_sound_run_is_its_fingerprints(run):
    path, data, words = run
    found, wrong = scanned(path, data)
    assert np.array_equal(found, words)
    assert wrong == []


@given(at=st.integers(0, DATA_AT + 4 * (BLOCK_BYTES + 16) - 1), change=st.integers(1, 255))
def test_a_flipped_byte_costs_a_fingerprint_at_most(run, at, change):
    path, data, words = run
    if at in (4, 5):
        return  # the version
    hit = data[:at] + bytes([data[at] ^ change]) + data[at + 1 :]
    found, wrong = scanned(path, hit)
    assert len(np.setdiff1d(words, found)) <= 1
    assert len(np.setdiff1d(found, words)) <= 1
    assert bool(wrong) == (not 24 <= at < DATA_AT), wrong


def test_a_block_of_zeros_costs_the_block(run):
    path, data, words = run
    start = DATA_AT + BLOCK_BYTES
    found, wrong = scanned(path, data[:start] + bytes(BLOCK_BYTES) + data[start + BLOCK_BYTES :])
    assert wrong == [(start, "the block does not add up")]
    assert len(found) == len(words) - BLOCK


def test_a_file_that_ends_early_gives_what_there_is(run):
    path, data, words = run
    found, wrong = scanned(path, data[: DATA_AT + BLOCK_BYTES + 81])
    assert np.array_equal(found, words[: BLOCK + 10])
    assert [what for _, what in wrong] == [
        "the index is damaged or cut off",
        *["the block does not add up"] * 2,
        *["the block is missing"] * 2,
    ]
    path.unlink()
    assert [block.wrong for block in scan_run(path, count=COUNT)] == ["the file is missing"]


def test_another_count_and_a_later_version_are_told(run):
    path, data, words = run
    found, wrong = scanned(path, data, count=COUNT - 1)
    assert wrong[0] == (8, f"holds {COUNT} fingerprints, {COUNT - 1} expected")
    assert np.array_equal(found, words[:-1])
    path.write_bytes(data[:4] + b"\x09\0" + data[6:])
    with pytest.raises(NewerFormatError, match="has format 9"):
        list(scan_run(path, count=COUNT))


def test_noise_costs_what_it_covers(run):
    path, data, words = run
    rng = random.Random(4)
    start = DATA_AT + 2 * BLOCK_BYTES + 800
    found, wrong = scanned(path, data[:start] + rng.randbytes(1600) + data[start + 1600 :])
    assert len(wrong) == 1
    assert len(np.setdiff1d(words, found)) <= 200
