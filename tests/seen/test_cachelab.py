"""The cache laboratory: hits of the classes that crawls use, of the paper's MIN, and what it says.

Replays run uncompiled here, but in what is marked ``long``: to compile them takes seconds each.
"""

import csv
import os
import random
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
import warm
from hypothesis import given
from hypothesis import strategies as st
from text_tables import cases, each

from webcrawl.errors import FatalError
from webcrawl.seen.caches.clock import ClockCache
from webcrawl.seen.caches.plain import LruCache, RandomCache, StaticCache
from webcrawl.seen.url_trace import UrlTrace

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
with pytest.MonkeyPatch.context() as patch:
    patch.setattr(numba.config, "DISABLE_JIT", True)
    patch.syspath_prepend(BENCHMARKS)
    from cachelab import POLICIES, CacheSimulation, policies_of, region_text, sizes_of

UNCOMPILED = os.environ | {"NUMBA_DISABLE_JIT": "1"}
# Compiling takes 13 s of CPU, and took three minutes beside other work at a lower priority.
COMPILE_SECS = 800
COMPILED = pytest.param(True, marks=[pytest.mark.long, pytest.mark.timeout(COMPILE_SECS + 100)])
CLASSES = {
    "clock": lambda size, _: ClockCache(size=size),
    "lru": lambda size, _: LruCache(size=size),
    "static-charged": lambda size, popular: StaticCache(size=size, popular=popular),
}


def hits_of(cache, fps):
    hits = 0
    for fp in fps:
        if cache.misses((fp,)):
            cache.admit((fp,))
        else:
            hits += 1
    return hits


def fewest_misses(size, fps):
    """Of all ways to choose what goes, a missed one always entering: every one is tried."""
    held = {frozenset(): 0}
    for fp in fps:
        following = {}
        for cache, misses in held.items():
            if fp in cache:
                choices = [(cache, misses)]
            elif len(cache) < size:
                choices = [(cache | {fp}, misses + 1)]
            else:
                choices = [(cache - {gone} | {fp}, misses + 1) for gone in cache]
            for choice, count in choices:
                following[choice] = min(count, following.get(choice, count))
        held = following
    return min(held.values())


def laboratory(fps):
    return CacheSimulation(np.array(fps, dtype=np.uint64))


def measured(fps, sizes, policies=POLICIES):
    found = laboratory(fps).measure(policies, sizes, on_progress=lambda _: None)
    return {(one.policy, one.size): one.hits for one in found}


def popular(fps):
    return sorted({*fps}, key=lambda fp: -fps.count(fp))


@given(
    fps=st.lists(st.integers(1, 9) | st.integers(1, 40), min_size=1, max_size=120),
    size=st.integers(1, 30),
)
def test_hits_are_those_of_the_classes_that_a_crawl_uses(fps, size):
    found = measured(fps, [size])
    for policy, make in CLASSES.items():
        assert found[policy, size] == hits_of(make(size, popular(fps)), fps), policy
    assert found["infinite", size] == len(fps) - len({*fps})
    assert found["static", size] == sum(sorted(map(fps.count, {*fps}))[-size:])
    assert found["random", size] <= found["min", size] <= found["infinite", size]


@given(fps=st.lists(st.integers(1, 7), min_size=1, max_size=24), size=st.integers(1, 4))
def test_min_misses_as_few_as_any_choice_can(fps, size):
    assert measured(fps, [size], ["min"])["min", size] == len(fps) - fewest_misses(size, fps)


def test_random_hits_about_as_often_as_the_class():
    rng = random.Random(3)
    fps = [int(300 * rng.random() ** 3) for _ in range(5000)]
    cache = RandomCache(size=50, rng=rng)
    assert measured(fps, [50], ["random"])["random", 50] == pytest.approx(
        hits_of(cache, fps), rel=0.04
    )


def test_the_knee_is_where_a_larger_cache_brings_little():
    # Rounds over 64 URLs, of which each has a visitor of its own between.
    fps = [fp for n in range(20_000) for fp in (n % 64, 100 + n)]
    first, knee = region = laboratory(fps).critical_region()
    assert 64 < first < knee < 160
    assert (
        region_text(region)
        == f"Critical region of LRU: from {first} entries to the knee at {knee}."
    )
    # Every URL is requested again only when all others were.
    assert laboratory([*range(99)] * 3).critical_region() is None
    assert "no critical region" in region_text(None)


@cases(
    "text",
    """
        ""
        "0"
        2^3..
        2^29
        "7,"
        x
        2^99
        10..20
    """,
)
def test_invalid_sizes_are_refused(text):
    with pytest.raises(FatalError, match=r"--sizes must be like 2\^0\.\.2\^25"):
        sizes_of(text)


def test_policies_are_named_or_refused():
    assert policies_of("lru,min") == ["lru", "min"]
    with pytest.raises(FatalError, match="Unknown policy 'mru'"):
        policies_of("lru,mru")


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@each("compiled", False, COMPILED)
def test_the_command_measures_all_requests_and_those_that_leave(tmp_path, compiled):
    rng = random.Random(5)
    fps = [rng.getrandbits(64) for _ in range(150)]
    fps = [fps[int(150 * rng.random() ** 2)] for _ in range(500)]
    leave = [fp % 3 == 0 for fp in fps]
    trace = UrlTrace(path=tmp_path / "trace")
    trace.open()
    trace.add(fps, leave, 0.0)
    trace.close()
    file = tmp_path / "hits.csv"
    options = {"timeout": COMPILE_SECS} if compiled else {"env": UNCOMPILED}
    arguments = ["--sizes", "2^2..2^3,99", "--csv", file]
    command = [sys.executable, BENCHMARKS / "cachelab.py", trace.path, *arguments]
    done = warm.run([*map(str, command)], **options)
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout
    assert "500 requests, all links" in said
    assert f"{sum(leave):,} requests, links that leave the page's host" in said
    crossing = [fp for fp in fps if fp % 3 == 0]
    for path, stream in ((file, fps), (tmp_path / "hits-cross.csv", crossing)):
        expected = measured(stream, [4, 8, 99])
        found = rows(path)
        assert {(row["policy"], int(row["size"])) for row in found} == expected.keys()
        assert {int(row["requests"]) for row in found} == {len(stream)}
        for row in found:
            if row["policy"] != "random" or not compiled:
                assert int(row["hits"]) == expected[row["policy"], int(row["size"])]
