"""Histograms of durations in powers of two, and the latencies of a process."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Number of buckets: below 1/1024 s, 2/1024 s, 4/1024 s, ... 48 days, and the rest.
BUCKETS = 33
_PER_SEC = 1024


class Histogram:
    """Counts of durations by power of two.

    *counts[i]* are those below ``2**i / 1024`` seconds that are not in an earlier bucket. *total*
    is the sum in seconds. Adding one takes less than 1 us.
    """

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.total = 0.0

    def add(self, secs: float) -> None:
        """Count *secs*; below 0 it counts as 0, because a timer of the event loop may be early."""
        secs = max(secs, 0.0)
        self.counts[min(int(secs * _PER_SEC).bit_length(), BUCKETS - 1)] += 1
        self.total += secs

    def quantile(self, share: float) -> float:
        """Return the upper bound in seconds of the bucket with this quantile; 0.0 if empty."""
        left = share * sum(self.counts)
        for place, count in enumerate(self.counts):
            left -= count
            if count and left <= 0:
                return bound(place)
        return 0.0


def bound(place: int) -> float:
    """Return the upper bound in seconds of the bucket *place*."""
    return float((1 << place) / _PER_SEC)


@dataclasses.dataclass(slots=True, eq=False, weakref_slot=True)
class Latencies:
    """Latency histograms of a process and the hosts that it contacts.

    dns: lookups that name servers were asked for.
    connect: opening a connection, with TLS.
    first_byte, download: from sending a request, or opening its connection, to the header of its
        response and to its last byte.
    rest: pause of a host after a request.
    frontier: from the moment a URL was found to its first request.
    lag: delay of the event loop.
    """

    dns: Histogram = dataclasses.field(default_factory=Histogram)
    connect: Histogram = dataclasses.field(default_factory=Histogram)
    first_byte: Histogram = dataclasses.field(default_factory=Histogram)
    download: Histogram = dataclasses.field(default_factory=Histogram)
    rest: Histogram = dataclasses.field(default_factory=Histogram)
    frontier: Histogram = dataclasses.field(default_factory=Histogram)
    lag: Histogram = dataclasses.field(default_factory=Histogram)

    def items(self) -> Iterator[tuple[str, Histogram]]:
        """Return all histograms with their names."""
        return ((one.name, getattr(self, one.name)) for one in dataclasses.fields(self))

    def stats(self) -> dict[str, float]:
        """Return count, mean, median and 99th percentile of each non-empty one, by stats key."""
        found: dict[str, float] = {}
        for name, one in self.items():
            if count := sum(one.counts):
                found[f"latency/{name}/count"] = count
                found[f"latency/{name}/mean_secs"] = round(one.total / count, 4)
                found[f"latency/{name}/median_secs"] = round(one.quantile(0.5), 4)
                found[f"latency/{name}/slow_secs"] = round(one.quantile(0.99), 4)
        return found


_latencies: WeakKeyDictionary[object, Latencies] = WeakKeyDictionary()


def latencies_of(crawler: object) -> Latencies:
    """Return the latencies of *crawler*; the first call creates them."""
    return _latencies.setdefault(crawler, Latencies())
