"""Origin rests: single origins (scheme, host, port) that back off while their host answers.

A failing port says nothing about the others: it backs off by itself, and its URLs wait at a gate.
delays.py sets the rest, which is also in the record of its origin, for the time after a restart.
What is in memory is bounded, as a page may name 65,535 ports. Invariant: held URLs are let in when
their origin's rest is over, or a little later; a crawl does not end before.
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

# Origins whose rests are in memory, 0.2 kB each; the oldest are forgotten, and tried earlier.
_ORIGINS = 1 << 14
# Seconds between two looks at what is held, and for each URL that is.
_LOOK_EVERY = 1.0
_LOOK_EVERY_PER_URL = 1e-4


class OriginRests(Gate):
    """The rests of failing origins, and the gate that holds their URLs.

    *records* has the host records of origins, *clock* gives epoch seconds.
    """

    name = "failing_origin"
    spares_visits = False
    may_outlive_crawl = False

    def __init__(self, *, records: HostRecords, clock: TimeSource) -> None:
        self._records = records
        self._clock = clock
        # When each origin's rest is over.
        self._until: OrderedDict[str, float] = OrderedDict()
        self._looked_at = 0.0
        self._held = 0

    def rest(self, origin: str, secs: float) -> None:
        """Let *origin* rest."""
        self._until.pop(origin, None)
        self._until[origin] = self._clock() + secs
        if len(self._until) > _ORIGINS:
            self._until.popitem(last=False)

    def holds(self, entry: Entry) -> bool:
        """0.5 us while some origin rests."""
        if not self._until or self._until.get(origin_of(entry.url), 0.0) <= self._clock():
            return False
        self._held += 1
        return True

    def stops(self, entry: Entry) -> bool:
        """Whether the origin's record, which survives the process, has a rest."""
        origin = origin_of(entry.url)
        if origin and origin not in self._until:
            ready_at = self._records.get(origin).ready_at
            if ready_at and (secs := ready_at - self._clock()) > 0:
                self.rest(origin, secs)
        return self.holds(entry)

    def needs_pass(self, supply: Supply) -> bool:  # noqa: ARG002  part of the interface
        """Whether the rest of an origin is over."""
        now = self._clock()
        if now < self._looked_at + max(_LOOK_EVERY, _LOOK_EVERY_PER_URL * self._held):
            return False
        self._looked_at = now
        over = [origin for origin, until in self._until.items() if until <= now]
        for origin in over:
            del self._until[origin]
        if over:
            self._held = 0
        return bool(over)
