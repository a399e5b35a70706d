"""URL caches, before the buffer T and before the outboxes: fingerprints that are popular or recent.

Every submitted URL is looked up here first. The invariant: a cache holds only fingerprints that
were admitted, which the caller does once they are submitted or sent, so a hit needs no further
look; forgetting one is always safe. Broder, Najork and Wiener, "Efficient URL Caching for World
Wide Web Crawling": about 50,000 entries catch nearly 80 % of a crawl's links.

A policy per module or class, all with the methods of ``UrlCache``, each named by the settings
SEEN_CACHE and HIVE_CACHE. Bytes of an entry, of 65,536 that come and go, as measured with CPython
3.11: clock 157, lru 180, random 109, infinite 68. With a dictionary that was just made larger they
are a fifth more.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from webcrawl.errors import FatalError
from webcrawl.randomness import generator
from webcrawl.seen.caches.clock import ClockCache
from webcrawl.seen.caches.plain import InfiniteCache, LruCache, RandomCache, StaticCache
from webcrawl.seen.url_trace import most_popular, read_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class UrlCache(Protocol):
    """Protocol of a cache of fingerprints; works on a page's links at once."""

    size: int
    """The most that it holds."""

    def resize(self, size: int) -> None:
        """Hold at most *size* from now on."""

    def misses(self, fps: Sequence[int]) -> list[int]:
        """The indexes of those *fps* that are not held; the held ones count as used."""

    def admit(self, fps: Iterable[int]) -> None:
        """Hold each of *fps*, at the cost of others. They may repeat or be held already, which is
        no use."""

    def clear(self) -> None:
        """Hold nothing."""

    def __contains__(self, fp: int) -> bool:
        """Whether *fp* is held, which is no use of it."""

    def __len__(self) -> int:
        """How many are held."""


_POLICIES: dict[str, Callable[[int], UrlCache]] = {
    "clock": lambda size: ClockCache(size=size),
    "lru": lambda size: LruCache(size=size),
    "random": lambda size: RandomCache(size=size, rng=generator("cache")),
    "infinite": lambda _: InfiniteCache(size=sys.maxsize),
}


def cache_of(value: str, *, setting: str, size: int) -> UrlCache:
    """The cache of *size* that *value*, of SEEN_CACHE or HIVE_CACHE, names; FatalError with one
    sentence if it names none. Blocks for the file that ``static:FILE`` names."""
    policy, _, file = value.partition(":")
    if policy == "static" and file:
        return StaticCache(size=size, popular=_popular(Path(file), size))
    if file or policy not in _POLICIES:
        names = ", ".join(_POLICIES)
        raise FatalError(f"{setting} must be one of {names} or static:FILE, not {value!r}.")
    return _POLICIES[policy](size)


def trace_seed(value: str) -> int | None:
    """The seed of the fingerprints in the file that *value* names, as in ``cache_of``; None if it
    names none. A crawl of another seed would find nothing in that cache."""
    policy, _, file = value.partition(":")
    return read_trace(Path(file)).seed if policy == "static" and file else None


@lru_cache(maxsize=1)  # each shard asks for it
def _popular(path: Path, most: int) -> list[int]:
    return most_popular(read_trace(path).fps, most)
