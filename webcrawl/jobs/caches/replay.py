"""Replay of requests into caches of each policy, compiled by numba.

Requests are numbers starting at 0, so the tables are arrays. Each policy works like the class in
``webcrawl.seen.caches``; a missed URL always enters. libcachesim 0.3.5 has the same hits for LRU,
CLOCK and Belady.
"""

from __future__ import annotations

import heapq
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Ids = NDArray[np.int32]
    Replay = Callable[[Ids, int, int], int]

_Function = TypeVar("_Function", bound="Callable[..., Any]")


def _compiled(function: _Function) -> _Function:
    """Compile *function* at its first call, which takes some seconds once per machine."""
    return cast("_Function", numba.njit(cache=True)(function))


@_compiled
def stack_distances(ids: Ids, distinct: int) -> NDArray[np.int64]:
    """Count requests by the number of other URLs since the last request for the same URL.

    LRU of size k hits the sum of the first k. The last request of each URL has a place in time, and
    a Fenwick tree counts those up to a place. When all places are used, they are renumbered.
    """
    places = 2 * distinct
    tree = np.zeros(places + 1, dtype=np.int32)
    url_at = np.empty(places, dtype=np.int32)
    last = np.full(distinct, -1, dtype=np.int64)
    found = np.zeros(distinct, dtype=np.int64)
    now = met = 0
    for url in ids:
        if now == places:
            now = 0
            for place in range(places):
                if last[url_at[place]] == place:
                    url_at[now] = url_at[place]
                    last[url_at[now]] = now
                    now += 1
            for i in range(1, places + 1):
                tree[i] = max(0, min(i, now) - (i & (i - 1)))
        if last[url] >= 0:
            later = met
            i = last[url] + 1
            while i:
                later -= tree[i]
                i &= i - 1
            found[later] += 1
            i = last[url] + 1
            while i <= places:
                tree[i] -= 1
                i += i & -i
        else:
            met += 1
        i = now + 1
        while i <= places:
            tree[i] += 1
            i += i & -i
        last[url] = now
        url_at[now] = url
        now += 1
    return found


@_compiled
def in_slots(ids: Ids, distinct: int, size: int, by_clock: bool) -> int:
    """Return the hits of CLOCK, or of RANDOM with a fixed seed."""
    np.random.seed(size)  # numba has no other generator that is as fast
    slot_of = np.full(distinct, -1, dtype=np.int32)
    held = np.empty(size, dtype=np.int32)
    used = np.zeros(size, dtype=np.uint8)
    hits = count = hand = 0
    for url in ids:
        slot = slot_of[url]
        if slot >= 0:
            used[slot] = 1
            hits += 1
            continue
        if count < size:
            slot = count
            count += 1
        else:
            if by_clock:
                while used[hand]:
                    used[hand] = 0
                    hand = hand + 1 if hand + 1 < size else 0
                slot = hand
                hand = hand + 1 if hand + 1 < size else 0
            else:
                slot = np.random.randint(size)
            slot_of[held[slot]] = -1
        slot_of[url] = slot
        held[slot] = url
    return hits


@_compiled
def minimal(ids: Ids, distinct: int, size: int) -> int:
    """Return the hits of MIN, which evicts the URL requested again the latest (section 5.1)."""
    number = len(ids)
    # The next request for the URL of each request, as an index of *ids*; number + URL for never.
    following = np.empty(number, dtype=np.int64)
    soonest = np.arange(number, number + distinct)
    for at in range(number - 1, -1, -1):
        following[at] = soonest[ids[at]]
        soonest[ids[at]] = at
    is_held = np.zeros(distinct, dtype=np.bool_)
    # Negated, because the smallest comes first. When a URL is hit its old entry stays: it lies in
    # the past and so comes out last.
    heap = [np.int64(0)]
    heap.pop()
    hits = count = 0
    for at in range(number):
        url = ids[at]
        if is_held[url]:
            hits += 1
        else:
            if count < size:
                count += 1
            else:
                latest = -heapq.heappop(heap)
                is_held[ids[latest] if latest < number else latest - number] = False
            is_held[url] = True
        heapq.heappush(heap, -following[at])
        if len(heap) > 4 * size + 1024:
            heap = [key for key in heap if -key > at]
            heapq.heapify(heap)
    return hits


#: Functions of the policies that must be replayed for each size.
REPLAYS: dict[str, Replay] = {
    "clock": partial(in_slots, by_clock=True),
    "random": partial(in_slots, by_clock=False),
    "min": minimal,
}
