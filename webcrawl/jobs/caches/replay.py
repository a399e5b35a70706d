"""Replay of requests into caches of every policy, compiled by numba.

Requests are numbers from 0 on, so the tables are arrays. Each policy is that of the class in
``webcrawl.seen.caches``; a missed URL always enters. Against libcachesim 0.3.5, whose hits are the
same for LRU, CLOCK, SIEVE and Belady: docs/decisions.md.
"""

from __future__ import annotations

import heapq
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numba
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Ids = NDArray[np.int32]
    Replay = Callable[[Ids, int, int], int]

_Function = TypeVar("_Function", bound="Callable[..., Any]")


def _compiled(function: _Function) -> _Function:
    """*function* compiled when it is first called: some seconds, once for each machine."""
    return cast("_Function", numba.njit(cache=True)(function))


@_compiled
def stack_distances(ids: Ids, distinct: int) -> NDArray[np.int64]:
    """How many requests have so many other URLs between themselves and the last request for theirs.

    LRU of size k hits the sum of the first k. The last request of each URL has a place in time; a
    Fenwick tree counts those up to a place. When the places are used up they are numbered anew.
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
    """The hits of CLOCK, or else of RANDOM; the same each time."""
    np.random.seed(size)  # numba has no other that is as fast
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
def sieve(ids: Ids, distinct: int, size: int) -> int:
    """The hits of SIEVE; the queue is a list by URL, -1 its end."""
    newer = np.full(distinct, -1, dtype=np.int32)
    is_held = np.zeros(distinct, dtype=np.bool_)
    used = np.zeros(distinct, dtype=np.uint8)
    hits = count = 0
    oldest = newest = hand = before = np.int32(-1)
    for url in ids:
        if is_held[url]:
            used[url] = 1
            hits += 1
            continue
        if count < size:
            count += 1
        else:
            if hand < 0:
                before, hand = np.int32(-1), oldest
            while used[hand]:
                used[hand] = 0
                before, hand = hand, newer[hand]
                if hand < 0:
                    before, hand = np.int32(-1), oldest
            is_held[hand] = False
            if before < 0:
                oldest = newer[hand]
            else:
                newer[before] = newer[hand]
            if hand == newest:
                newest = before
            hand = newer[hand]
        if newest < 0:
            oldest = url
        else:
            newer[newest] = url
        newer[url] = -1
        newest = url
        is_held[url] = True
    return hits


@_compiled
def _evict_main(main: Ids, ends: NDArray[np.int64], uses: NDArray[np.int8]) -> None:
    """Take one URL out of the ring *main*; *ends*: its first place, and how many are in it."""
    while True:
        url = main[ends[0]]
        ends[0] = (ends[0] + 1) % len(main)
        if not uses[url]:
            uses[url] = -1
            ends[1] -= 1
            return
        uses[url] -= 1
        main[(ends[0] + ends[1] - 1) % len(main)] = url


@_compiled
def _add_ghost(
    url: int, ghosts: Ids, place: NDArray[np.int64], bounds: NDArray[np.int64], most: int
) -> None:
    """Add *url* to the queue *ghosts*, of which *most* stay; *bounds*: its oldest, its end, how
    many are in it. A ghost that came back stays behind: its *place* is another, or -1."""
    ghosts[bounds[1]] = url
    place[url] = bounds[1]
    bounds[1] += 1
    bounds[2] += 1
    if bounds[2] > most:
        while place[ghosts[bounds[0]]] != bounds[0]:
            bounds[0] += 1
        place[ghosts[bounds[0]]] = -1
        bounds[0] += 1
        bounds[2] -= 1


@_compiled
def s3fifo(ids: Ids, distinct: int, size: int) -> int:
    """The hits of S3-FIFO."""
    most_small = max(1, size // 10)
    most_main = size - most_small
    uses = np.full(distinct, -1, dtype=np.int8)  # -1: not held
    small = np.empty(size, dtype=np.int32)
    first = in_small = 0
    main = np.empty(size + 1, dtype=np.int32)
    ends = np.zeros(2, dtype=np.int64)
    ghosts = np.empty(len(ids), dtype=np.int32)
    place = np.full(distinct, -1, dtype=np.int64)
    bounds = np.zeros(3, dtype=np.int64)
    hits = 0
    for url in ids:
        if uses[url] >= 0:
            uses[url] = min(uses[url] + 1, 3)
            hits += 1
            continue
        while in_small + ends[1] >= size:
            if in_small < most_small:
                _evict_main(main, ends, uses)
                continue
            while in_small:
                tail = small[first]
                first = first + 1 if first + 1 < size else 0
                in_small -= 1
                if uses[tail] > 1:
                    uses[tail] = 0
                    main[(ends[0] + ends[1]) % len(main)] = tail
                    ends[1] += 1
                    if ends[1] > most_main:
                        _evict_main(main, ends, uses)
                    continue
                uses[tail] = -1
                _add_ghost(tail, ghosts, place, bounds, most_main)
                break
        if place[url] >= 0:
            place[url] = -1
            bounds[2] -= 1
            main[(ends[0] + ends[1]) % len(main)] = url
            ends[1] += 1
        else:
            small[(first + in_small) % size] = url
            in_small += 1
        uses[url] = 0
    return hits


@_compiled
def minimal(ids: Ids, distinct: int, size: int) -> int:
    """The hits of MIN: what is requested again the latest goes, as in section 5.1 of the paper."""
    number = len(ids)
    # When each request's URL is requested next: as an index of *ids*, or number + URL for never.
    following = np.empty(number, dtype=np.int64)
    soonest = np.arange(number, number + distinct)
    for at in range(number - 1, -1, -1):
        following[at] = soonest[ids[at]]
        soonest[ids[at]] = at
    is_held = np.zeros(distinct, dtype=np.bool_)
    # Negated, as the smallest comes first. Of URLs that were hit the former entries stay: they are
    # of the past, and so the last to come out.
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


#: Of the policies that are replayed for each size.
REPLAYS: Final[dict[str, Replay]] = {
    "clock": partial(in_slots, by_clock=True),
    "random": partial(in_slots, by_clock=False),
    "sieve": sieve,
    "s3fifo": s3fifo,
    "min": minimal,
}
