"""Depth budgets: links followed since a URL's host, and its registered domain, were entered.

A link from elsewhere, and a seed, enter a host at depth 0. A link that is too deep is refused
before it counts as seen: a shorter way may turn up later.

One that is not too deep counts as seen with the depth at which it was found, though: `DepthOrder`
lets the short ways be found first.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from webcrawl.configuration.values import whole
from webcrawl.frontier import Supply
from webcrawl.frontier.admission import Gate
from webcrawl.urls.registered_domain import registered_domain

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import BaseSettings

    from webcrawl.frontier import Entry


# The share of the hosts of a depth that the next one does not wait for: the largest ones.
_NOT_AWAITED: Final = 0.05
# Seconds in which links to domains may let in more of what their reputation holds.
_SETTLE_SECS: Final = 2.0
# One contact that takes seconds puts nothing off.
_FAR_SECS: Final = 10.0


class Depths(NamedTuple):
    """Links followed since the *host* and since the *domain* was entered."""

    host: int = 0
    domain: int = 0

    @classmethod
    def of_entry(cls, entry: Entry) -> Depths:
        """The depths of a URL that is being fetched."""
        return cls(entry.host_depth, entry.domain_depth)

    def deeper(self) -> Depths:
        """The depths of the links of a page with these."""
        return Depths(self.host + 1, self.domain + 1)

    def of(self, host: str, *, via_host: str, via_domain: str) -> Depths:
        """The depths of a URL of *host*, if these hold within the host and domain that link to
        it."""
        if host == via_host:
            return self
        return Depths(0, self.domain if registered_domain(host) == via_domain else 0)


class DepthBudgets(NamedTuple):
    """The largest depths within a *host* and within a *domain*; 0: no limit."""

    host: int = 0
    domain: int = 0

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> DepthBudgets:
        """BUDGET_HOST_DEPTH and BUDGET_DOMAIN_DEPTH; FatalError for a bad value."""
        return cls(
            whole(settings, "BUDGET_HOST_DEPTH", at_least=0),
            whole(settings, "BUDGET_DOMAIN_DEPTH", at_least=0),
        )

    def refusal(self, depths: Depths) -> str | None:
        """The name of the budget that refuses a URL."""
        if 0 < self.host < depths.host:
            return "host_depth"
        return "domain_depth" if 0 < self.domain < depths.domain else None


class DepthOrder(Gate):
    """Gate that holds URLs deeper than the depth that is being fetched, with URL_MAX_DEPTH.

    The next depth begins when 19 in 20 of the hosts have no URLs any more, and no new ones are
    *coming* from the eliminator, for two seconds, or when all others have been far off (``Supply``)
    for ten. *hosts* gives the number of hosts that have some, and of pages in process.
    """

    name = "depth"
    may_outlive_crawl = False

    def __init__(
        self, *, hosts: Callable[[], int], coming: Callable[[], int], clock: Callable[[], float]
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
