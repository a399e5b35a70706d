"""The order of depths in crawls with a maximum depth.

A URL counts as seen with the depth at which it was first found, so short paths must be found first.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from webcrawl.frontier import Supply
from webcrawl.frontier.admission import Gate

if TYPE_CHECKING:
    from collections.abc import Callable

    from webcrawl.clock import TimeSource
    from webcrawl.frontier import Entry


# The fraction of a depth's hosts, the largest, that the next depth does not wait for.
_LARGEST_HOSTS = 0.05
# Seconds in which links to domains may still admit URLs that the reputation gate holds.
_SETTLE_SECS = 2.0
# Seconds, so that a single contact that takes several does not delay the next depth.
_FAR_SECS = 10.0


class DepthOrder(Gate):
    """Gate that holds URLs deeper than the depth being fetched, for URL_MAX_DEPTH.

    The next depth begins when, for two seconds, 19 of 20 hosts have had no URLs left and no new
    ones have been *coming* from the eliminator. It also begins when all remaining hosts have been
    far off (``Supply``) for ten seconds. *hosts* returns the number of hosts that have URLs, plus
    the pages in process.
    """

    name = "depth"
    may_outlive_crawl = False

    def __init__(
        self, *, hosts: Callable[[], int], coming: Callable[[], int], clock: TimeSource
    ) -> None:
        self._hosts = hosts
        self._coming = coming
        self._clock = clock
        self._depth: float = 0
        # The smallest depth that is held, and the most hosts that the current one had.
        self._next = math.inf
        self._max_hosts = 0
        # When more hosts last had URLs, and when some of them were last not far off.
        self._many_at = self._near_at = clock()

    def holds(self, entry: Entry) -> bool:
        if entry.depth <= self._depth:
            return False
        self._next = min(self._next, entry.depth)
        return True

    def stops(self, entry: Entry) -> bool:  # noqa: ARG002  # part of the interface
        """Return False: a URL that was admitted stays so."""
        return False

    def needs_pass(self, supply: Supply) -> bool:
        """Return whether the next depth begins."""
        hosts, now = self._hosts(), self._clock()
        self._max_hosts = max(self._max_hosts, hosts)
        if supply < Supply.LATER:
            self._near_at = now
        if supply is Supply.NOW or hosts > _LARGEST_HOSTS * self._max_hosts or self._coming():
            self._many_at = now
        is_over = now >= self._many_at + _SETTLE_SECS or now >= self._near_at + _FAR_SECS
        if self._next == math.inf or not is_over:
            return False
        self._depth, self._next, self._max_hosts = self._next, math.inf, 0
        return True
