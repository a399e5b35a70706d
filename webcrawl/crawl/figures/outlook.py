"""Samples of a crawl for its projection.

A sample says what is left, and how long the longest queues will take.
"""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING

from webcrawl.clock import now
from webcrawl.doctor.projection import Sample
from webcrawl.frontier.host_parts import host_of_key
from webcrawl.urls.registered_domain import registered_domain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webcrawl.crawl.shard.shard import Shard
    from webcrawl.crawl.shard.shards import Shards
    from webcrawl.hosts.budgets.quotas import Quota

# Seconds that a retried URL costs its host, whose pauses double from 10 s on; and the largest share
# of such URLs.
_RETRY_SECS = 20.0
_MAX_RETRY_SHARE = 0.5


def sample_of(shards: Shards, quotas: Mapping[str, Quota]) -> Sample:
    """Return a sample of *shards* now.

    *quotas* of pages end some queues early. 1 ms for each shard.
    """
    stats = defaultdict(int, shards.stats())
    new_share = stats["seen/new"] / max(stats["seen/submitted"] - stats["seen/waiting"], 1)
    parked = sum(sum(shard.admission.postponed.values()) for shard in shards)
    urls_left = stats["frontier/waiting"] + stats["seen/waiting"] * new_share + parked
    min_secs = max_secs = bound = each = 0.0
    queues = [(shard, queue) for shard in shards for queue in shard.frontier.longest_tails()]
    usual = median([queue.period for _, queue in queues if queue.period] or [0.0])
    for shard, queue in queues:
        host, ready_in = host_of_key(queue.host), max(queue.ready_at - shard.clock(), 0.0)
        rest, period = queue.min_rest or usual, max(queue.min_rest, queue.period) or usual
        # The pauses of a failing host grow until it answers or is given up.
        if shard.hosts.records.get(host).failures:
            rest = period = usual
        allowed = _allowed(shard, host, quotas)
        urls = min(len(queue), allowed)
        urls_left -= len(queue) - urls
        min_secs = max(min_secs, ready_in + (urls - 1) * rest)
        bound = max(bound, ready_in + allowed * period)
        # Assume that one more URL is found.
        max_secs, each = max((max_secs, each), (ready_in + (urls + 1) * period, period))
    retry_secs = stats["frontier/requeued"] / max(stats["frontier/finished"], 1) * _RETRY_SECS
    ready, resting = (stats[f"frontier/hosts/{state}"] for state in ("ready", "snoozed"))
    return Sample(
        *(now(), int(stats["frontier/finished"]), urls_left, min_secs, max_secs + parked * each),
        bound=bound or math.inf,
        again=min(retry_secs / (each or 1), _MAX_RETRY_SHARE),
        ready=ready / max(ready + resting, 1),
        due=int(stats["frontier/due"]),
    )


def _allowed(shard: Shard, host: str, quotas: Mapping[str, Quota]) -> float:
    """Return how many more pages *quotas* allow *host*."""
    used = {"domain": shard.hosts.records.domains.find(registered_domain(host)).pages}
    if shard.settings.key == "host":
        used["host"] = shard.hosts.records.get(host).begun
    left = [quotas[name].pages - used[name] for name in used if quotas[name].pages]
    return max(min(left, default=math.inf), 0)
