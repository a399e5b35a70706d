"""Detects when hardly any hosts have URLs left to fetch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webcrawl.clock import TimeSource
    from webcrawl.crawl.shard.shards import Shards

#: Finish reason of a crawl that ends because of it.
HAS_FEW_HOSTS = "closespider_few_hosts"
#: File in JOBDIR with the URLs that were left.
REMAINDER = "remainder.csv"


class FewHosts:
    """Detector of crawls with fewer than *fewest* hosts left for at least *secs* by *clock*.

    A host counts while it has URLs waiting, ready, resting or in process; parked URLs do not count.
    While the hosts of some URLs are not known yet, the time runs but is never up.
    """

    def __init__(self, fewest: int, *, secs: float, clock: TimeSource) -> None:
        self._fewest = fewest
        self._secs = secs
        self._clock = clock
        self._since: float | None = None
        #: Whether there have ever been that many hosts.
        self.had_more = False

    def has_lasted(self, shards: Shards) -> bool:
        """Look at *shards*, and return whether few hosts have been left for long enough.
        O(shards)."""
        if shards.hosts >= self._fewest:
            self._since, self.had_more = None, True
        elif shards.has_fewer_hosts_than(self._fewest):
            at = self._clock()
            self._since = at if self._since is None else self._since
            return at - self._since >= self._secs
        return False
