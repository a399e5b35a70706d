"""Decoded cache: the values of a key-value cache as objects.

A host's facts change several times in a second while its page is fetched. So an object is decoded
once while it is in memory, and encoded when it is evicted or written. The one that was decoded
first is evicted first: the order of use would cost each of a page's two dozen reads more than a
decoding of the few that come back. Invariant: an object that was
put is the one that is got, and what was put is in the key-value cache before it is evicted here.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from webcrawl.hosts.records.key_value_cache import KeyValueCache

T = TypeVar("T")


class DecodedCache(Generic[T]):
    """The objects in one *cache*, of which the *size* decoded last are in memory. Not thread-safe.

    *decode* gets the key and the file, too, for its errors. *new* makes the object of a key without
    one: it is held as well, for whoever asks for it asks again soon.
    """

    def __init__(
        self,
        *,
        cache: KeyValueCache,
        size: int,
        encode: Callable[[T], bytes],
        decode: Callable[[bytes, str, Path], T],
        new: Callable[[str], T],
    ) -> None:
        self._cache = cache
        self._size = size
        self._encode = encode
        self._decode = decode
        self._new = new
        self._held: OrderedDict[str, T] = OrderedDict()
        # The keys of those that the cache does not know as they are, in the order of their change.
        self._changed: dict[str, None] = {}

    def resize(self, size: int) -> None:
        """Keep *size* in memory; what is too much goes with the next one that is held."""
        self._size = size

    def get(self, key: str) -> T:
        """The object of *key*, a new one if there is none; to be put after a change, and not kept:
        another one may evict it. 0.1 us if it is held, otherwise as ``KeyValueCache.get``."""
        value = self._held.get(key)
        if value is not None:
            return value
        data = self._cache.get(key)
        value = self._new(key) if data is None else self._decode(data, key, self._cache.file)
        self._hold(key, value)
        return value

    def held(self, key: str) -> T | None:
        """The object of *key*, if it is held."""
        return self._held.get(key)

    def put(self, key: str, value: T) -> None:
        """Replace the object of *key*."""
        self._changed[key] = None
        if self._held.get(key) is not value:
            self._hold(key, value)

    def settle(self) -> None:
        """Put what has changed into the cache: it is written with its next batch."""
        for key in self._changed:
            self._cache.put(key, self._encode(self._held[key]))
        self._changed.clear()

    def _hold(self, key: str, value: T) -> None:
        held = self._held
        held[key] = value
        while len(held) > self._size:
            old, evicted = held.popitem(last=False)
            if old in self._changed:
                del self._changed[old]
                self._cache.put(old, self._encode(evicted))
