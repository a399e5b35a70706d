"""Refusals: hosts that rest because they refused their last contact.

They failed, for example with 429, 503 or a dropped connection, or showed a wall. Only the doctor
uses this. It is kept in memory only, with a bounded size: the oldest entry is forgotten first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sized

from scrapy.utils.datatypes import LocalCache

from webcrawl.clock import TimeSource

# Hosts in memory, 0.2 kB each.
_HOSTS = 1 << 14


class Refusals:
    """The hosts of a shard that refused their last contact. *clock* returns epoch seconds."""

    def __init__(self, clock: TimeSource) -> None:
        self._clock = clock
        # Until when each host rests, and the outcome of its contact; oldest first.
        self._hosts: LocalCache[str, tuple[float, str]] = LocalCache(_HOSTS)

    def note(self, host: str, outcome: str, secs: float) -> None:
        """Record that *host* rests for *secs* seconds because its contact ended in *outcome*."""
        self._hosts[host] = self._clock() + secs, outcome
        self._hosts.move_to_end(host)

    def count_resting(self, queues: Mapping[str, Sized]) -> Counter[str]:
        """Count the resting hosts whose queue in *queues* is not empty, by outcome. O(hosts)."""
        now = self._clock()
        return Counter(
            outcome
            for host, (until, outcome) in self._hosts.items()
            if until > now and queues.get(host)
        )
