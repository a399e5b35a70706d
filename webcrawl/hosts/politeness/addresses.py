"""Host addresses: DNS look-ups before a worker is spent on a host (Mercator, section 3.3).

A cached answer is used immediately; otherwise the host waits for a look-up without holding a
worker. Invariants: addresses that the guard forbids are never returned; an answer of the name
servers is kept in the host's record for its time to live, and survives a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from webcrawl.clock import TimeSource
from webcrawl.hosts.records import HostRecords
from webcrawl.net.dns.resolver import DnsError, Resolver
from webcrawl.net.guard import AddressGuard


@dataclass(kw_only=True, eq=False)
class HostAddresses:
    """Looks up the addresses of hosts, for the preconditions.

    Its first look-up binds it to the running event loop.
    """

    resolver: Resolver
    guard: AddressGuard
    records: HostRecords
    clock: TimeSource
    _closed: bool = field(default=False, init=False)

    def known_addresses(self, host: str) -> list[str] | DnsError | None:
        """Return the known addresses of *host* that may be contacted, in the order to try them.

        The list is empty if all addresses are forbidden. Returns an error if the host has no
        address, and None if its addresses must be looked up first.
        """
        known = self.resolver.cached_result(host)
        if known is None:
            record = self.records.get(host)
            ttl = record.addresses_until - self.clock()
            if ttl <= 0 or not record.addresses:
                return None
            self.resolver.remember(host, record.addresses, ttl)
            known = record.addresses
        if isinstance(known, DnsError):
            return known
        return self.guard.permitted_addresses(known)

    def retry_in(self, host: str) -> float:
        """Return in how many seconds the name servers may be queried for *host* again."""
        return self.resolver.ttl(host)

    def look_up(self, host: str, then: Callable[[bool, Exception | None], None]) -> None:
        """Query the name servers for *host* and call *then* after the answer.

        Its first argument is whether the host has addresses. The second is an exception if these
        could not be stored, else None.
        """
        self.resolver.look_up(host, lambda addresses: self._store_answer(host, addresses, then))

    def _store_answer(
        self, host: str, addresses: Sequence[str], then: Callable[[bool, Exception | None], None]
    ) -> None:
        """Store the *addresses* of *host* in its record, and call *then*."""
        if self._closed:
            return

        failure = None
        if addresses:  # if there are none, the resolver remembers why
            try:
                record = self.records.get(host)
                record.addresses = list(addresses)
                record.addresses_until = self.clock() + self.resolver.ttl(host)
                self.records.put(record)
            except Exception as error:  # noqa: BLE001  # or the host would stay in process
                failure = error
        then(bool(addresses), failure)

    def close(self) -> None:
        """Close this object: callbacks of look-ups that are still under way are not called."""
        self._closed = True
