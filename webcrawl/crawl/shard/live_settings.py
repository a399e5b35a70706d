"""Settings that can change during a crawl: read at each use, so that changes apply immediately."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from scrapy.settings import BaseSettings

from webcrawl.configuration.values import number, positive_number, whole_number
from webcrawl.errors import FatalError
from webcrawl.frontier import DelayPolicy
from webcrawl.hosts.budgets.quotas import Quota
from webcrawl.hosts.budgets.reputation import ReputationBudget
from webcrawl.hosts.politeness.delays import PolitenessLimits

# Share of the workers that one registered domain may occupy while other domains wait. Without it, a
# tarpit with thousands of hosts could occupy all workers.
_DOMAIN_SHARE = 0.1


class LiveSettings:
    """Settings that can change during a crawl; one object for all shards of the process.

    settings: the Scrapy settings that the values come from.
    workers: CONCURRENT_REQUESTS.
    lease_secs: FRONTIER_LEASE_SECS.
    grace_secs: SHUTDOWN_GRACE_SECS.
    item_secs: ITEM_TIMEOUT_SECS.
    delay: the delay policy; the factor, floor and ceiling of the built-in one can be set.
    politeness: limits of the pauses that hosts may ask for.
    quotas: the quotas of hosts ("host") and of domains ("domain").
    reputation: the page budget of domains; not used if ``base`` is 0 at the start.
    """

    def __init__(self, settings: BaseSettings, *, delay: DelayPolicy) -> None:
        """Read *settings*. Raises FatalError with one sentence for an invalid value."""
        self.settings = settings
        self.workers = whole_number(settings, "CONCURRENT_REQUESTS", at_least=1)
        self.lease_secs = _lease_secs(settings)
        self.grace_secs = number(settings, "SHUTDOWN_GRACE_SECS", at_least=0)
        self.item_secs = positive_number(settings, "ITEM_TIMEOUT_SECS")
        self.delay = delay
        self.politeness = PolitenessLimits.from_settings(settings)
        self.quotas = {
            name: Quota.from_settings(settings, name.upper()) for name in ("host", "domain")
        }
        self.reputation = ReputationBudget.from_settings(settings)

    @property
    def hosts_of_domain(self) -> int:
        """Return how many hosts of one domain may be in process while other domains wait."""
        return max(1, int(_DOMAIN_SHARE * self.workers))

    def copy_from(self, other: LiveSettings) -> None:
        """Copy the values of *other* into this object, and into its parts that shards refer to.

        ``lease_secs`` and ``delay`` stay as they are, because they cannot be changed during a
        crawl.
        """
        for name in ("settings", "workers", "grace_secs", "item_secs"):
            setattr(self, name, getattr(other, name))
        for name, quota in self.quotas.items():
            _copy_fields(other.quotas[name], quota)
        _copy_fields(other.reputation, self.reputation)
        _copy_fields(other.politeness, self.politeness)


def _copy_fields(source: Any, target: Any) -> None:
    """Copy all fields of the dataclass *source* to *target*, which has the same type."""
    for field in fields(source):
        setattr(target, field.name, getattr(source, field.name))


def _lease_secs(settings: BaseSettings) -> float:
    """Return FRONTIER_LEASE_SECS; raise FatalError unless it exceeds DOWNLOAD_TIMEOUT."""
    lease = number(settings, "FRONTIER_LEASE_SECS", at_least=1)
    timeout = number(settings, "DOWNLOAD_TIMEOUT", at_least=0)
    if lease <= timeout:
        raise FatalError(
            f"FRONTIER_LEASE_SECS is {lease:g}, but must be above DOWNLOAD_TIMEOUT, {timeout:g}: "
            "otherwise a host could get two requests at the same time."
        )
    return lease
