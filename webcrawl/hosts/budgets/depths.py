"""Fetches URLs in the order of their depths, in crawls with a maximum depth.

A URL keeps the depth at which it was first found, so short paths to it must be found first.
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


# The next depth does not wait for this fraction of the hosts, those with the most URLs.
_LARGEST_HOSTS = 0.05
# Seconds to wait, because new links may still make the reputation gate release URLs.
_SETTLE_SECS = 2.0
# Seconds, so that a single contact that takes several does not delay the next depth.
_FAR_SECS = 10.0


class DepthOrder(Gate):
    """Gate that holds URLs deeper than the depth being fetched, for URL_MAX_DEPTH.

    *hosts* returns the number of hosts that have URLs, plus the pages in process. *coming* returns
    the number of URLs in the eliminator. The next depth starts when, for two seconds, 19 of 20
    hosts have had no URLs left and no URLs have been in the eliminator. It also starts when all
    remaining hosts have been far off (``Supply``) for ten seconds.
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
        # The smallest depth of the URLs that are held.
        self._next = math.inf
        # The maximum number of hosts that the current depth had.
        self._max_hosts = 0
        # When many hosts last had URLs, and when some host was last not far off.
        self._many_at = self._near_at = clock()

    def holds(self, entry: Entry) -> bool:
        """Return whether *entry* is deeper than the depth being fetched."""
        if entry.depth <= self._depth:
            return False
        self._next = min(self._next, entry.depth)
        return True

    def stops(self, entry: Entry) -> bool:  # noqa: ARG002  # part of the interface
        """Return False, because a URL that was admitted is not held later."""
        return False

    def needs_pass(self, supply: Supply) -> bool:
        """Return whether the next depth starts, so that the held URLs are checked again."""
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
