"""Detects when only a few hosts have URLs left to fetch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.clock import TimeSource

if TYPE_CHECKING:
    from webcrawl.crawl.shard.shards import Shards

#: Finish reason of a crawl that ends because few hosts are left.
HAS_FEW_HOSTS = "closespider_few_hosts"
#: File in JOBDIR with the URLs that were not fetched.
REMAINDER = "remainder.csv"


class FewHosts:
    """Detects when fewer than *min_hosts* hosts have been left for at least *secs* seconds.

    A host counts while it has URLs that are waiting or in process; parked URLs do not count. While
    new URLs are still being sorted by host, the time runs on, but the result is False.
    """

    def __init__(self, min_hosts: int, *, secs: float, clock: TimeSource) -> None:
        self._min_hosts = min_hosts
        self._secs = secs
        self._clock = clock
        # Since when few hosts have been left; None while there are more.
        self._since: float | None = None
        #: Whether at least *min_hosts* hosts were left at some time.
        self.had_more = False

    def check(self, shards: Shards) -> bool:
        """Look at *shards*, and return whether few hosts have been left for long enough.

        To be called repeatedly. O(shards).
        """
        if count_hosts(shards) >= self._min_hosts:
            self._since = None
            self.had_more = True
        elif has_fewer_hosts(shards, self._min_hosts):
            time = self._clock()
            self._since = time if self._since is None else self._since
            return time - self._since >= self._secs
        return False


def count_hosts(shards: Shards) -> int:
    """Return the number of hosts with a back-end queue."""
    return sum([len(shard.frontier.back.table) for shard in shards])


def has_fewer_hosts(shards: Shards, number: int) -> bool:
    """Return whether fewer than *number* hosts have URLs to fetch, not counting parked URLs.

    False while some URLs are not yet sorted by host.
    """
    if any(shard.frontier.front.size or shard.eliminator.waiting for shard in shards):
        return False
    return count_hosts(shards) < number
