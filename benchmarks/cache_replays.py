"""Replays of requests into caches of each policy, for cachelab.py, in functions compiled by numba.

URLs are numbered from 0 on, so all tables are arrays. Each policy works like its class in
``webcrawl.seen.caches``; a missed URL is always added. libcachesim 0.3.5 computes the same hits for
LRU, CLOCK and Belady.
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


def _compile(function: _Function) -> _Function:
    """Compile *function* at its first call, which takes a few seconds, once per machine."""
    return cast("_Function", numba.njit(cache=True)(function))


@_compile
def stack_distances(ids: Ids, distinct: int) -> NDArray[np.int64]:
    """Count requests by the number of other URLs since the last request for the same URL.

    *ids* are the URLs requested, and *distinct* is the number of different URLs. An LRU cache of
    size k has as many hits as the sum of the first k counts. The last request for each URL has a
    place in time, and a Fenwick tree counts the requests up to a place. When all places are used,
    they are renumbered.
    """
    places = 2 * distinct
    tree = np.zeros(places + 1, dtype=np.int32)
    url_at = np.empty(places, dtype=np.int32)
    last_place = np.full(distinct, -1, dtype=np.int64)
    counts = np.zeros(distinct, dtype=np.int64)
    now = 0
    urls_met = 0
    for url in ids:
        if now == places:
            # Renumber the places that are still in use.
            now = 0
            for place in range(places):
                if last_place[url_at[place]] == place:
                    url_at[now] = url_at[place]
                    last_place[url_at[now]] = now
                    now += 1
            # A node of the tree counts the places from node & (node - 1) up to itself, and the
            # first *now* places are in use.
            for node in range(1, places + 1):
                tree[node] = max(0, min(node, now) - (node & (node - 1)))

        if last_place[url] >= 0:
            # Count the URLs whose last request is later, and free the place of the last request.
            urls_since = urls_met
            node = last_place[url] + 1
            while node:
                urls_since -= tree[node]
                node &= node - 1
            counts[urls_since] += 1
            node = last_place[url] + 1
            while node <= places:
                tree[node] -= 1
                node += node & -node
        else:
            urls_met += 1

        node = now + 1
        while node <= places:
            tree[node] += 1
            node += node & -node
        last_place[url] = now
        url_at[now] = url
        now += 1
    return counts


@_compile
def clock_or_random_hits(ids: Ids, distinct: int, size: int, by_clock: bool) -> int:
    """Return the hits of a cache of *size* with CLOCK, or else with RANDOM, with a fixed seed."""
    np.random.seed(size)  # numba has no other generator that is as fast
    slot_of = np.full(distinct, -1, dtype=np.int32)
    url_in_slot = np.empty(size, dtype=np.int32)
    is_used = np.zeros(size, dtype=np.uint8)
    hits = 0
    filled = 0
    hand = 0
    for url in ids:
        slot = slot_of[url]
        if slot >= 0:
            is_used[slot] = 1
            hits += 1
            continue
        if filled < size:
            slot = filled
            filled += 1
        else:
            if by_clock:
                while is_used[hand]:
                    is_used[hand] = 0
                    hand = hand + 1 if hand + 1 < size else 0
                slot = hand
                hand = hand + 1 if hand + 1 < size else 0
            else:
                slot = np.random.randint(size)
            slot_of[url_in_slot[slot]] = -1  # evicted
        slot_of[url] = slot
        url_in_slot[slot] = url
    return hits


@_compile
def min_hits(ids: Ids, distinct: int, size: int) -> int:
    """Return the hits of MIN, which evicts the URL whose next request is latest (section 5.1)."""
    request_count = len(ids)
    # For each request, the index of the next request for its URL; request_count + URL for never.
    following = np.empty(request_count, dtype=np.int64)
    next_request = np.arange(request_count, request_count + distinct)
    for index in range(request_count - 1, -1, -1):
        following[index] = next_request[ids[index]]
        next_request[ids[index]] = index
    is_held = np.zeros(distinct, dtype=np.bool_)
    # The next requests of held URLs, negated, because a heap returns the smallest first. When a URL
    # is hit, its old entry stays. That entry is in the past, and so it is returned last.
    heap = [np.int64(0)]  # tells numba the type of an item
    heap.pop()
    hits = 0
    filled = 0
    for index in range(request_count):
        url = ids[index]
        if is_held[url]:
            hits += 1
        else:
            if filled < size:
                filled += 1
            else:
                latest = -heapq.heappop(heap)
                is_held[ids[latest] if latest < request_count else latest - request_count] = False
            is_held[url] = True
        heapq.heappush(heap, -following[index])
        # Remove entries that are in the past, so that the heap does not grow with the trace.
        if len(heap) > 4 * size + 1024:
            heap = [key for key in heap if -key > index]
            heapq.heapify(heap)
    return hits


#: Functions for the policies whose requests must be replayed for each size.
REPLAYS: dict[str, Replay] = {
    "clock": partial(clock_or_random_hits, by_clock=True),
    "random": partial(clock_or_random_hits, by_clock=False),
    "min": min_hits,
}
