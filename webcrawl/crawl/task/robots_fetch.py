"""Leases for a robots.txt: one that a redirect led to, or that of a host whose URL waits.

The rules in a robots.txt are stored when its host is released (lease/host_release.py); the callback
only passes its Page on.
"""

from __future__ import annotations

from dataclasses import dataclass

from scrapy import Request

from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.crawl.lease.host_release import HostRelease
from webcrawl.crawl.lease.lease_requests import LeaseRequests
from webcrawl.crawl.shard.shard import Shard
from webcrawl.crawl.shard.shards import Shards
from webcrawl.crawl.task.task import Ending, Finish, Task, Way
from webcrawl.frontier import NOTHING, Lease
from webcrawl.hosts.host_rules import HostRules


@dataclass(frozen=True, kw_only=True, eq=False)
class RobotsFetch(Task):
    """Fetches a robots.txt in its host's turn.

    Entries of this kind are for a robots.txt to which the origin in their ``via`` redirects. The
    robots.txt of a host itself is fetched with the lease of a URL that is back in its queue.
    """

    requests: LeaseRequests
    host_release: HostRelease
    shards: Shards
    rules: HostRules

    obeys_robots = False

    def begin(self, lease: Lease[Shard]) -> Ending | None:
        """Drop *lease* if a newer redirect has replaced this one, or it cannot be followed.

        It cannot be followed if credentials are withheld from the origin (``note_unverified``).
        """
        origin = lease.entry.via  # the one whose robots.txt redirects to this URL
        shard = self.shards.find(origin)  # None if it has left this process
        if (
            shard is None
            or shard.hosts.robots.robots_redirect(origin) != lease.entry.url
            or self.rules.policies.rules.is_withheld(origin)
        ):
            return Ending(Way.DROP)
        return None

    def prepare(self, fetch: Fetch) -> Request | Ending:
        """Return the Request, or record that the robots.txt is refused."""
        entry = fetch.lease.entry
        if fetch.refusal:
            self.host_release.learn(entry.via, fetch.refusal, None)
            return Ending(Way.FINISH, fetch.refusal)
        if not fetch.robots_url:  # the lease is for this file, not for a URL that needs it
            fetch.robots_url = entry.url
            fetch.robots_for = entry.via
        return fetch.bind(self.requests.for_robots(fetch.robots_url))

    def finish(
        self, lease: Lease[Shard], outcome: str, fetch: Fetch | None, robots_line: str
    ) -> Finish:
        """Log nothing."""
        return Finish(NOTHING)
