"""Samples of a running crawl, from which its end is projected.

A sample says how many URLs are left, and how long the longest queues of hosts will take.
"""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING

from webcrawl.clock import now
from webcrawl.doctor.projection import Sample, Tail
from webcrawl.frontier.back_queue import QueueState
from webcrawl.frontier.host_parts import host_of_key
from webcrawl.urls.registered_domain import registered_domain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webcrawl.clock import TimeSource
    from webcrawl.crawl.shard.shard import Shard
    from webcrawl.crawl.shard.shards import Shards
    from webcrawl.hosts.budgets.quotas import Quota

# Queues in these states wait for a worker.
_WAITS = (QueueState.READY, QueueState.HELD)
# The time per URL of a host is measured once so many more of its URLs were begun.
_MIN_BEGUN = 3
# Seconds that a retried URL costs its host, whose pauses double from 10 s on; and the largest share
# of retried URLs that is assumed.
_RETRY_SECS = 20.0
_MAX_RETRY_SHARE = 0.5


class Paces:
    """Measured times per URL of the hosts with the longest queues. *clock* returns seconds.

    Downloads, pauses and retries are included, but not the time in which the host was ready and
    waited for a worker. A measurement begins when such a queue is first seen.
    """

    def __init__(self, *, clock: TimeSource) -> None:
        self._clock = clock
        self._at = clock()  # the time of the last call
        # For each host: the number of begun URLs when the measurement began, and the seconds since.
        self._measured: dict[str, tuple[int, float]] = {}

    def measure(self, queues: Mapping[str, tuple[int, bool]]) -> dict[str, float]:
        """Return the seconds per URL of those of the *queues* for which they are known.

        For each queue, by the name of its host, there are the number of URLs of the host that were
        ever begun, and whether it waits for a worker. Other hosts are forgotten.
        """
        time = self._clock()
        secs_since = time - self._at
        self._at = time
        measured = {}
        paces = {}
        for host, (begun, is_waiting) in queues.items():
            begun_then, secs = self._measured.get(host, (begun, -secs_since))
            if not is_waiting:
                secs += secs_since
            measured[host] = (begun_then, max(secs, 0.0))
            if begun - begun_then >= _MIN_BEGUN:
                paces[host] = secs / (begun - begun_then)
        self._measured = measured
        return paces

    def clear(self) -> None:
        """Begin all measurements again, as after a time without requests."""
        self._measured = {}


def sample_of(shards: Shards, quotas: Mapping[str, Quota], paces: Paces) -> Sample:
    """Return a sample of the present state of *shards*. Takes 1 ms for each shard.

    *quotas* limit the pages of hosts and domains, so some queues will not be fetched to their end.
    *paces* knows the times per URL of the hosts in earlier samples.
    """
    stats = defaultdict(int, shards.stats())
    # Of the URLs that the eliminator has still to decide on, the same share is new as until now.
    share_of_new = stats["seen/new"] / max(stats["seen/submitted"] - stats["seen/waiting"], 1)
    # Only parked URLs that this crawl will release.
    parked = sum(sum(shard.admission.postponed.values()) for shard in shards)
    urls_left = stats["frontier/waiting"] + stats["seen/waiting"] * share_of_new + parked

    min_secs = 0.0
    max_secs = 0.0
    max_bound = 0.0
    longest_period = 0.0
    tail = None
    queues = [
        (shard, queue) for shard in shards for queue in shard.frontier.back.tails.find_longest()
    ]
    found = {
        queue.host: shard.hosts.records.get(host_of_key(queue.host)) for shard, queue in queues
    }
    measured = paces.measure(
        {queue.host: (found[queue.host].begun, queue.state in _WAITS) for _, queue in queues}
    )
    # The pauses of a failing host grow until it answers or is given up, so its present ones say
    # nothing about the rest of its queue.
    healthy = [queue for _, queue in queues if not found[queue.host].failures]
    median_period = median([queue.period for queue in healthy if queue.period] or [0.0])
    for shard, queue in queues:
        host = host_of_key(queue.host)
        ready_in = max(queue.ready_at - shard.clock(), 0.0)
        is_failing = found[queue.host].failures > 0
        # The pause is the least that the host requires; the period also has the time of a download.
        min_pause = 0.0 if is_failing else queue.min_rest
        period = measured.get(queue.host) or (0.0 if is_failing else max(min_pause, queue.period))
        period = period or median_period
        min_pause = min(min_pause or median_period or period, period)

        allowed_pages = _allowed_pages(shard, host, quotas)
        urls = min(len(queue), allowed_pages)
        urls_left -= len(queue) - urls  # the budgets do not allow the others
        min_secs = max(min_secs, ready_in + (urls - 1) * min_pause)
        max_bound = max(max_bound, ready_in + allowed_pages * period)
        # The slowest queue decides; assume that one more URL is found for it.
        secs = ready_in + (urls + 1) * period
        if secs > max_secs:
            max_secs = secs
            longest_period = period
            tail = Tail(host, int(urls), round(urls * period, 1))

    # At worst, all parked URLs are of the slowest host.
    max_secs += parked * longest_period
    # Seconds of retries for each URL of a host, to be compared with its period.
    retry_secs = stats["frontier/requeued"] / max(stats["frontier/finished"], 1) * _RETRY_SECS
    ready, resting = (stats[f"frontier/hosts/{state}"] for state in ("ready", "snoozed"))
    return Sample(
        at=now(),
        finished=int(stats["frontier/finished"]),
        known=urls_left,
        min_secs=min_secs,
        max_secs=max_secs,
        bound=max_bound or math.inf,
        again=min(retry_secs / (longest_period or 1), _MAX_RETRY_SHARE),
        ready=ready / max(ready + resting, 1),
        due=int(stats["frontier/due"]),
        tail=tail,
        held=int(stats["frontier/parked"] - parked),
    )


def _allowed_pages(shard: Shard, host: str, quotas: Mapping[str, Quota]) -> float:
    """Return how many more pages *quotas* allow *host*."""
    fetched = {"domain": shard.hosts.records.domains.find(registered_domain(host)).pages}
    if shard.settings.key == "host":  # otherwise *host* is a politeness key of several hosts
        fetched["host"] = shard.hosts.records.get(host).begun
    # A quota of 0 pages means no limit.
    allowed = [quotas[name].pages - fetched[name] for name in fetched if quotas[name].pages]
    return max(min(allowed, default=math.inf), 0)
