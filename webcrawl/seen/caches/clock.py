"""CLOCK replacement policy, which approximates LRU with one bit per entry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class ClockCache:
    """CLOCK cache: a hit sets the entry's bit, and an entry whose bit is clear is evicted.

    It has *size* slots for fingerprints.

    To evict an entry, the hand clears the bits it passes until it finds one that is clear. A new
    entry starts with its bit clear, so unless it is seen again, it stays only for one turn of the
    hand. A flood of URLs that are seen once thus does not push out popular ones. All links of a
    page are handled in one call, because a call per link would take most of the time.
    """

    def __init__(self, *, size: int) -> None:
        self.size = size
        self._slot_of: dict[int, int] = {}
        self._fp_of_slot: list[int] = []
        # The bit of each slot, one byte each: 1 if its entry had a hit since the hand passed it.
        self._used = bytearray(size)
        # The slot that the hand checks next.
        self._hand = 0

    def resize(self, size: int) -> None:
        """Hold at most *size* fingerprints from now on."""
        # Entries in slots that no longer exist are evicted; new slots are empty.
        for fp in self._fp_of_slot[size:]:
            del self._slot_of[fp]
        del self._fp_of_slot[size:]
        self._used = self._used[:size].ljust(size, b"\0")
        self.size = size
        self._hand = 0

    def misses(self, fps: Sequence[int]) -> list[int]:
        """Return the indexes of *fps* that are not held, and set the bits of all others."""
        get = self._slot_of.get
        used = self._used
        missed = []
        for index, fp in enumerate(fps):
            slot = get(fp)
            if slot is None:
                missed.append(index)
            else:
                used[slot] = 1
        return missed

    def admit(self, fps: Iterable[int]) -> None:
        """Add each of *fps*; if the cache is full, evict the next entry whose bit is clear."""
        slot_of = self._slot_of
        fp_of_slot = self._fp_of_slot
        used = self._used
        hand = self._hand
        size = self.size
        for fp in fps:
            if fp in slot_of:
                continue
            if len(fp_of_slot) < size:
                slot_of[fp] = len(fp_of_slot)
                fp_of_slot.append(fp)
                continue
            # The cache is full. The hand clears bits until it finds one that is clear already.
            while used[hand]:
                used[hand] = 0
                hand += 1
                if hand == size:
                    hand = 0
            del slot_of[fp_of_slot[hand]]
            fp_of_slot[hand] = fp
            slot_of[fp] = hand
            # The hand moves on, so that the new entry is checked last.
            hand += 1
            if hand == size:
                hand = 0
        self._hand = hand

    def clear(self) -> None:
        """Remove all fingerprints."""
        self._slot_of.clear()
        self._fp_of_slot.clear()
        self._used = bytearray(self.size)
        self._hand = 0

    def __contains__(self, fp: int) -> bool:
        return fp in self._slot_of

    def __len__(self) -> int:
        return len(self._fp_of_slot)
