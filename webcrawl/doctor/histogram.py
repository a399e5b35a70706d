"""Histograms of seconds in powers of two, and those of a process' contacts."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Places: below 1/1024 s, 2/1024 s, 4/1024 s, ... 48 days, and all beyond.
PLACES = 33
_PER_SEC = 1024


class Histogram:
    """Counts of durations: *counts[i]* are below ``2**i / 1024`` seconds and in no place before.

    *total* are their seconds. Under 1 us for each.
    """

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * PLACES
        self.total = 0.0

    def add(self, secs: float) -> None:
        """Count *secs*, of which those below 0 are 0: a timer of the loop may be early."""
        secs = max(secs, 0.0)
        self.counts[min(int(secs * _PER_SEC).bit_length(), PLACES - 1)] += 1
        self.total += secs

    def quantile(self, share: float) -> float:
        """The bound in seconds below which *share* of all are, 0.0 of none."""
        left = share * sum(self.counts)
        for place, count in enumerate(self.counts):
            left -= count
            if count and left <= 0:
                return bound(place)
        return 0.0


def bound(place: int) -> float:
    """The seconds below which the durations of *place* are."""
    return float((1 << place) / _PER_SEC)


@dataclasses.dataclass(slots=True, eq=False, weakref_slot=True)
class Latencies:
    """Histograms of a process: how long its hosts, and it itself, take.

    dns: look-ups of names that name servers were asked for.
    connect: connections that were made, TLS included.
    first_byte, download: from when a request is sent, or its connection begun, to the header of its
        answer, and to its last byte.
    rest: of a host after a contact.
    frontier: from when a URL was found to when it was first sent.
    lag: by which the event loop was late.
    """

    dns: Histogram = dataclasses.field(default_factory=Histogram)
    connect: Histogram = dataclasses.field(default_factory=Histogram)
    first_byte: Histogram = dataclasses.field(default_factory=Histogram)
    download: Histogram = dataclasses.field(default_factory=Histogram)
    rest: Histogram = dataclasses.field(default_factory=Histogram)
    frontier: Histogram = dataclasses.field(default_factory=Histogram)
    lag: Histogram = dataclasses.field(default_factory=Histogram)

    def items(self) -> Iterator[tuple[str, Histogram]]:
        """All of them with their names."""
        return ((one.name, getattr(self, one.name)) for one in dataclasses.fields(self))

    def stats(self) -> dict[str, float]:
        """Count, mean, median and 99th percentile of each that has any, for the crawl's stats."""
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
    """The one of *crawler*, made by the first call."""
    return _latencies.setdefault(crawler, Latencies())
