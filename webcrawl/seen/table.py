"""The buffer T: fingerprints submitted since the last merge, as a table and in order of arrival.

The eliminator has one being filled and one being merged (Mercator, section 3.2, figure 4). The
invariant: ``order[n]`` is the fingerprint of the n-th URL of this buffer's stretch of the URL log,
and ``kinds[n]`` says what is stored with it. The table has exactly the fingerprints of ``order``,
each once.

The table is an open-addressing hash table of 64-bit words in anonymous memory, at most half full
for its intended size. A Python set of 2^21 integers takes 200 MB and stops the reactor when it
grows and when it is freed. This table takes 32 MB, which return to the system immediately. While
the front end has few URLs, merges are frequent and buffers small, and touching a new page of memory
takes as long as two insertions. So the table begins with 128 kB, and with 8,192 entries it gets its
full size, in 5 ms.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from webcrawl.storage.anonymous_memory import anonymous_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Kinds of entries: a fingerprint without a payload, one with a payload, or (only after a recovery
#: that joined two buffers) one that this buffer already has.
SILENT, WITH_PAYLOAD, REPEAT = 0, 1, 2

_MIN_SLOTS = 1024  # one page of memory holds 512
_FIRST_SLOTS = 1 << 14


class Buffer:
    """The buffer T of new fingerprints. Not thread-safe; nothing may be added during a merge."""

    def __init__(self, *, size: int) -> None:
        """Create a buffer for *size* entries; with more the table grows again, in a pause."""
        self._full_slots = max(_MIN_SLOTS, 1 << (2 * size - 1).bit_length())
        self.order = array("Q")
        self.kinds = bytearray()
        self._count = 0
        self._allocate(min(self._full_slots, _FIRST_SLOTS))

    def _allocate(self, slots: int) -> None:
        self._memory = anonymous_memory(slots * 8)
        self._slots = memoryview(self._memory).cast("Q")
        self._mask = slots - 1
        self._room = slots // 2 if slots < self._full_slots else slots - slots // 8

    def insert(self, fps: Sequence[int], candidates: Sequence[int]) -> list[int]:
        """Put ``fps[i]`` for i in *candidates* into the table; return those i that were new.

        The caller then calls ``append`` for the new ones, or ``undo``.
        """
        if self._count + len(candidates) > self._room:
            self._grow(self._count + len(candidates))
        slots, mask = self._slots, self._mask
        new = []
        for index in candidates:
            fp = fps[index]
            slot = fp & mask
            held = slots[slot]
            while held:
                if held == fp:
                    break
                slot = (slot + 1) & mask
                held = slots[slot]
            else:
                slots[slot] = fp
                new.append(index)
        self._count += len(new)
        return new

    def undo(self, fps: Sequence[int]) -> None:
        """Undo the last ``insert``, given its new fingerprints in order.

        The last entries can leave an open-addressing table without tombstones.
        """
        slots, mask = self._slots, self._mask
        for fp in reversed(fps):
            slot = fp & mask
            while slots[slot] != fp:
                slot = (slot + 1) & mask
            slots[slot] = 0
        self._count -= len(fps)

    def append(self, fps: Sequence[int], kind: int) -> None:
        """Note the arrival of *fps*, in order, after they were written to the URL log."""
        self.order.extend(fps)
        self.kinds += (b"\x01" if kind == WITH_PAYLOAD else b"\x00") * len(fps)

    def replay(self, fps: Sequence[int], *, with_payload: bool) -> int:
        """Add a record read back from the URL log; return how many payloads may be new.

        A fingerprint may be there twice if there was a merge in between.
        """
        new = self.insert(fps, range(len(fps)))
        kinds = bytearray([REPEAT]) * len(fps)
        for index in new:
            kinds[index] = WITH_PAYLOAD if with_payload else SILENT
        self.order.extend(fps)
        self.kinds += kinds
        return len(new) if with_payload else 0

    def __contains__(self, fp: int) -> bool:
        slots, mask = self._slots, self._mask
        slot = fp & mask
        held = slots[slot]
        while held:
            if held == fp:
                return True
            slot = (slot + 1) & mask
            held = slots[slot]
        return False

    def __len__(self) -> int:
        """Return the number of entries in order of arrival, including repeats."""
        return len(self.order)

    def _grow(self, needed: int) -> None:
        held = np.frombuffer(self._memory, np.uint64)
        held = held[held != 0]
        self.close()
        slots = max(self._full_slots, 1 << (2 * needed - 1).bit_length())
        self._allocate(slots)
        # In the order of their preferred slots, each goes there or after the one before it.
        wanted = (held & np.uint64(self._mask)).astype(np.int64)
        by_slot = wanted.argsort()
        number = np.arange(len(held))
        slot = np.maximum.accumulate(wanted[by_slot] - number) + number
        fits = slot < slots
        held = held[by_slot]
        np.frombuffer(self._memory, np.uint64)[slot[fits]] = held[fits]
        self._count = int(fits.sum())
        others = held[~fits].tolist()
        self.insert(others, range(len(others)))

    def close(self) -> None:
        """Free the table's memory; ``order`` and ``kinds`` stay."""
        self._slots.release()
        self._memory.close()
