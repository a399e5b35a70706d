"""Host addresses: DNS look-ups before a worker is spent on a host (Mercator, section 3.3).

A cached answer is used immediately; otherwise the host waits for a look-up without holding a
worker. Invariants: addresses that the guard forbids are never returned; an answer of the name
servers is kept in the host's record for its time to live, even over a restart.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from webcrawl.net.dns.resolver import DnsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from webcrawl.clock import TimeSource
    from webcrawl.hosts.records import HostRecords
    from webcrawl.net.dns.resolver import Resolver
    from webcrawl.net.guard import AddressGuard


@dataclasses.dataclass(kw_only=True, eq=False)
class HostAddresses:
    """Addresses of hosts, for the preconditions. Its first look-up binds it to the running loop."""

    resolver: Resolver
    guard: AddressGuard
    records: HostRecords
    clock: TimeSource
    _closed: bool = dataclasses.field(default=False, init=False)

    def look(self, host: str) -> list[str] | DnsError | None:
        """Return the permitted addresses of *host*, in order, as far as they are known.

        The list is empty if all addresses are forbidden. Returns the error if the host has none,
        and None if they must be looked up first.
        """
        known = self.resolver.cached(host)
        if known is None:
            record = self.records.get(host)
            left = record.addresses_until - self.clock()
            if left <= 0 or not record.addresses:
                return None
            self.resolver.remember(host, record.addresses, left)
            known = record.addresses
        if isinstance(known, DnsError):
            return known
        return self.guard.permitted(known)

    def retry_in(self, host: str) -> float:
        """Return in how many seconds the name servers are queried for *host* again."""
        return self.resolver.ttl(host)

    def look_up(self, host: str, then: Callable[[bool, Exception | None], None]) -> None:
        """Query the name servers for *host* and call *then* after the answer.

        *then* is called with whether the host has addresses, and with an error if these could not
        be stored, or for a bug.
        """
        self.resolver.look_up(host, lambda addresses: self._answered(host, addresses, then))

    def _answered(
        self, host: str, addresses: Sequence[str], then: Callable[[bool, Exception | None], None]
    ) -> None:
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
        """Stop calling *then* for look-ups under way."""
        self._closed = True
