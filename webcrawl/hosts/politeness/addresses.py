"""Host addresses: DNS look-ups before a worker is spent on a host (Mercator, section 3.3).

A cached answer comes at once; otherwise the host waits for a look-up without holding a worker.
Invariants: no address is returned that the guard forbids; an answer of the name servers lasts for
its time to live, in the host's record, also over a restart.
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
    """The resolver behind the preconditions. Bound to the running loop by its first look-up."""

    resolver: Resolver
    guard: AddressGuard
    records: HostRecords
    clock: TimeSource
    _closed: bool = dataclasses.field(default=False, init=False)

    def look(self, host: str) -> list[str] | DnsError | None:
        """The addresses of *host* that one fetch may contact, in order; empty if all are forbidden;
        the error if it has none; None if they must be looked up first."""
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

    def again_in(self, host: str) -> float:
        """Seconds until the name servers are queried for *host* again."""
        return self.resolver.ttl(host)

    def look_up(self, host: str, then: Callable[[bool, Exception | None], None]) -> None:
        """Query the name servers for *host* and call *then* after the answer, with whether it has
        addresses, and the error if these could not be stored, or for an error of the program."""
        self.resolver.look_up(host, lambda addresses: self._answered(host, addresses, then))

    def _answered(
        self, host: str, addresses: Sequence[str], then: Callable[[bool, Exception | None], None]
    ) -> None:
        if self._closed:
            return
        failure = None
        if addresses:  # the resolver remembers why there are none
            try:
                record = self.records.get(host)
                record.addresses = list(addresses)
                record.addresses_until = self.clock() + self.resolver.ttl(host)
                self.records.put(record)
            except Exception as error:  # noqa: BLE001  # the host would stay in process
                failure = error
        then(bool(addresses), failure)

    def close(self) -> None:
        """No *then* is called any more."""
        self._closed = True
