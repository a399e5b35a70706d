"""Leases for requests to WebSub hubs, which begin or renew subscriptions in their hosts' turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.statscollectors import StatsCollector

from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.crawl.lease.lease_requests import LeaseRequests
from webcrawl.crawl.shard.shard import Shard
from webcrawl.crawl.task.task import Ending, Finish, Task, Way
from webcrawl.frontier import NOTHING, Lease
from webcrawl.net.outcomes import BadUrlError
from webcrawl.urls import normalize
from webcrawl.urls.filters.scope import BAD_PORTS

# Statuses with which a hub names another one.
_MOVED = frozenset({307, 308})
_MAX_REDIRECTS = 3


@dataclass(kw_only=True, eq=False)
class HubRequest(Task):
    """Sends forms to hubs. The subscription of an entry is named in its ``via``.

    *form_of* returns the form of a subscription; b"" if it has ended. *on_redirect* is called with
    the URL to which a hub redirects, the subscription, and the number of redirects.
    """

    requests: LeaseRequests
    stats: StatsCollector
    form_of: Callable[[str], bytes] = lambda _: b""
    on_redirect: Callable[[str, str, int], None] = lambda *_: None

    def begin(self, lease: Lease[Shard]) -> Ending | None:
        """Drop *lease* if its subscription has ended; refuse ports at which no hub can be."""
        if not self.form_of(lease.entry.via):
            return Ending(Way.DROP)
        is_bad = urlsplit(lease.entry.url).port in BAD_PORTS
        return Ending(Way.FINISH, BadUrlError.outcome) if is_bad else None

    def prepare(self, fetch: Fetch) -> Request | Ending:
        """Return the POST with the form, without cookies and credentials."""
        if fetch.refusal:
            return Ending(Way.FINISH, fetch.refusal)
        fetch.has_credentials = False
        entry = fetch.lease.entry
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        request = self.requests.for_link(entry, headers, "POST")
        request.meta["dont_merge_cookies"] = True
        return fetch.bind(request.replace(body=self.form_of(entry.via)))

    def finish(
        self, lease: Lease[Shard], outcome: str, fetch: Fetch | None, robots_line: str
    ) -> Finish:
        """Count *outcome*, and follow a redirect."""
        self.stats.inc_value(f"websub/outcome/{outcome}")
        entry = lease.entry
        response = None if fetch is None else fetch.response
        if response is not None and response.status in _MOVED and entry.depth < _MAX_REDIRECTS:
            target = normalize(response.headers.get("Location") or b"", response.url)
            self.on_redirect(target or entry.url, entry.via, entry.depth + 1)
        return Finish(NOTHING)
