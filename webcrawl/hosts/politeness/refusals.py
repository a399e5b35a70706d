"""Refusals: hosts that rest because they refused their last contact.

They failed, for example with 429, 503 or a dropped connection, or showed a wall. Only the doctor
reads this. It is in memory only, and bounded; the oldest entry is forgotten first.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from webcrawl.clock import TimeSource

# Hosts in memory, 0.2 kB each.
_HOSTS = 1 << 14


class Refusals:
    """The refusing hosts of a shard. *clock* returns epoch seconds."""

    def __init__(self, clock: TimeSource) -> None:
        self._clock = clock
        self._hosts: dict[str, tuple[float, str]] = {}

    def note(self, host: str, outcome: str, secs: float) -> None:
        """Record that *host* rests for *secs* because of *outcome*."""
        self._hosts.pop(host, None)
        self._hosts[host] = self._clock() + secs, outcome
        if len(self._hosts) > _HOSTS:
            del self._hosts[next(iter(self._hosts))]

    def resting(self, has_more: Callable[[str], bool]) -> Counter[str]:
        """Count, by outcome, the hosts that rest and for which *has_more* is true. O(hosts)."""
        at = self._clock()
        self._hosts = {host: rest for host, rest in self._hosts.items() if rest[0] > at}
        return Counter(outcome for host, (_, outcome) in self._hosts.items() if has_more(host))
