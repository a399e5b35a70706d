"""The cache in front of T: popular and recent fingerprints stay, it never holds too many."""

from __future__ import annotations

from contracts.cache import CacheContract

from webcrawl.seen.cache import ClockCache


class TestContract(CacheContract):
    def make(self, size):
        return ClockCache(size=size)


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


def test_looking_with_in_does_not_count_as_use():
    cache = ClockCache(size=2)
    cache.admit([1, 2])
    assert 1 in cache
    cache.admit([3])
    assert 1 not in cache


def test_all_bits_set_still_finds_a_place():
    cache = ClockCache(size=3)
    cache.admit([1, 2, 3])
    cache.misses([1, 2, 3])
    cache.admit([4])
    assert len(cache) == 3
    assert 4 in cache


def test_popular_ones_are_hit_more_often_than_in_a_fifo():
    cache, fifo, held = ClockCache(size=50), list(range(0)), 0
    for step in range(5000):
        fps = [step % 20 + 1, 1000 + step]  # twenty popular ones among ones met once
        for missed in cache.misses(fps):
            cache.admit([fps[missed]])
        held += sum(fp in fifo for fp in fps)
        fifo = (fifo + [fp for fp in fps if fp not in fifo])[-50:]
    hits = sum(not cache.misses([fp]) for fp in range(1, 21))
    assert hits == 20
    assert held < 5000
