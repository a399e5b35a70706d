"""Quotas: the pages and bytes that a host, and a registered domain, may have of the crawl.

The dispatcher reports every download to the ledger, and the gates read its counts. They are host
counters on disk: a ``kill -9`` takes those of the last two seconds, and counts twice what was in
process. URLs over quota are parked: a crawl that is run again with a larger quota goes on with
them.

Invariants: a URL is counted when its download begins, before a gate decides about another one of
its domain. A quota of pages is never exceeded; one of bytes by the downloads that were under way
when it was reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
            counters.find(name).pages += pages
            counters.changed(name)

    def received(self, entry: Entry, size_bytes: int) -> None:
        """Add received bytes of the body of *entry*."""
        for counters, name_of in self._books:
            name = name_of(entry)
            counters.find(name).received += size_bytes
            counters.changed(name)


class BudgetGate(Gate):
    """Gate of a quota: holds URLs once their host or domain has *pages* or *size_bytes*.

    *name_of* gives the host or domain of an entry. 0: no limit.
    """

    def __init__(
        self,
        *,
        name: str,
        counters: HostCounters,
        name_of: Callable[[Entry], str],
        pages: int,
        size_bytes: int,
    ) -> None:
        self.name = name
        self._counters = counters
        self._name_of = name_of
        self._pages = pages
        self._bytes = size_bytes

    def holds(self, entry: Entry) -> bool:
        counter = self._counters.find(self._name_of(entry))
        if self._bytes and counter.received >= self._bytes:
            return True
        # A retry is of a page that was counted.
        return bool(self._pages) and not entry.attempts and counter.pages >= self._pages


def budgets_of(settings: BaseSettings, records: HostRecords) -> tuple[Ledger, list[Gate]]:
    """The gates and the ledger that BUDGET_* set; FatalError with one sentence for a bad value.
    Hosts and domains are counted in any case, as a later run may have a quota."""
    gates: list[Gate] = []
    for word, counters, name_of in (
        ("HOST", records.servers, server_of),
        ("DOMAIN", records.domains, domain_of),
    ):
        pages = whole(settings, f"BUDGET_{word}_PAGES", at_least=0)
        size_bytes = whole(settings, f"BUDGET_{word}_BYTES", at_least=0)
        if not pages and not size_bytes:
            continue
        gates.append(
            BudgetGate(
                name=f"{word.lower()}_budget",
                counters=counters,
                name_of=name_of,
                pages=pages,
                size_bytes=size_bytes,
            )
        )
    return Ledger([(records.domains, domain_of), (records.servers, server_of)]), gates
