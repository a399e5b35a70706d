"""Few hosts: whether hardly any host has URLs to be fetched, and for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webcrawl.clock import TimeSource
    from webcrawl.crawl.shard.shards import Shards

#: The reason of a crawl that ends for it.
HAS_FEW_HOSTS = "closespider_few_hosts"
#: In JOBDIR, what was left then.
REMAINDER = "remainder.csv"


class FewHosts:
    """A watch over the number of hosts.

    It tells whether fewer than *fewest* hosts have had URLs waiting, ready, resting or in process,
    for *secs* by *clock*, parked URLs apart. While it is not known of all URLs whose they are, the
    time goes on and does not end.
    """

    def __init__(self, fewest: int, *, secs: float, clock: TimeSource) -> None:
        self._fewest = fewest
        self._secs = secs
        self._clock = clock
        self._since: float | None = None
        #: Whether there have been as many.
        self.had_more = False

    def look(self, shards: Shards) -> bool:
        """Look at *shards*; whether it is so. O(shards)."""
        if shards.hosts >= self._fewest:
            self._since, self.had_more = None, True
        elif shards.has_fewer_hosts_than(self._fewest):
            at = self._clock()
            self._since = at if self._since is None else self._since
            return at - self._since >= self._secs
        return False
