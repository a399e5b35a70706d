"""Quotas: limits on the pages and bytes fetched from a host or a registered domain.

Counts of hosts are in their host records, those of domains in counters. A ``kill -9`` loses the
counts of the last two seconds, and counts pages in process twice. URLs over quota are parked, for a
run with a larger one.

Invariants: a URL is counted when its download begins, before a gate decides about another one of
its domain. A quota of pages is never exceeded; one of bytes only by the downloads that were under
way when it was reached.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Self

from webcrawl.configuration.values import whole
from webcrawl.frontier.admission import Gate
from webcrawl.urls import host_of
from webcrawl.urls.registered_domain import registered_domain

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import BaseSettings

    from webcrawl.frontier import Entry
    from webcrawl.hosts.records import HostRecords


class Ledger:
    """Pages and bytes fetched so far, per host and per registered domain. 4 µs for each page.

    The entry's host counts, whatever its politeness key is. Visits of URLs that were finished
    before do not count.
    """

    def __init__(self, records: HostRecords) -> None:
        self._records = records

    def note_start(self, entry: Entry) -> None:
        """Count the download of *entry*, which begins; a retry is not counted again."""
        if not entry.attempts:
            self._count(entry, 1, 0)

    def put_back(self, entry: Entry) -> None:
        """Stop counting a download that was not made and will be begun again."""
        if not entry.attempts:
            self._count(entry, -1, 0)

    def note_received(self, entry: Entry, size_bytes: int) -> None:
        """Add received bytes of the body of *entry*."""
        self._count(entry, 0, size_bytes)

    def _count(self, entry: Entry, pages: int, size_bytes: int) -> None:
        if entry.history:
            return
        host = host_of(entry.url)
        record = self._records.get(host)
        record.begun += pages
        record.received += size_bytes
        self._records.put(record)
        domain = registered_domain(host)
        counter = self._records.domains.find(domain)
        counter.pages += pages
        counter.received += size_bytes
        self._records.domains.put(domain, counter)


@dataclasses.dataclass(slots=True)
class Quota:
    """Maximum pages and bytes of a host or a domain; 0 means no limit.

    May change during a crawl.
    """

    pages: int
    size_bytes: int

    @classmethod
    def from_settings(cls, settings: BaseSettings, word: str) -> Self:
        """Read BUDGET_<*word*>_PAGES and BUDGET_<*word*>_BYTES.

        Raises FatalError for a bad value.
        """
        return cls(
            whole(settings, f"BUDGET_{word}_PAGES", at_least=0),
            whole(settings, f"BUDGET_{word}_BYTES", at_least=0),
        )


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class BudgetGate(Gate):
    """Gate of a quota: holds URLs once their host or domain has used it up.

    *used* returns how many pages and bytes the host or domain of an entry has had. *policy_pages*
    returns the quota of pages that a host policy sets for a URL, or None for that of the settings.
    """

    name: str
    used: Callable[[Entry], tuple[int, int]]
    quota: Quota
    policy_pages: Callable[[str], int | None] | None = None

    def holds(self, entry: Entry) -> bool:
        quota = self.quota
        policy_pages = None if self.policy_pages is None else self.policy_pages(entry.url)
        max_pages = quota.pages if policy_pages is None else policy_pages
        if not (max_pages or quota.size_bytes):
            return False
        pages, received = self.used(entry)
        if quota.size_bytes and received >= quota.size_bytes:
            return True
        # The page of a retry was counted before.
        return bool(max_pages) and not entry.attempts and pages >= max_pages


def budgets_of(
    records: HostRecords,
    *,
    host: Quota,
    domain: Quota,
    pages_of: Callable[[str], int | None] | None = None,
) -> tuple[Ledger, list[BudgetGate]]:
    """Return the ledger and the gates of these quotas.

    Hosts and domains are always counted, as a later run may have a quota. *pages_of* returns the
    quota of pages that a host policy sets for a URL, or None.
    """

    def of_host(entry: Entry) -> tuple[int, int]:
        record = records.get(host_of(entry.url))
        return record.begun, record.received

    def of_domain(entry: Entry) -> tuple[int, int]:
        counter = records.domains.find(registered_domain(host_of(entry.url)))
        return counter.pages, counter.received

    return Ledger(records), [
        BudgetGate("host_budget", of_host, quota=host, policy_pages=pages_of),
        BudgetGate("domain_budget", of_domain, quota=domain),
    ]
