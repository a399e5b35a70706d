"""The buffer T: fingerprints submitted since the last merge, as a table and in order of arrival.

Held by the eliminator, one being filled and one being merged (Mercator, section 3.2, figure 4).
The invariant: ``order[n]`` is the fingerprint of the n-th URL of this buffer's stretch of the URL
log, ``kinds[n]`` says what is stored with it, and the table holds exactly the fingerprints of
``order``, each once.

The table is an open-addressing hash table of 64-bit words in anonymous memory, at most half full
as sized. A Python set of 2^21 integers takes 200 MB and stops the reactor when it grows and when
it is freed; this takes 32 MB, and goes back to the system at once. While the front end is low
merges are frequent and find little in it, and to touch a page of new memory takes as long as two
insertions: so it begins with 128 kB. With 8,192 entries it gets its whole size, in 5 ms.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from webcrawl.storage.anonymous_memory import anonymous_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What stands at an ordinal: a fingerprint without a payload, one with, or (only after a
#: recovery that joined two buffers) one that this buffer had met before.
SILENT, WITH_PAYLOAD, REPEAT = 0, 1, 2

_MIN_SLOTS = 1024  # one page of memory holds 512
_FIRST_SLOTS = 1 << 14


class Buffer:
    """The buffer T of new fingerprints. Not thread-safe; nothing may be added during a merge."""

    def __init__(self, *, size: int) -> None:
        """*size*: entries it is meant for. It takes more, then it grows once more, in a pause."""
        self._whole = max(_MIN_SLOTS, 1 << (2 * size - 1).bit_length())
        self.order = array("Q")
        self.kinds = bytearray()
        self._count = 0
        self._allocate(min(self._whole, _FIRST_SLOTS))

    def _allocate(self, slots: int) -> None:
        self._memory = anonymous_memory(slots * 8)
        self._slots = memoryview(self._memory).cast("Q")
        self._mask = slots - 1
        self._room = slots // 2 if slots < self._whole else slots - slots // 8

    def insert(self, fps: Sequence[int], candidates: Sequence[int]) -> list[int]:
        """Put ``fps[i]`` for i in *candidates* into the table; returns those i that were new.

        The caller then either ``append``s the new ones or takes them back.
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

    def take_back(self, fps: Sequence[int]) -> None:
        """Undo the last ``insert``, given its new fingerprints in order.

        The last one in can leave an open-addressing table without a tombstone.
        """
        slots, mask = self._slots, self._mask
        for fp in reversed(fps):
            slot = fp & mask
            while slots[slot] != fp:
                slot = (slot + 1) & mask
            slots[slot] = 0
        self._count -= len(fps)

    def append(self, fps: Sequence[int], kind: int) -> None:
        """Note the arrival of *fps*, in order, after they went into the URL log."""
        self.order.extend(fps)
        self.kinds += (b"\x01" if kind == WITH_PAYLOAD else b"\x00") * len(fps)

    def replay(self, fps: Sequence[int], *, with_payload: bool) -> int:
        """``insert`` and ``append`` of a record read back from the URL log, where a fingerprint
        can stand twice if a merge lay between; the number of payloads that may be new."""
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
        """Entries in order of arrival, repeats included."""
        return len(self.order)

    def _grow(self, needed: int) -> None:
        held = np.frombuffer(self._memory, np.uint64)
        held = held[held != 0]
        self.close()
        slots = max(self._whole, 1 << (2 * needed - 1).bit_length())
        self._allocate(slots)
        # In the order of the slots that they belong in, each goes there or behind the one before.
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
        """Give the table's memory back; ``order`` and ``kinds`` stay."""
        self._slots.release()
        self._memory.close()
