"""Hard budgets: how many pages and bytes a host, and a registered domain, may have of the crawl.

The gates go by what the ledger has counted. What is over budget waits: a crawl that is run again
with a larger budget goes on with it. The invariant: a budget of pages is never exceeded, whatever
is under way; one of bytes by what was under way when it was reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.configuration.values import whole
from webcrawl.frontier.admission import Gate
from webcrawl.hosts.budgets.ledger import Ledger, domain_of, server_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import BaseSettings

    from webcrawl.frontier import Entry
    from webcrawl.hosts.records import HostRecords
    from webcrawl.hosts.records.tallies import Tallies


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
