"""Counts cache hits by policy and size for one trace, and finds LRU's critical region."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from webcrawl.errors import FatalError
from webcrawl.jobs.caches.measurements import Measurement
from webcrawl.jobs.caches.replay import REPLAYS, stack_distances

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

#: The policies, in the order of columns and figures. "static" holds the most popular URLs of the
#: same trace; as in the paper, loading them is free. "static-charged" counts a miss for each.
POLICIES = "infinite", "min", "lru", "clock", "random", "static", "static-charged"
_MAX_SIZE = 1 << 28


class CacheSimulation:
    """Simulated caches for one trace, which is given by the fingerprints *fps* of its requests.

    counts: the number of requests for each URL, the most popular first.
    distances: the result of ``stack_distances``.
    """

    def __init__(self, fps: NDArray[np.uint64]) -> None:
        numbered = pa.array(fps).dictionary_encode()
        self._ids, self._distinct = numbered.indices.to_numpy(), len(numbered.dictionary)
        self.counts: NDArray[np.int64] = np.sort(np.bincount(self._ids))[::-1]
        self.distances: NDArray[np.int64] = stack_distances(self._ids, self._distinct)

    def measure(
        self,
        policies: Iterable[str],
        sizes: Sequence[int],
        *,
        on_progress: Callable[[int], object],
    ) -> list[Measurement]:
        """Replay the trace into a cache of each of *policies* and *sizes*, and return the hits.

        *on_progress* is called with the number of requests replayed so far.
        """
        requests, measurements = len(self._ids), []
        for number, (policy, size) in enumerate(((p, s) for p in policies for s in sizes), 1):
            measurements.append(Measurement(policy, size, requests, self._hits(policy, size)))
            on_progress(number * requests)
        return measurements

    def _hits(self, policy: str, size: int) -> int:
        """Return the hits of a cache with this *policy* and *size*."""
        distinct = self._distinct
        if policy == "static":
            return int(self.counts[:size].sum())
        if policy == "static-charged":
            return int(self.counts[:size].sum()) - min(size, distinct)
        if policy == "infinite" or size >= distinct:
            return len(self._ids) - distinct
        if policy == "lru":
            return int(self.distances[:size].sum())
        return int(REPLAYS[policy](self._ids, distinct, size))

    def critical_region(self) -> tuple[int, int] | None:
        """Return the two cache sizes between which LRU's hit rate rises most steeply.

        Plotted over the logarithm of the size, the hit rate is compared with a straight line from
        size 1 to a cache that holds all URLs. The region is from the size where the rate is
        farthest below the line to the size where it is farthest above, the knee. In the paper's
        words, a substantially smaller cache is much less effective, and a substantially larger one
        brings little. Returns None if the rate is nowhere above the line.
        """
        max_log = np.log2(max(self._distinct, 2))
        log_sizes = np.linspace(0, max_log, 8 * int(max_log) + 9)
        sizes = np.minimum(np.exp2(log_sizes).astype(np.int64), self._distinct)
        hits = np.cumsum(self.distances)[sizes - 1]
        height_above_line = (hits - hits[0]) / max(1, hits[-1] - hits[0]) - log_sizes / max_log

        knee = int(np.argmax(height_above_line))
        if not knee:
            return None
        return int(sizes[np.argmin(height_above_line[: knee + 1])]), int(sizes[knee])


def region_text(region: tuple[int, int] | None) -> str:
    """Return a sentence about *region*, the result of ``critical_region``."""
    if region is None:
        return (
            "LRU has no critical region: its hit rates never rise above the straight line between "
            "the smallest and the largest cache."
        )
    return f"Critical region of LRU: from {region[0]:,} entries to the knee at {region[1]:,}."


def policies_of(text: str) -> list[str]:
    """Parse *text*, which is ``all`` or policies separated by commas. Raises FatalError."""
    names = [*POLICIES] if text == "all" else text.split(",")
    for name in names:
        if name not in POLICIES:
            raise FatalError(f"Unknown policy {name!r}: use all, or some of {', '.join(POLICIES)}.")
    return names


def sizes_of(text: str) -> list[int]:
    """Parse *text*, sizes such as ``2^0..2^25`` (powers of two) or ``1000,2^16``.

    >>> sizes_of("2^0..2^3,100")
    [1, 2, 4, 8, 100]
    """
    sizes = []
    for part in text.split(","):
        if match := re.fullmatch(r"2\^(\d{1,2})\.\.2\^(\d{1,2})", part):
            sizes += [1 << power for power in range(int(match[1]), int(match[2]) + 1)]
        elif match := re.fullmatch(r"(2\^)?(\d{1,9})", part):
            sizes.append(1 << min(int(match[2]), 64) if match[1] else int(match[2]))
    if not sizes or "" in text.split(",") or not all(1 <= size <= _MAX_SIZE for size in sizes):
        raise FatalError(
            f"--sizes must be like 2^0..2^25 or 1000,2^16, each from 1 to 2^28, not {text!r}."
        )
    return sorted({*sizes})
