"""What pages and their parts have in common: their answers are counted, and they are retried."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace
from scrapy.statscollectors import StatsCollector

from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.crawl.shard.shard import Shard
from webcrawl.frontier import Entry, Lease
from webcrawl.hosts.retry_policy import RetryPolicy
from webcrawl.net.outcomes import PERMANENT, REDIRECTS


@dataclass(frozen=True, kw_only=True)
class Tries:
    """Counts the tries of URLs, and decides whether there is another one."""

    stats: StatsCollector
    retries: RetryPolicy

    def next_try(self, fetch: Fetch, outcome: str) -> Entry | None:
        """Count the answer of *fetch*; return the entry for retrying it, None if it is not retried.

        Ordinary Requests are retried by Scrapy's middleware instead.
        """
        self._count_answer(fetch)
        entry = fetch.lease.entry
        is_final = fetch.lease.shard.hosts.politeness.is_final(entry.url, outcome)
        if is_final or entry.extra or entry.attempts >= self.retries.rule(outcome).tries:
            return None
        self.stats.inc_value(f"retry/{outcome}")
        return replace(entry, attempts=entry.attempts + 1)

    def _count_answer(self, fetch: Fetch) -> None:
        """Count the bytes of the response of *fetch*, if there is one, and its redirect."""
        if fetch.response is None:
            return
        lease = fetch.lease
        size = fetch.received_bytes
        self.stats.inc_value("fetch/bytes", size)
        self.stats.inc_value("fetch/decoded_bytes", len(fetch.response.body))
        lease.shard.hosts.budgets.ledger.note_received(lease.entry, size)
        status = fetch.response.status
        if status in REDIRECTS:
            self.stats.inc_value(f"redirects/{'permanent' if status in PERMANENT else 'temporary'}")


def return_page(lease: Lease[Shard], fetch: Fetch | None) -> bool:
    """Give back what the URL of *lease* took of quotas, if its origin is given up.

    Does nothing if the URL was answered. *fetch* is its last contact, if there was one. Returns
    whether the origin is given up and the URL was not answered.
    """
    entry = lease.entry
    hosts = lease.shard.hosts
    has_answer = fetch is not None and fetch.response is not None
    if has_answer or not hosts.politeness.refusal(entry.host, entry.url):
        return False
    # Only an entry that was contacted has taken anything.
    if entry.attempts or (fetch is not None and fetch.is_for_page):
        hosts.budgets.ledger.return_page(entry)
    return True
