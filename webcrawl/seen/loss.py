"""How many new URLs a Bloom filter hides: what theory expects, and an estimate from a sample.

The Bloom eliminator reports every test to it. The invariant: for the sampled fingerprints it
knows exactly which have been submitted.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pybloom_live import BloomFilter

# Fingerprints divisible by this are kept: 8 bytes each on disk and 100 in memory.
SAMPLE = 1024
# The filter's error rate is worked out again after this many new fingerprints.
_EVERY = 100


class LossMeter:
    """Count of the URLs hidden. *sample*: the sampled fingerprints submitted so far; *expected*,
    *lost*: counts so far."""

    def __init__(self, *, sample: Iterable[int] = (), expected: float = 0.0, lost: int = 0) -> None:
        self.expected = expected
        self.lost = lost
        self._sample = set(sample)
        self._rate = 0.0
        self._until_next = 0

    def seen(self, fp: int) -> None:
        """The filter called *fp* seen."""
        if not fp % SAMPLE and fp not in self._sample:
            self._sample.add(fp)
            self.lost += 1

    def new(self, fps: Sequence[int], filters: Sequence[BloomFilter]) -> None:
        """The filter, which consists of *filters*, called *fps* new."""
        self._until_next -= len(fps)
        if self._until_next < 0:
            self._rate = error_rate(filters)
            self._until_next = _EVERY
        # Of the new ones tested, 1 - rate are called new: for each there were rate / (1 - rate)
        # that were not.
        self.expected += len(fps) * self._rate / (1.0 - self._rate)
        for fp in fps:
            if not fp % SAMPLE:
                self._sample.add(fp)

    @property
    def measured(self) -> int:
        """New URLs hidden so far, from the sample: correct to about 1,024 times the square root
        of the number of sampled losses."""
        return self.lost * SAMPLE

    def sample(self) -> array[int]:
        """The sampled fingerprints."""
        return array("Q", self._sample)


def error_rate(filters: Sequence[BloomFilter]) -> float:
    """The probability that at least one of *filters*, as full as they are, calls a new one seen."""
    right = 1.0
    for held in filters:
        # Each slice of bits_per_slice bits has had count bits set at random.
        filled = 1.0 - (1.0 - 1.0 / held.bits_per_slice) ** held.count
        right *= 1.0 - filled**held.num_slices
    return 1.0 - right
