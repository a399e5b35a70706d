"""Settings that can change during a crawl: read at each use, so a new value applies immediately."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Self

from webcrawl.configuration.values import number, positive, whole
from webcrawl.errors import FatalError
from webcrawl.hosts.budgets.quotas import Quota
from webcrawl.hosts.budgets.reputation import ReputationBudget
from webcrawl.hosts.politeness.delays import PolitenessLimits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.settings import BaseSettings

    from webcrawl.frontier import DelayPolicy

# Share of the workers for hosts of one registered domain while others wait: thousands of hosts of a
# tarpit must not occupy all of them.
_DOMAIN_SHARE = 0.1


@dataclasses.dataclass(slots=True, kw_only=True)
class LiveSettings:
    """Settings that can change, one object for the whole process.

    settings: those that it was read from. workers: CONCURRENT_REQUESTS. lease_secs:
    FRONTIER_LEASE_SECS. grace_secs: SHUTDOWN_GRACE_SECS. item_secs: ITEM_TIMEOUT_SECS. delay: delay
    policy of all shards; the built-in one lets factor, floor and ceiling be set. politeness: limits
    to what hosts may ask for, for all shards. quotas: quotas of hosts and of domains, for all
    shards. reputation: budget of domains, for all shards; not used if ``base`` is 0 at the start.
    """

    settings: BaseSettings
    workers: int
    lease_secs: float
    grace_secs: float
    item_secs: float
    delay: DelayPolicy
    politeness: PolitenessLimits
    quotas: Mapping[str, Quota]
    reputation: ReputationBudget

    @classmethod
    def from_settings(cls, settings: BaseSettings, *, delay: DelayPolicy) -> Self:
        """Read the settings. Raises FatalError with one sentence for an invalid value."""
        return cls(
            settings=settings,
            workers=whole(settings, "CONCURRENT_REQUESTS", at_least=1),
            lease_secs=_lease_secs(settings),
            grace_secs=number(settings, "SHUTDOWN_GRACE_SECS", at_least=0),
            item_secs=positive(settings, "ITEM_TIMEOUT_SECS"),
            delay=delay,
            politeness=PolitenessLimits.from_settings(settings),
            quotas={
                word: Quota.from_settings(settings, word.upper()) for word in ("host", "domain")
            },
            reputation=ReputationBudget.from_settings(settings),
        )

    @property
    def hosts_of_domain(self) -> int:
        """Return how many hosts of a registered domain may be in process while others wait."""
        return max(1, int(_DOMAIN_SHARE * self.workers))

    def copy_from(self, other: LiveSettings) -> None:
        """Copy the values of *other* into this object and into those that shards hold."""
        for name in ("settings", "workers", "grace_secs", "item_secs"):
            setattr(self, name, getattr(other, name))
        for word, quota in self.quotas.items():
            _copy(other.quotas[word], quota)
        _copy(other.reputation, self.reputation)
        _copy(other.politeness, self.politeness)


def _copy(values: Any, into: Any) -> None:
    for field in dataclasses.fields(values):
        setattr(into, field.name, getattr(values, field.name))


def _lease_secs(settings: BaseSettings) -> float:
    lease = number(settings, "FRONTIER_LEASE_SECS", at_least=1)
    timeout = number(settings, "DOWNLOAD_TIMEOUT", at_least=0)
    if lease <= timeout:
        raise FatalError(
            f"FRONTIER_LEASE_SECS is {lease:g}, but must be above DOWNLOAD_TIMEOUT, {timeout:g}: "
            "otherwise a host could get two requests at the same time."
        )
    return lease
