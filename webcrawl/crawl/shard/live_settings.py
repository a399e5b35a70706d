"""Settings that may change while a crawl runs: read at each use, so a new value holds at once."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webcrawl.frontier import DelayPolicy
    from webcrawl.hosts.budgets.quotas import Quota
    from webcrawl.hosts.budgets.reputation import ReputationBudget
    from webcrawl.hosts.politeness.delays import PolitenessLimits


@dataclasses.dataclass(slots=True, kw_only=True)
class LiveSettings:
    """One object for the whole process.

    workers: CONCURRENT_REQUESTS.
    lease_secs: FRONTIER_LEASE_SECS.
    grace_secs: SHUTDOWN_GRACE_SECS.
    item_secs: ITEM_TIMEOUT_SECS.
    delay: delay policy of all shards; of the project's own, factor, floor and ceiling may be set.
    politeness: limits of what hosts may ask for, of all shards.
    quotas: those of hosts and of domains, of all shards.
    reputation: budget of domains, of all shards; there is none if ``base`` is 0 at the start.
    """

    workers: int
    lease_secs: float
    grace_secs: float
    item_secs: float
    delay: DelayPolicy
    politeness: PolitenessLimits
    quotas: Mapping[str, Quota]
    reputation: ReputationBudget
