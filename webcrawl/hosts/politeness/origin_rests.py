"""Origin rests: single origins (scheme, host, port) that back off while their host does not.

A failing port says nothing about the others, so it backs off alone, and its URLs wait at a gate.
delays.py sets the rest, and also stores it in the origin's record, so that it survives a restart.

While no origin of a host has answered, its ports are tried in turn, that with the most URLs first.
The URLs of the others wait here as well, so that they take nothing of a budget. Turns are not
stored: after a restart they begin with any port.

Memory is bounded, as a page may link to 65,535 ports. Invariant: held URLs are admitted when the
rest of their origin is over and it has its turn, or a little later, and the crawl does not end
before that.
"""

from __future__ import annotations

import math
from collections import Counter

from scrapy.utils.datatypes import LocalCache

from webcrawl.clock import TimeSource
from webcrawl.frontier import Entry, Supply
from webcrawl.frontier.admission import Gate
from webcrawl.hosts.records import HostRecords
from webcrawl.urls import host_of, origin_of
from webcrawl.urls.host import host_and_origin

# Number of origins whose rests are in memory, 0.2 kB each. Older ones are forgotten, so their URLs
# are tried again too early. As many URLs are counted of those that wait for a turn.
_ORIGINS = 1 << 14
# Seconds between two passes over the held URLs: a minimum in all, and a minimum for each URL.
_PASS_SECS = 1.0
_PASS_SECS_PER_URL = 1e-4
# Seconds after which new turns begin, because some may have ended without a contact.
_TURN_SECS = 60.0


class OriginRests(Gate):
    """Gate that holds URLs of origins that rest, or that must wait for their turn.

    *records* stores the host records of origins; *clock* returns epoch seconds.
    """

    name = "failing_origin"
    spares_visits = False
    may_outlive_crawl = False

    def __init__(self, *, records: HostRecords, clock: TimeSource) -> None:
        self._records = records
        self._clock = clock
        # Origin -> when its rest is over.
        self._until: LocalCache[str, float] = LocalCache(_ORIGINS)
        # Host without an answer so far -> the origin whose turn it is, "" before the next pass.
        self._turns: dict[str, str] = {}
        # (host, origin) -> how many URLs wait for its turn.
        self._waiting: Counter[tuple[str, str]] = Counter()
        # When all turns end, because some may have ended without a contact.
        self._turns_until = 0.0
        # Time of the last pass over the held URLs, and the number of URLs held since.
        self._passed_at = 0.0
        self._held = 0

    def rest(self, origin: str, secs: float) -> None:
        """Let *origin* rest for *secs* seconds."""
        self._until[origin] = self._clock() + secs
        self._until.move_to_end(origin)

    def end_contact(self, url: str, rest: float) -> None:
        """End the turn of the origin of *url*, just contacted, which rests for *rest* seconds."""
        if rest:
            self.rest(origin_of(url), rest)
        if self._turns and (host := host_of(url)) in self._turns:
            self._turns[host] = ""

    def room(self, entry: Entry) -> float:
        """Return 0 if the origin of *entry* rests or waits for its turn, else infinity. 0.5 us.

        If no other port of the host has the turn, it is given to this origin.
        """
        host, origin = host_and_origin(entry.url)
        is_held = self._is_resting(origin) or (
            origin.count(":") > 1 and not self._take_turn(host, origin)
        )
        return 0 if is_held else math.inf

    def note_held(self, entry: Entry, count: int) -> None:
        """Record that *count* URLs of the origin of *entry* wait."""
        host, origin = host_and_origin(entry.url)
        if self._held < _ORIGINS and not self._is_resting(origin):
            self._waiting[host, origin] += count
        self._held += count

    def _is_resting(self, origin: str) -> bool:
        return self._until.get(origin, 0.0) > self._clock()

    def _take_turn(self, host: str, origin: str) -> bool:
        """Give *origin*, a port of *host*, the turn if no other port has it.

        Returns whether it has the turn, or needs none.
        """
        record = self._records.get(host)
        # A host that has answered, or that is given up, needs no turns.
        is_free = bool(record.proven or record.penalty_until)
        return is_free or self._turns.setdefault(host, origin) == origin

    def stop(self, entry: Entry) -> bool:
        """Do as ``hold``, but also if the origin is resting according to its record on disk."""
        origin = origin_of(entry.url)
        if origin and origin not in self._until:
            ready_at = self._records.get(origin).ready_at
            if ready_at and (secs := ready_at - self._clock()) > 0:
                self.rest(origin, secs)
        return self.hold(entry)

    def advance(self, supply: Supply) -> bool:
        """End rests and turns that are over; return whether there were any since the last pass."""
        now = self._clock()
        if now < self._passed_at + max(_PASS_SECS, _PASS_SECS_PER_URL * self._held):
            return False
        self._passed_at = now
        over = [origin for origin, until in self._until.items() if until <= now]
        for origin in over:
            del self._until[origin]
        # If there is nothing else to fetch, no contact is under way, so no turn will end.
        if supply is Supply.NONE or now > self._turns_until:
            self._turns.clear()
            self._turns_until = now + _TURN_SECS
        for (host, origin), _ in self._waiting.most_common():
            if not self._turns.get(host):
                self._turns[host] = origin
                over.append(origin)
        # The held URLs are checked again: those that must still wait are counted again.
        if over:
            self._held = 0
            self._waiting.clear()
        return bool(over)
