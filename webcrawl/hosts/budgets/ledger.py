"""What each registered domain, and each host, has had of the crawl.

The dispatcher tells of every download; budgets go by it. The counts are tallies on disk: a
``kill -9`` takes those of the last two seconds, and counts twice what was in process. The
invariant: a URL is counted when its download begins, before another one of its domain can be asked
about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.urls import host_of
from webcrawl.urls.registered_domain import registered_domain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from webcrawl.frontier import Entry
    from webcrawl.hosts.records.tallies import Tallies


def domain_of(entry: Entry) -> str:
    """The registered domain of an entry, whatever its politeness key is."""
    return registered_domain(host_of(entry.url))


def server_of(entry: Entry) -> str:
    """The host name of an entry, likewise."""
    return host_of(entry.url)


class Ledger:
    """Counts pages and bytes in *books*: tallies, and by which name an entry is in them. 2 us for
    each page."""

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
