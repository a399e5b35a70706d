"""Tests of URL caches: each policy against a simple model, and their common contract."""

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_tables import each

from webcrawl.errors import FatalError
from webcrawl.seen.caches import cache_of
from webcrawl.seen.caches.clock import ClockCache
from webcrawl.seen.caches.plain import LruCache, RandomCache, StaticCache
from webcrawl.seen.url_trace import write_trace

FPS = range(1, 31)


def clock_model(size, requests):
    """Model the cache as pairs of fingerprint and bit; the hand is at the first."""
    ring = []
    for fp in requests:
        for pair in ring:
            if pair[0] == fp:
                pair[1] = True
                break
        else:
            if len(ring) == size:
                while ring[0][1]:
                    ring.append([ring.pop(0)[0], False])
                del ring[0]
            ring.append([fp, False])
        yield {pair[0] for pair in ring}


def lru_model(size, requests):
    recent = []
    for fp in requests:
        recent = [*(other for other in recent if other != fp), fp][-size:]
        yield {*recent}


def static_model(size, requests):
    held = set()
    for fp in requests:
        held |= {fp} & {*FPS[::-1][:size]}
        yield {*held}


EXACT = {
    "clock": (lambda size: ClockCache(size=size), clock_model),
    "lru": (lambda size: LruCache(size=size), lru_model),
    "static": (lambda size: StaticCache(size=size, popular=FPS[::-1]), static_model),
}
ALL = {
    **{name: make for name, (make, _) in EXACT.items()},
    "random": lambda size: RandomCache(size=size, rng=random.Random(1)),
    "infinite": lambda size: cache_of("infinite", setting="SEEN_CACHE", size=size),
}


@each("policy", *EXACT)
@given(size=st.integers(1, 25), requests=st.lists(st.sampled_from(FPS), max_size=200))
def test_each_policy_holds_what_its_definition_says(policy, size, requests):
    make, model = EXACT[policy]
    cache = make(size)
    for fp, held in zip(requests, model(size, requests), strict=True):
        if cache.misses([fp]):
            cache.admit([fp])
        assert {one for one in FPS if one in cache} == held


@each("policy", *ALL)
@given(
    size=st.integers(1, 20),
    steps=st.lists(
        st.lists(st.sampled_from(FPS), max_size=12) | st.integers(1, 40) | st.none(), max_size=40
    ),
)
def test_a_cache_holds_only_what_was_admitted_and_never_too_many(policy, size, steps):
    cache, admitted = ALL[policy](size), set()
    for step in steps:
        if isinstance(step, int):
            cache.resize(step)
        elif step is None:
            cache.clear()
            assert not len(cache)
            admitted.clear()
        else:
            missed = cache.misses(step)
            assert [fp in cache for fp in step] == [i not in missed for i in range(len(step))]
            cache.admit(step)
            admitted.update(step)
        held = {fp for fp in FPS if fp in cache}
        assert held <= admitted
        assert len(held) == len(cache) <= cache.size


# As webcrawl/seen/caches/__init__.py and docs/why/caches.md have them, of 65,536 entries that come
# and go. A set of 4,096, as RANDOM's, has more room to spare than a large one.
BYTES = {"clock": 157, "lru": 180}


@each("policy", *BYTES)
def test_an_entry_takes_the_bytes_that_the_documents_say(policy):
    size, rng = 1 << 12, random.Random(2)
    tracemalloc.start()
    try:
        cache = ALL[policy](size)
        for _ in range(4 * size):
            cache.admit([rng.getrandbits(64)])
        taken = tracemalloc.get_traced_memory()[0] / size
    finally:
        tracemalloc.stop()
    assert taken == pytest.approx(BYTES[policy], rel=0.1)


def test_static_takes_the_most_popular_of_a_trace(tmp_path):
    write_trace(tmp_path / "trace", [7, 8, 9, 9, 8, 9])
    cache = cache_of(f"static:{tmp_path / 'trace'}", setting="SEEN_CACHE", size=2)
    cache.admit([7, 8, 9])
    assert [fp for fp in (7, 8, 9) if fp in cache] == [8, 9]


@each("value", "min", "sieve", "static", "lru:x", "")
def test_an_unknown_cache_policy_is_refused(value):
    with pytest.raises(FatalError, match=r"HIVE_CACHE must be one of clock, lru, .* not"):
        cache_of(value, setting="HIVE_CACHE", size=2)
