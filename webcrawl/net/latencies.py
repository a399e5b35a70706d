"""Histograms of durations in powers of two, and the latencies of a process."""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakKeyDictionary

#: Number of buckets: below 1/1024 s, 2/1024 s, 4/1024 s, ... 48 days, and all longer durations.
BUCKETS = 33
_PER_SEC = 1024


class Histogram:
    """Histogram of durations, with buckets by powers of two.

    ``counts[i]`` is the number of durations below ``2**i / 1024`` seconds that are not in an
    earlier bucket. ``total`` is their sum in seconds. Adding a duration takes less than 1 us.
    """

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.total = 0.0

    def add(self, secs: float) -> None:
        """Add the duration *secs*. Negative ones count as 0: event loop timers may be early."""
        secs = max(secs, 0.0)
        # The bit length of n is the smallest i with n < 2**i.
        self.counts[min(int(secs * _PER_SEC).bit_length(), BUCKETS - 1)] += 1
        self.total += secs

    def quantile(self, share: float) -> float:
        """Return the upper bound, in seconds, of the bucket with quantile *share*; 0.0 if empty."""
        remaining = share * sum(self.counts)
        for bucket, count in enumerate(self.counts):
            remaining -= count
            if count and remaining <= 0:
                return bound(bucket)
        return 0.0


def bound(bucket: int) -> float:
    """Return the upper bound in seconds of the *bucket* with this index."""
    return float((1 << bucket) / _PER_SEC)


class Latencies:
    """Latency histograms of a process and the hosts that it contacts.

    dns: look-ups that were sent to name servers.
    connect: opening a connection, including TLS.
    first_byte: from sending a request, or opening its connection, to the header of the response.
    download: from the same time to the last byte of the response.
    rest: pause of a host after a request.
    frontier: from finding a URL to sending its first request.
    lag: delay of the event loop.
    """

    dns: Histogram
    connect: Histogram
    first_byte: Histogram
    download: Histogram
    rest: Histogram
    frontier: Histogram
    lag: Histogram

    def __init__(self) -> None:
        for name in Latencies.__annotations__:
            setattr(self, name, Histogram())

    def items(self) -> Iterable[tuple[str, Histogram]]:
        """Return all histograms with their names."""
        return vars(self).items()

    def stats(self) -> dict[str, float]:
        """Return count, mean, median and 99th percentile of all histograms with data.

        The result is keyed by the names in the crawl's stats.
        """
        stats: dict[str, float] = {}
        for name, histogram in self.items():
            if count := sum(histogram.counts):
                stats[f"latency/{name}/count"] = count
                stats[f"latency/{name}/mean_secs"] = round(histogram.total / count, 4)
                stats[f"latency/{name}/median_secs"] = round(histogram.quantile(0.5), 4)
                stats[f"latency/{name}/slow_secs"] = round(histogram.quantile(0.99), 4)
        return stats


_latencies: WeakKeyDictionary[object, Latencies] = WeakKeyDictionary()


def latencies_of(crawler: object) -> Latencies:
    """Return the latencies of *crawler*; the first call creates them."""
    return _latencies.setdefault(crawler, Latencies())
