"""Hard budgets: how many pages and bytes a host, and a registered domain, may have of the crawl.

Downloads are reported to the ledger by crawl/, and the gates go by its counts. They are
tallies on disk: a ``kill -9`` takes those of the last two seconds, and counts twice what was in
process. What is over budget waits: a crawl that is run again with a larger budget goes on with it.

The invariants: a URL is counted when its download begins, before a gate is asked about another one
of its domain. A budget of pages is never exceeded, whatever is under way; one of bytes by what was
under way when it was reached.
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
    from webcrawl.hosts.records.tallies import Tallies


def domain_of(entry: Entry) -> str:
    """The registered domain of an entry, whatever its politeness key is."""
    return registered_domain(host_of(entry.url))


def server_of(entry: Entry) -> str:
    """The host name of an entry, likewise."""
    return host_of(entry.url)


class Ledger:
    """Pages and bytes fetched so far, per host and per registered domain. 2 µs for each page.

    *books* are tallies, each with the name by which it has an entry.
    """

    def __init__(self, books: Sequence[tuple[Tallies, Callable[[Entry], str]]]) -> None:
        self._books = books

    def begun(self, entry: Entry) -> None:
        """The download of *entry* begins; a retry is none of its own."""
        self._count(entry, 1)

    def put_back(self, entry: Entry) -> None:
        """It came to nothing, and will begin anew."""
        self._count(entry, -1)

    def _count(self, entry: Entry, pages: int) -> None:
        if entry.attempts:
            return
        for tallies, name_of in self._books:
            name = name_of(entry)
            tallies.find(name).pages += pages
            tallies.changed(name)

    def received(self, entry: Entry, size_bytes: int) -> None:
        """So much of the body of *entry* has come."""
        for tallies, name_of in self._books:
            name = name_of(entry)
            tallies.find(name).received += size_bytes
            tallies.changed(name)


class BudgetGate(Gate):
    """Holds the URLs of whatever *name_of* says has had *pages* or *size_bytes*; 0: any number."""

    def __init__(
        self,
        *,
        name: str,
        tallies: Tallies,
        name_of: Callable[[Entry], str],
        pages: int,
        size_bytes: int,
    ) -> None:
        self.name = name
        self._tallies = tallies
        self._name_of = name_of
        self._pages = pages
        self._bytes = size_bytes

    def holds(self, entry: Entry) -> bool:
        tally = self._tallies.find(self._name_of(entry))
        if self._bytes and tally.received >= self._bytes:
            return True
        # A retry is of a page that was counted.
        return bool(self._pages) and not entry.attempts and tally.pages >= self._pages


def budgets_of(settings: BaseSettings, records: HostRecords) -> tuple[Ledger, list[Gate]]:
    """What BUDGET_* ask for; FatalError with one sentence for what cannot be. Hosts and domains are
    counted in any case: a run may come with a budget that the runs before it had not."""
    gates: list[Gate] = []
    for word, tallies, name_of in (
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
                tallies=tallies,
                name_of=name_of,
                pages=pages,
                size_bytes=size_bytes,
            )
        )
    return Ledger([(records.domains, domain_of), (records.servers, server_of)]), gates
