"""Seed domains: the sites of the seeds, which limit the scope of a crawl if URL_SCOPE says so.

They are added when seeds are read. The filters of URL_SCOPE look a site up when a link first names
one of its servers. Sites are stored in a ``HostRanks`` table, each as if it were a host, in 12
bytes. They are on disk before the seeds are submitted, so a resumed crawl also knows the sites of
seeds that it does not read again.
"""

from __future__ import annotations

from collections.abc import Iterable

from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.errors import FatalError
from webcrawl.urls.registered_domain import site_of


class SeedDomains:
    """The set of the seeds' sites. *table* is opened, saved and closed by its owner."""

    def __init__(self, table: HostRanks) -> None:
        self._table = table

    def __contains__(self, site: object) -> bool:
        """Return whether a seed belongs to *site*."""
        return isinstance(site, str) and self._table.rank(site) > 0

    def add(self, hosts: Iterable[str]) -> None:
        """Add the sites of *hosts* in one write; writes nothing if all are known.

        Raises FatalError if the table is too small for them, because the crawl would refuse some of
        its own seeds. Raises OSError if the disk is full; then nothing was added.
        """
        sites = {site_of(host) for host in hosts}
        self._table.add_many([(site, 1) for site in sites])  # any rank but 0, which means unknown
        if len(self._table) >= self._table.capacity and not all(map(self.__contains__, sites)):
            raise FatalError(
                f"The seeds have more than {self._table.capacity} domains, the limit of a crawl "
                "that stays within them: use URL_SCOPE=open, or fewer seeds."
            )
