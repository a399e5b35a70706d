"""The cache in front of T: popular and recent fingerprints stay, it never holds too many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webcrawl.seen.cache import ClockCache


def test_misses_are_the_indexes_not_held_and_asking_admits_nothing():
    cache = ClockCache(size=4)
    cache.admit([10, 20])
    for _ in range(2):
        assert cache.misses([20, 30, 10, 40]) == [1, 3]


@pytest.mark.parametrize("size", [1, 3, 9])
@given(batches=st.lists(st.lists(st.integers(1, 30), max_size=8), max_size=40))
def test_it_holds_only_what_was_admitted_and_never_too_many(size, batches):
    cache, admitted = ClockCache(size=size), set()
    for batch in batches:
        missed = cache.misses(batch)
        assert [fp in cache for fp in batch] == [i not in missed for i in range(len(batch))]
        cache.admit(batch)
        admitted.update(batch)
        held = {fp for fp in range(1, 31) if fp in cache}
        assert len(held) <= size
        assert held <= admitted


def test_the_oldest_goes_first_when_none_is_used():
    cache = ClockCache(size=3)
    cache.admit([1, 2, 3])
    cache.admit([4])
    assert [fp for fp in (1, 2, 3, 4) if fp in cache] == [2, 3, 4]


def test_a_used_one_survives_a_flood_of_others():
    cache = ClockCache(size=8)
    cache.admit(range(1, 9))
    for flood in range(100, 200):
        assert cache.misses([5]) == []
        cache.admit([flood])
    assert 5 in cache


def test_all_bits_set_still_finds_a_place():
    cache = ClockCache(size=3)
    cache.admit([1, 2, 3])
    cache.misses([1, 2, 3])
    cache.admit([4])
    assert len(cache) == 3
    assert 4 in cache
