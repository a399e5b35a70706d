"""Origin rests: single origins (scheme, host, port) that back off while their host answers.

A failing port says nothing about the others, so it backs off alone, and its URLs wait at a gate.
delays.py sets the rest, and also stores it in the origin's record, so that it survives a restart.
Memory is bounded, as a page may link to 65,535 ports. Invariant: held URLs are admitted when the
rest of their origin is over, or a little later, and the crawl does not end before that.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from webcrawl.frontier.admission import Gate
from webcrawl.urls import origin_of

if TYPE_CHECKING:
    from webcrawl.clock import TimeSource
    from webcrawl.frontier import Entry, Supply
    from webcrawl.hosts.records import HostRecords

# Number of origins whose rests are in memory, 0.2 kB each. Older ones are forgotten, so their URLs
# are tried again too early.
_ORIGINS = 1 << 14
# Seconds between two passes over the held URLs: a minimum in all, and a minimum for each URL.
_PASS_SECS = 1.0
_PASS_SECS_PER_URL = 1e-4


class OriginRests(Gate):
    """Gate that holds the URLs of failing origins while these rest.

    *records* stores the host records of origins; *clock* returns epoch seconds.
    """

    name = "failing_origin"
    spares_visits = False
    may_outlive_crawl = False

    def __init__(self, *, records: HostRecords, clock: TimeSource) -> None:
        self._records = records
        self._clock = clock
        # Origin -> when its rest is over.
        self._until: OrderedDict[str, float] = OrderedDict()
        self._passed_at = 0.0
        self._held = 0

    def rest(self, origin: str, secs: float) -> None:
        """Let *origin* rest for *secs* seconds."""
        self._until.pop(origin, None)
        self._until[origin] = self._clock() + secs
        if len(self._until) > _ORIGINS:
            self._until.popitem(last=False)

    def holds(self, entry: Entry) -> bool:
        """Return whether the origin of *entry* is resting. Takes 0.5 us if any origin is."""
        if not self._until or self._until.get(origin_of(entry.url), 0.0) <= self._clock():
            return False
        self._held += 1
        return True

    def stops(self, entry: Entry) -> bool:
        """Return whether the origin of *entry* is resting, according to memory or to its record."""
        origin = origin_of(entry.url)
        if origin and origin not in self._until:
            ready_at = self._records.get(origin).ready_at
            if ready_at and (secs := ready_at - self._clock()) > 0:
                self.rest(origin, secs)
        return self.holds(entry)

    def needs_pass(self, supply: Supply) -> bool:  # noqa: ARG002  part of the interface
        """Return whether the rest of any origin has ended since the last pass."""
        now = self._clock()
        if now < self._passed_at + max(_PASS_SECS, _PASS_SECS_PER_URL * self._held):
            return False
        self._passed_at = now
        over = [origin for origin, until in self._until.items() if until <= now]
        for origin in over:
            del self._until[origin]
        if over:
            self._held = 0
        return bool(over)
