"""Depth budgets: links followed since a URL's host, and its registered domain, were entered.

A link from elsewhere, and a seed, enter a host at depth 0. A link that is too deep is refused
before it counts as seen: a shorter way may turn up later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from webcrawl.configuration.values import whole
from webcrawl.urls.registered_domain import registered_domain

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from webcrawl.frontier import Entry


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
