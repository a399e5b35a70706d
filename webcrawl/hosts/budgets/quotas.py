"""Quotas: limits on the pages and bytes fetched from a host or a registered domain.

Counts of hosts are in their host records, counts of domains in counters. After ``kill -9`` the
counts of the last two seconds are lost, and pages in process are counted twice. URLs over quota are
parked, for a run with a larger quota.

Invariants: a URL is counted when its download begins, before a gate decides about another URL of
its domain. A quota of pages is never exceeded, and a quota of bytes only by downloads that were in
progress when it was reached.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from scrapy.settings import BaseSettings

from webcrawl.configuration.values import whole_number
from webcrawl.frontier import SUBRESOURCE, Entry
from webcrawl.frontier.admission import Gate
from webcrawl.hosts.records import HostRecords
from webcrawl.urls import host_of
from webcrawl.urls.registered_domain import domain_of, registered_domain


class Ledger:
    """Counts the pages and bytes fetched per host and per registered domain. 4 µs for each page.

    Pages count for the host of their URL, even if its politeness key is another name. Repeat visits
    do not count.
    """

    def __init__(self, records: HostRecords) -> None:
        self._records = records

    def note_start(self, entry: Entry) -> None:
        """Count the download of *entry*, which is starting; retries are not counted again."""
        if not entry.attempts:
            self._count(entry, 1, 0)

    def put_back(self, entry: Entry) -> None:
        """Subtract the download of *entry*, which was not completed and will be started again."""
        if not entry.attempts:
            self._count(entry, -1, 0)

    def return_page(self, entry: Entry) -> None:
        """Subtract the page of *entry*, which was tried, but whose origin is given up."""
        self._count(entry, -1, 0)

    def note_received(self, entry: Entry, size_bytes: int) -> None:
        """Add *size_bytes* to the bytes received for *entry*."""
        self._count(entry, 0, size_bytes)

    def _count(self, entry: Entry, pages: int, size_bytes: int) -> None:
        """Add *pages* and *size_bytes* to the counts of the host and the domain of *entry*."""
        if entry.history:
            return  # a repeat visit

        host = host_of(entry.url)
        record = self._records.get(host)
        record.begun += pages
        record.received += size_bytes
        self._records.put(record)

        domain = registered_domain(host)
        counter = self._records.domains.find(domain)
        counter.pages += pages
        if entry.foreign or entry.kind == SUBRESOURCE:
            counter.parts += pages
        counter.received += size_bytes
        self._records.domains.put(domain, counter)


@dataclass
class Quota:
    """Maximum number of pages and bytes of a host or a domain; 0 means no limit.

    It may be changed during a crawl.
    """

    pages: int
    size_bytes: int

    @classmethod
    def from_settings(cls, settings: BaseSettings, word: str) -> Self:
        """Build from BUDGET_<*word*>_PAGES and BUDGET_<*word*>_BYTES.

        Raises FatalError for a bad value.
        """
        return cls(
            whole_number(settings, f"BUDGET_{word}_PAGES", at_least=0),
            whole_number(settings, f"BUDGET_{word}_BYTES", at_least=0),
        )


@dataclass(frozen=True, eq=False)
class BudgetGate(Gate):
    """Gate that holds URLs of hosts or domains that have used up their quota.

    *used* returns the pages and bytes fetched from the host or domain of an entry. *policy_pages*
    returns the quota of pages that a host policy sets for a URL; None for that of the settings.
    """

    name: str
    used: Callable[[Entry], tuple[int, int]]
    quota: Quota
    policy_pages: Callable[[str], int | None] | None = None

    def must_wait(self, entry: Entry) -> bool:
        """Return whether the host or domain of *entry* has used up its quota."""
        quota = self.quota
        policy_pages = None if self.policy_pages is None else self.policy_pages(entry.url)
        max_pages = quota.pages if policy_pages is None else policy_pages
        if not (max_pages or quota.size_bytes):
            return False
        pages, received = self.used(entry)
        if quota.size_bytes and received >= quota.size_bytes:
            return True
        # A retry is always admitted, because its page is counted already.
        return bool(max_pages) and not entry.attempts and pages >= max_pages


def budgets_of(
    records: HostRecords,
    *,
    host: Quota,
    domain: Quota,
    pages_of: Callable[[str], int | None] | None = None,
) -> tuple[Ledger, list[BudgetGate]]:
    """Return the ledger, and the gates for the quotas *host* and *domain*.

    Pages and bytes are counted even without a quota, because a later run may have one. *pages_of*
    returns the quota of pages that a host policy sets for a URL, or None.
    """

    def used_by_host(entry: Entry) -> tuple[int, int]:
        record = records.get(host_of(entry.url))
        return record.begun, record.received

    def used_by_domain(entry: Entry) -> tuple[int, int]:
        counter = records.domains.find(domain_of(entry.url))
        return counter.pages, counter.received

    return Ledger(records), [
        BudgetGate("host_budget", used_by_host, quota=host, policy_pages=pages_of),
        BudgetGate("domain_budget", used_by_domain, quota=domain),
    ]
