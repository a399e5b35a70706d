"""The order of depths, where these are bounded.

A URL counts as seen with the depth at which it was found first: short ways must be found before.
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


# The share of the hosts of a depth that the next one does not wait for: the largest ones.
_NOT_AWAITED = 0.05
# Seconds in which links to domains may let in more of what their reputation holds.
_SETTLE_SECS = 2.0
# One contact that takes seconds puts nothing off.
_FAR_SECS = 10.0


class DepthOrder(Gate):
    """Gate that holds URLs deeper than the depth that is being fetched, with URL_MAX_DEPTH.

    The next depth begins when 19 in 20 of the hosts have no URLs any more, and no new ones are
    *coming* from the eliminator, for two seconds, or when all others have been far off (``Supply``)
    for ten. *hosts* gives the number of hosts that have some, and of pages in process.
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
        # The smallest depth that is held, and the most hosts that the present one had.
        self._next = math.inf
        self._most = 0
        # Until then more hosts had URLs; and some of them were not far off.
        self._many_at = self._near_at = clock()

    def holds(self, entry: Entry) -> bool:
        if entry.depth <= self._depth:
            return False
        self._next = min(self._next, entry.depth)
        return True

    def stops(self, entry: Entry) -> bool:  # noqa: ARG002  # part of the interface
        """False: a URL that was let in stays so."""
        return False

    def needs_pass(self, supply: Supply) -> bool:
        """Whether the next depth begins."""
        hosts, now = self._hosts(), self._clock()
        self._most = max(self._most, hosts)
        if supply < Supply.LATER:
            self._near_at = now
        if supply is Supply.NOW or hosts > _NOT_AWAITED * self._most or self._coming():
            self._many_at = now
        is_over = now >= self._many_at + _SETTLE_SECS or now >= self._near_at + _FAR_SECS
        if self._next == math.inf or not is_over:
            return False
        self._depth, self._next, self._most = self._next, math.inf, 0
        return True
