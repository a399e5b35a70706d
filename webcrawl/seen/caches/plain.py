"""Cache policies that need only standard containers: LRU, RANDOM, STATIC, INFINITE."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterable, MutableMapping, MutableSet, Sequence


class _HeldCache:
    """Base of caches that keep their fingerprints in one container."""

    size: int
    _held: MutableSet[int] | MutableMapping[int, None]

    def misses(self, fps: Sequence[int]) -> list[int]:
        held = self._held
        return [index for index, fp in enumerate(fps) if fp not in held]

    def clear(self) -> None:
        self._held.clear()

    def __contains__(self, fp: int) -> bool:
        return fp in self._held

    def __len__(self) -> int:
        return len(self._held)


class LruCache(_HeldCache):
    """LRU cache, which evicts the least recently used entry; a new entry counts as just used."""

    def __init__(self, *, size: int) -> None:
        self.size = size
        # A plain dict is slow to find its first key after many deletions.
        self._held: OrderedDict[int, None] = OrderedDict()

    def resize(self, size: int) -> None:
        """Hold at most *size* fingerprints, evicting the least recently used ones."""
        self.size = size
        while len(self._held) > size:
            self._held.popitem(last=False)

    def misses(self, fps: Sequence[int]) -> list[int]:
        """Return the indexes of *fps* that are not held; those held count as used."""
        held = self._held
        use = self._held.move_to_end
        missed = []
        for index, fp in enumerate(fps):
            if fp in held:
                use(fp)
            else:
                missed.append(index)
        return missed

    def admit(self, fps: Iterable[int]) -> None:
        """Add each of *fps*; if the cache is full, evict the least recently used entry."""
        held = self._held
        size = self.size
        for fp in fps:
            # The least recently used entry is the first one, a new entry becomes the last.
            if fp not in held:
                if len(held) >= size:
                    held.popitem(last=False)
                held[fp] = None


class RandomCache(_HeldCache):
    """RANDOM cache, which evicts a random entry."""

    def __init__(self, *, size: int, rng: random.Random) -> None:
        self.size = size
        self._rng = rng
        self._held: set[int] = set()
        # The same fingerprints as a list, from which one can be drawn.
        self._slots: list[int] = []

    def resize(self, size: int) -> None:
        """Hold at most *size* fingerprints from now on."""
        self.size = size
        self._held.difference_update(self._slots[size:])
        del self._slots[size:]

    def admit(self, fps: Iterable[int]) -> None:
        """Add each of *fps*; if the cache is full, evict a random entry."""
        held = self._held
        slots = self._slots
        size = self.size
        draw = self._rng.random
        for fp in fps:
            if fp in held:
                continue
            if len(slots) < size:
                slots.append(fp)
            else:
                # The new entry takes the slot of the one that is evicted.
                slot = int(draw() * size)
                held.remove(slots[slot])
                slots[slot] = fp
            held.add(fp)

    def clear(self) -> None:
        super().clear()
        self._slots.clear()


class StaticCache(_HeldCache):
    """STATIC cache, which holds only the first *size* of *popular* and evicts none of them.

    *popular* are the fingerprints of an earlier crawl, the most frequent first. This crawl has not
    seen any of them yet, so each enters the cache when it is first admitted. The paper preloads the
    cache and does not count those first misses; here they are counted.
    """

    def __init__(self, *, size: int, popular: Sequence[int]) -> None:
        self._popular = popular
        self._held: set[int] = set()
        self.resize(size)

    def resize(self, size: int) -> None:
        """Hold only the *size* most popular fingerprints from now on."""
        self.size = size
        self._allowed = frozenset(self._popular[:size])
        self._held &= self._allowed

    def admit(self, fps: Iterable[int]) -> None:
        """Add those of *fps* that are popular."""
        self._held |= self._allowed.intersection(fps)


class InfiniteCache(_HeldCache):
    """INFINITE cache, which never evicts anything; its memory grows with the crawl."""

    def __init__(self, *, size: int) -> None:
        self.size = size
        self._held: set[int] = set()

    def resize(self, size: int) -> None:
        """Do nothing, because the size is not limited."""

    def admit(self, fps: Iterable[int]) -> None:
        self._held.update(fps)
