"""Quotas: the pages and bytes that a host, and a registered domain, may have of the crawl.

Counts are host counters on disk: a ``kill -9`` takes those of the last three seconds, and counts
twice what was in process. URLs over quota are parked, for a run with a larger one.

Invariants: a URL is counted when its download begins, before a gate decides about another one of
its domain. A quota of pages is never exceeded; one of bytes by the downloads that were under way
when it was reached.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Self

from webcrawl.configuration.values import whole
from webcrawl.frontier.admission import Gate
from webcrawl.urls import host_of
from webcrawl.urls.registered_domain import registered_domain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy.settings import BaseSettings

    from webcrawl.frontier import Entry
    from webcrawl.hosts.records import HostRecords
    from webcrawl.hosts.records.host_counters import HostCounters


def domain_of(entry: Entry) -> str:
    """The registered domain of an entry, whatever its politeness key is."""
    return registered_domain(host_of(entry.url))


def server_of(entry: Entry) -> str:
    """The host name of an entry, whatever its politeness key is."""
    return host_of(entry.url)


class Ledger:
    """Pages and bytes fetched so far, per host and per registered domain. 2 µs for each page.

    *books* are counters, each with the function that names an entry's row.
    """

    def __init__(self, books: Sequence[tuple[HostCounters, Callable[[Entry], str]]]) -> None:
        self._books = books

    def begun(self, entry: Entry) -> None:
        """Count the download of *entry*, which begins; a retry is not counted again."""
        self._count(entry, 1)

    def put_back(self, entry: Entry) -> None:
        """Uncount a download that came to nothing and will begin anew."""
        self._count(entry, -1)

    def _count(self, entry: Entry, pages: int) -> None:
        if entry.attempts:
            return
        for counters, name_of in self._books:
            name = name_of(entry)
            counter = counters.find(name)
            counter.pages += pages
            counters.put(name, counter)

    def received(self, entry: Entry, size_bytes: int) -> None:
        """Add received bytes of the body of *entry*."""
        for counters, name_of in self._books:
            name = name_of(entry)
            counter = counters.find(name)
            counter.received += size_bytes
            counters.put(name, counter)


@dataclasses.dataclass(slots=True)
class Quota:
    """The most pages and bytes of a host or a domain; 0: no limit. It may change in a crawl."""

    pages: int
    size_bytes: int

    @classmethod
    def from_settings(cls, settings: BaseSettings, word: str) -> Self:
        """BUDGET_<*word*>_PAGES and BUDGET_<*word*>_BYTES; FatalError for a bad value."""
        return cls(
            whole(settings, f"BUDGET_{word}_PAGES", at_least=0),
            whole(settings, f"BUDGET_{word}_BYTES", at_least=0),
        )


class BudgetGate(Gate):
    """Gate of a quota: holds URLs once their host or domain, *name_of* an entry, has used it up."""

    def __init__(
        self, name: str, counters: HostCounters, name_of: Callable[[Entry], str], *, quota: Quota
    ) -> None:
        self.name = name
        self._counters = counters
        self._name_of = name_of
        self._quota = quota

    def holds(self, entry: Entry) -> bool:
        quota = self._quota
        if not (quota.pages or quota.size_bytes):
            return False
        counter = self._counters.find(self._name_of(entry))
        if quota.size_bytes and counter.received >= quota.size_bytes:
            return True
        # A retry is of a page that was counted.
        return bool(quota.pages) and not entry.attempts and counter.pages >= quota.pages


def budgets_of(
    records: HostRecords, *, host: Quota, domain: Quota
) -> tuple[Ledger, list[BudgetGate]]:
    """The ledger and the gates of these quotas. Hosts and domains are counted in any case, as a
    later run may have a quota."""
    hosts, domains = (records.servers, server_of), (records.domains, domain_of)
    return Ledger([domains, hosts]), [
        BudgetGate("host_budget", *hosts, quota=host),
        BudgetGate("domain_budget", *domains, quota=domain),
    ]
