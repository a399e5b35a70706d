"""Tests of the buffer T: a set of fingerprints and their order of arrival, in its own memory."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from webcrawl.seen.table import WITH_PAYLOAD, Buffer


@pytest.fixture
def buffer():
    made = Buffer(size=100)
    yield made
    made.close()


def put(buffer, fps, kind=WITH_PAYLOAD):
    new = buffer.insert(fps, range(len(fps)))
    buffer.append([fps[i] for i in new], kind)
    return new


def test_extreme_fingerprints_wrap_around_the_table(buffer):
    top = (1 << 64) - 1
    fps = [top, top - 1024, top - 2048, 1, 1025]
    put(buffer, fps)
    assert all(fp in buffer for fp in fps)
    assert top - 4096 not in buffer


@examples(60)
@given(st.lists(st.lists(st.integers(1, 60).map(lambda n: n * 512), max_size=12), max_size=12))
def test_undoing_the_last_insert_restores_the_table(batches):
    # Multiples of 512 share few slots, so that chains of collisions are long.
    buffer, held = Buffer(size=10), set()
    for number, batch in enumerate(batches):
        new = buffer.insert(batch, range(len(batch)))
        fresh = [batch[i] for i in new]
        assert len(set(fresh)) == len(fresh)
        if number % 2:
            buffer.undo(fresh)
        else:
            buffer.append(fresh, WITH_PAYLOAD)
            held.update(fresh)
        assert {fp for fp in range(512, 61 * 512, 512) if fp in buffer} == held
    buffer.close()


def test_a_table_that_gets_its_whole_size_keeps_what_it_has():
    buffer = Buffer(size=1 << 20)
    rng = random.Random(1)
    # Some want one of the last slots, in a table of any size.
    numbers = [rng.getrandbits(64) | 0xFFFFF0 * (not number % 99) or 1 for number in range(20_000)]
    fps = [*dict.fromkeys(numbers)]
    for start in range(0, len(fps), 1000):
        put(buffer, fps[start : start + 1000])
    assert put(buffer, fps) == []
    assert list(buffer.order) == fps
    assert 2 not in buffer
    buffer.close()


def test_an_oversized_batch_makes_it_grow():
    buffer = Buffer(size=1)
    fps = list(range(1, 5001))
    put(buffer, fps[:800])
    assert put(buffer, fps) == list(range(800, 5000))
    assert list(buffer.order) == fps
    assert all(fp in buffer for fp in fps)
    assert 5001 not in buffer
    buffer.close()
