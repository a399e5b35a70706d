"""URL caches of popular or recent fingerprints, in front of the buffer T and of the outboxes.

Every submitted URL is looked up here first. The invariant: a cache holds only fingerprints that the
caller has admitted, which it does once they are submitted or sent. So a hit needs no further
look-up, and forgetting a fingerprint is always safe. According to Broder, Najork and Wiener,
"Efficient URL Caching for World Wide Web Crawling", about 50,000 entries catch nearly 80 % of a
crawl's links.

There is one policy per module or class, all with the methods of ``UrlCache``, selected by the
settings SEEN_CACHE and HIVE_CACHE. Bytes per entry, measured with
CPython 3.11 for 65,536 entries that are constantly replaced: clock 157, lru 180, random 109,
infinite 68. Just after a dictionary has grown, an entry takes a fifth more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from webcrawl.errors import FatalError
from webcrawl.randomness import generator
from webcrawl.seen.caches.clock import ClockCache
from webcrawl.seen.caches.plain import InfiniteCache, LruCache, RandomCache, StaticCache
from webcrawl.seen.url_trace import most_popular, read_trace


class UrlCache(Protocol):
    """Interface of a cache of fingerprints, which handles all links of a page in one call."""

    #: Maximum number of fingerprints.
    size: int

    def resize(self, size: int) -> None:
        """Hold at most *size* fingerprints from now on."""

    def misses(self, fps: Sequence[int]) -> list[int]:
        """Return the indexes of *fps* that are not held; those held count as used."""

    def admit(self, fps: Iterable[int]) -> None:
        """Add each of *fps*, evicting others if needed.

        Fingerprints may occur twice or be held already; that does not count as a use.
        """

    def clear(self) -> None:
        """Remove all fingerprints."""

    def __contains__(self, fp: int) -> bool:
        """Return whether *fp* is held; this does not count as a use."""

    def __len__(self) -> int:
        """Return the number of fingerprints held."""


_POLICIES: dict[str, Callable[[int], UrlCache]] = {
    "clock": lambda size: ClockCache(size=size),
    "lru": lambda size: LruCache(size=size),
    "random": lambda size: RandomCache(size=size, rng=generator("cache")),
    "infinite": lambda _: InfiniteCache(size=sys.maxsize),
}


def cache_of(value: str, *, setting: str, size: int) -> UrlCache:
    """Create a cache for *size* fingerprints, with the policy that *value* names.

    *value* is the value of *setting*, which is SEEN_CACHE or HIVE_CACHE.

    Blocks to read the file of ``static:FILE``. Raises FatalError for an unknown name.
    """
    policy, _, file = value.partition(":")
    if policy == "static" and file:
        return StaticCache(size=size, popular=_popular(Path(file), size))
    if file or policy not in _POLICIES:
        names = ", ".join(_POLICIES)
        raise FatalError(f"{setting} must be one of {names} or static:FILE, not {value!r}.")
    return _POLICIES[policy](size)


def trace_seed(value: str) -> int | None:
    """Return the hash seed of the fingerprints in the file of a ``static:FILE`` *value*, or None.

    For other values of SEEN_CACHE and HIVE_CACHE the result is None. In a crawl with another seed
    the cache would never have a hit.
    """
    policy, _, file = value.partition(":")
    return read_trace(Path(file)).seed if policy == "static" and file else None


@lru_cache(maxsize=1)  # every shard of the process reads the same file
def _popular(path: Path, limit: int) -> list[int]:
    """Return the *limit* most frequent fingerprints in the trace *path*."""
    return most_popular(read_trace(path).fps, limit)
