"""The URLs that are tried again after a fetch that failed.

Asked by the dispatcher when a fetch has ended. How often is in hosts/retry_policy.py; how long the
host rests before that is hosts/politeness/delays.py's business: a URL that is tried again stands
behind the others of its host.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from webcrawl.hosts.retry_policy import BUG

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector

    from webcrawl.frontier import Entry, Frontier
    from webcrawl.hosts.retry_policy import RetryPolicy

# URLs given up for a bug that the next run may try again.
_MOST_LOST = 1000


class Retries:
    """*policy* says how often, by outcome."""

    def __init__(self, *, frontier: Frontier, stats: StatsCollector, policy: RetryPolicy) -> None:
        self._frontier = frontier
        self._stats = stats
        self._policy = policy
        self._lost_to_bugs: deque[Entry] = deque(maxlen=_MOST_LOST)
        self._is_over = False

    def take(self, entry: Entry, outcome: str) -> bool:
        """Whether *entry*, whose fetch has ended with *outcome*, is tried again; it is in its queue
        then, on disk. OSError when that is full. Ordinary Requests have Scrapy's own retries."""
        if entry.extra:
            return False
        if outcome == BUG and self._is_over:
            self._frontier.requeue(msgspec.structs.replace(entry, attempts=0))
            return True
        if entry.attempts < self._policy.rule(outcome).tries:
            self._stats.inc_value(f"retry/{outcome}")
            self._frontier.requeue(msgspec.structs.replace(entry, attempts=entry.attempts + 1))
            return True
        if outcome == BUG:
            self._lost_to_bugs.append(entry)
        return False

    def of_bugs(self) -> None:
        """The crawl ends because of bugs: the last URLs that were given up for one are for the
        next run, in which they may be mended, and so is what meets one from now on. OSError when
        the disk is full."""
        self._is_over = True
        while self._lost_to_bugs:
            entry = self._lost_to_bugs.popleft()
            self._frontier.requeue(msgspec.structs.replace(entry, attempts=0))
