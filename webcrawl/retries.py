"""Which URLs are tried again after a fetch that failed, and how often.

Asked by the dispatcher when a fetch has ended. How long the host rests before that is the delay
policy's business (frontier/politeness.py): a URL that is tried again stands behind the others of
its host.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from webcrawl.net.outcomes import is_transient

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector

    from webcrawl.frontier import Entry, Frontier

# URLs given up for a bug that the next run may try again.
_MOST_LOST = 1000
# The outcome of an error of the program, which may be mended by the time the URL comes up again.
_BUG = "other"


class Retries:
    """*times* is how often a URL is tried again after transient failures."""

    def __init__(self, *, frontier: Frontier, stats: StatsCollector, times: int) -> None:
        self._frontier = frontier
        self._stats = stats
        self._times = times
        self._lost_to_bugs: deque[Entry] = deque(maxlen=_MOST_LOST)

    def take(self, entry: Entry, outcome: str) -> bool:
        """Whether *entry*, whose fetch has ended with *outcome*, is tried again; it is in its queue
        then, on disk. OSError when that is full. Ordinary Requests have Scrapy's own retries."""
        if entry.extra:
            return False
        if entry.attempts < self._tries_after(outcome):
            self._stats.inc_value(f"retry/{outcome}")
            self._frontier.requeue(msgspec.structs.replace(entry, attempts=entry.attempts + 1))
            return True
        if outcome == _BUG:
            self._lost_to_bugs.append(entry)
        return False

    def _tries_after(self, outcome: str) -> int:
        if outcome == _BUG:
            return min(1, self._times)
        return self._times if is_transient(outcome) else 0

    def of_bugs(self) -> None:
        """The crawl ends because of bugs: the last URLs that were given up for one are for the
        next run, in which they may be mended. OSError when the disk is full."""
        while self._lost_to_bugs:
            entry = self._lost_to_bugs.popleft()
            self._frontier.requeue(msgspec.structs.replace(entry, attempts=0))
