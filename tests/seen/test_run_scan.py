"""Tests of reading a sorted run past damage: each damaged block is reported, and no other."""

import random

import numpy as np
import pytest
from disk import flipped
from hypothesis import given
from hypothesis import strategies as st

from webcrawl.seen.run_scan import scan_run
from webcrawl.seen.runs import BLOCK, BLOCK_BYTES, DATA_AT, write_run
from webcrawl.storage.record_log import NewerFormatError

COUNT = 3 * BLOCK + 100
INDEX_AT = DATA_AT + 4 * BLOCK_BYTES


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "000001.run"
    words = np.unique(np.random.default_rng(1).integers(0, 1 << 64, COUNT, dtype=np.uint64))
    write_run(path, [words]).close()
    return path, path.read_bytes()


def wrong_in(path, data, count=COUNT):
    path.write_bytes(data)
    return [(block.offset, block.damage) for block in scan_run(path, count=count) if block.damage]


@given(at=st.integers(0, INDEX_AT + 4 * 16 - 1), change=st.integers(1, 255))
def test_a_flipped_byte_is_reported_with_its_block(run, at, change):
    path, data = run
    assert wrong_in(path, data) == []
    if at in (4, 5):
        return  # the version
    wrong = wrong_in(path, flipped(data, at, change))
    if at < 24:
        assert wrong[0][0] in (0, 8)
    elif at < DATA_AT:
        assert wrong == []
    elif at < INDEX_AT:
        block = DATA_AT + (at - DATA_AT) // BLOCK_BYTES * BLOCK_BYTES
        assert wrong == [(block, "checksum mismatch in the block")]
    else:
        assert wrong[0] == (INDEX_AT, "the index is damaged or cut off")


def test_what_is_overwritten_costs_its_block(run):
    path, data = run
    for block, size in ((1, BLOCK_BYTES), (2, 1600)):
        start = DATA_AT + block * BLOCK_BYTES
        for with_ in (bytes(size), random.Random(4).randbytes(size)):
            wrong = wrong_in(path, data[:start] + with_ + data[start + size :])
            assert wrong == [(start, "checksum mismatch in the block")]


def test_a_short_or_missing_file_is_reported(run):
    path, data = run
    assert [what for _, what in wrong_in(path, data[: DATA_AT + BLOCK_BYTES + 81])] == [
        "the index is damaged or cut off"
    ]
    path.unlink()
    assert [block.damage for block in scan_run(path, count=COUNT)] == ["the file is missing"]


def test_a_wrong_count_and_a_later_version_are_reported(run):
    path, data = run
    wrong = wrong_in(path, data, count=COUNT - 1)
    assert wrong == [(8, f"holds {COUNT} fingerprints, {COUNT - 1} expected")]
    path.write_bytes(data[:4] + b"\x09\0" + data[6:])
    with pytest.raises(NewerFormatError, match="has format 9"):
        list(scan_run(path, count=COUNT))
