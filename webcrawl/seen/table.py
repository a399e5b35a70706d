"""Buffer T: fingerprints submitted since the last merge, as a table and in order of arrival.

The eliminator fills one buffer while another is being merged (Mercator, section 3.2, figure 4). The
invariant: ``order[n]`` is the fingerprint of the n-th URL of this buffer's section of the URL log,
and ``kinds[n]`` says what is stored with it. The table contains exactly the fingerprints of
``order``, each once.

The table is an open-addressing hash table of 64-bit words in anonymous memory, at most half full
for its intended size. A Python set of 2^21 integers takes 200 MB and stops the reactor when it
grows and when it is freed. This table takes 32 MB, which are returned to the system immediately.
While the front end has few URLs, merges are frequent and buffers are small, and touching a new page
of memory takes as long as two insertions. So the table begins with 128 kB. When it has 8,192
entries, it is enlarged to its full size, which takes 5 ms.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from webcrawl.storage.anonymous_memory import anonymous_memory

#: Kinds of entries: a fingerprint without a payload, one with a payload, or one that this buffer
#: already has. The last kind occurs only after a recovery that joined two buffers.
SILENT = 0
WITH_PAYLOAD = 1
REPEAT = 2

_MIN_SLOTS = 1024  # one page of memory holds 512
_FIRST_SLOTS = 1 << 14


class Buffer:
    """The buffer T of new fingerprints. Not thread-safe; nothing may be added during a merge."""

    def __init__(self, *, size: int) -> None:
        """Create a buffer for *size* entries; with more, the table must grow, which takes time."""
        # The smallest power of two that is at least twice the size.
        self._full_slots = max(_MIN_SLOTS, 1 << (2 * size - 1).bit_length())
        #: The fingerprints in order of arrival, and the kind of each.
        self.order = array("Q")
        self.kinds = bytearray()
        self._count = 0  # number of fingerprints in the table
        self._allocate(min(self._full_slots, _FIRST_SLOTS))

    def _allocate(self, slots: int) -> None:
        """Create an empty table with *slots* slots."""
        self._memory = anonymous_memory(slots * 8)
        self._slots = memoryview(self._memory).cast("Q")
        self._mask = slots - 1
        # The number of fingerprints at which the table must grow: half full, or 7/8 for the table
        # of full size, which the intended number of entries fills by half.
        self._room = slots // 2 if slots < self._full_slots else slots - slots // 8

    def insert(self, fps: Sequence[int], candidates: Sequence[int]) -> list[int]:
        """Insert ``fps[i]`` for each i in *candidates* into the table; return each i that was new.

        The caller then calls ``append`` with the new fingerprints, or ``undo``.
        """
        if self._count + len(candidates) > self._room:
            self._grow(self._count + len(candidates))
        slots = self._slots
        mask = self._mask
        new = []
        for index in candidates:
            fp = fps[index]
            # The lowest bits name the preferred slot. Search from there up to an empty slot, 0.
            slot = fp & mask
            occupant = slots[slot]
            while occupant:
                if occupant == fp:
                    break
                slot = (slot + 1) & mask
                occupant = slots[slot]
            else:
                slots[slot] = fp
                new.append(index)
        self._count += len(new)
        return new

    def undo(self, fps: Sequence[int]) -> None:
        """Undo the last ``insert``, whose new fingerprints are *fps*, in order.

        The last entries can be removed from an open-addressing table without tombstones.
        """
        slots = self._slots
        mask = self._mask
        for fp in reversed(fps):
            slot = fp & mask
            while slots[slot] != fp:
                slot = (slot + 1) & mask
            slots[slot] = 0
        self._count -= len(fps)

    def append(self, fps: Sequence[int], kind: int) -> None:
        """Record that *fps* were written to the URL log, in this order, with entries of *kind*."""
        self.order.extend(fps)
        self.kinds += (b"\x01" if kind == WITH_PAYLOAD else b"\x00") * len(fps)

    def replay(self, fps: Sequence[int], *, with_payload: bool) -> int:
        """Add *fps*, read back from the URL log; return how many payloads may be new.

        The log has a fingerprint twice if there was a merge in between.
        """
        new = self.insert(fps, range(len(fps)))
        kinds = bytearray([REPEAT]) * len(fps)
        for index in new:
            kinds[index] = WITH_PAYLOAD if with_payload else SILENT
        self.order.extend(fps)
        self.kinds += kinds
        return len(new) if with_payload else 0

    def __contains__(self, fp: int) -> bool:
        """Return whether the table contains *fp*."""
        slots = self._slots
        mask = self._mask
        # Search as in ``insert``.
        slot = fp & mask
        occupant = slots[slot]
        while occupant:
            if occupant == fp:
                return True
            slot = (slot + 1) & mask
            occupant = slots[slot]
        return False

    def __len__(self) -> int:
        """Return the number of entries in order of arrival, including repeats."""
        return len(self.order)

    def _grow(self, needed: int) -> None:
        """Move the entries to a larger table, with room for *needed* entries."""
        entries = np.frombuffer(self._memory, np.uint64)
        entries = entries[entries != 0]
        self.close()
        slots = max(self._full_slots, 1 << (2 * needed - 1).bit_length())  # half full at most
        self._allocate(slots)

        # Sorted by preferred slot, each entry goes to its slot, or to the one after the previous
        # entry.
        preferred = (entries & np.uint64(self._mask)).astype(np.int64)
        by_slot = preferred.argsort()
        positions = np.arange(len(entries))
        target_slots = np.maximum.accumulate(preferred[by_slot] - positions) + positions
        fits = target_slots < slots
        entries = entries[by_slot]
        np.frombuffer(self._memory, np.uint64)[target_slots[fits]] = entries[fits]
        self._count = int(fits.sum())

        # Entries that would come after the last slot continue at the first one.
        overflowing = entries[~fits].tolist()
        self.insert(overflowing, range(len(overflowing)))

    def close(self) -> None:
        """Free the table's memory; ``order`` and ``kinds`` remain."""
        self._slots.release()
        self._memory.close()
