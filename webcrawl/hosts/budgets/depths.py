"""Fetches URLs in the order of their depths, in crawls with a maximum depth.

A URL keeps the depth at which it was first found, so short paths to it must be found first.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from webcrawl.clock import TimeSource
from webcrawl.frontier import Entry, Supply
from webcrawl.frontier.admission import Gate

# The next depth does not wait for this fraction of the hosts, those with the most URLs.
_LARGEST_HOSTS = 0.05
# Seconds to wait, because new links may still make the reputation gate release URLs.
_SETTLE_SECS = 2.0
# Seconds, so that a single contact that takes several does not delay the next depth.
_FAR_SECS = 10.0


class DepthOrder(Gate):
    """Gate that holds URLs deeper than the depth being fetched, for URL_MAX_DEPTH.

    *hosts* returns the number of hosts that have URLs, plus the pages in process. *count_coming*
    returns the number of URLs in the eliminator. The next depth starts when, for two seconds, 19 of
    20 hosts have had no URLs left and no URLs have been in the eliminator. It also starts when all
    remaining hosts have been far off (``Supply``) for ten seconds.
    """

    name = "depth"
    stops_admitted = False
    may_outlive_crawl = False

    def __init__(
        self, *, hosts: Callable[[], int], count_coming: Callable[[], int], clock: TimeSource
    ) -> None:
        self._hosts = hosts
        self._count_coming = count_coming
        self._clock = clock
        self._depth: float = 0
        # The smallest depth of the URLs that are held.
        self._next_depth = math.inf
        # The maximum number of hosts that the current depth had.
        self._max_hosts = 0
        # When many hosts last had URLs.
        self._last_busy_at = clock()
        # When some host was last not far off.
        self._last_due_soon_at = self._last_busy_at

    def must_wait(self, entry: Entry) -> bool:
        """Return whether *entry* is deeper than the depth being fetched."""
        return entry.depth > self._depth

    def note_held(self, entry: Entry, count: int) -> None:  # noqa: ARG002  # part of the interface
        """Record that URLs at the depth of *entry* are held."""
        self._next_depth = min(self._next_depth, entry.depth)

    def advance(self, supply: Supply) -> bool:
        """Start the next depth if the current one is over; return whether it was started."""
        hosts = self._hosts()
        now = self._clock()
        self._max_hosts = max(self._max_hosts, hosts)
        if supply < Supply.LATER:
            self._last_due_soon_at = now
        if supply is Supply.NOW or hosts > _LARGEST_HOSTS * self._max_hosts or self._count_coming():
            self._last_busy_at = now
        # Nothing is left to fetch but on the largest hosts, or all hosts have been far off.
        is_over = (
            now >= self._last_busy_at + _SETTLE_SECS or now >= self._last_due_soon_at + _FAR_SECS
        )
        if self._next_depth == math.inf or not is_over:
            return False
        self._depth = self._next_depth
        self._next_depth = math.inf
        self._max_hosts = 0
        return True
