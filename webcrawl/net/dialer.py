"""Dialer: opens connections to hosts, trying the addresses that the guard permits one by one.

Used by the protocol modules.

Invariant: if a server was reached but hung up or does not speak TLS, the host has been contacted,
and no other address of it is tried.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from scrapy.crawler import Crawler

from webcrawl.clock import now
from webcrawl.net import outcomes
from webcrawl.net.dns import resolver as dns
from webcrawl.net.fence import pass_fence
from webcrawl.net.guard import BOUND_ADDRESS, AddressGuard, named_proxies
from webcrawl.net.latencies import latencies_of
from webcrawl.net.limits import FetchLimits

LocalAddress = tuple[str, int] | None

_T = TypeVar("_T")
# A proxy in the settings is the user's choice, and often has a private address.
_PROXY_GUARD = AddressGuard(allow_private=True)
# The message of the cancellation of a task that has waited too long.
_TOO_LATE = "no connection in time"
# Failures after which the next address is tried.
_UNREACHABLE = (
    outcomes.ConnectRefusedError,
    outcomes.ConnectFailedError,
    outcomes.ConnectTimeoutError,
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Dialer:
    """Opens connections to hosts. Its methods raise the exceptions of `outcomes`.

    *proxies* are the hosts and ports of proxies, which may have any address. *took* is called for
    each new connection with the seconds that it took.
    """

    resolver: dns.Resolver
    guard: AddressGuard
    connect_timeout: float
    local_address: LocalAddress
    proxies: Collection[tuple[str, int]] = ()
    took: Callable[[float], object] = lambda _: None

    @classmethod
    def from_crawler(cls, crawler: Crawler, limits: FetchLimits) -> Self:
        """Create a dialer from ALLOW_PRIVATE_ADDRESSES, DOWNLOAD_BIND_ADDRESS and DNS settings."""
        bind = crawler.settings.get("DOWNLOAD_BIND_ADDRESS")
        return cls(
            resolver=dns.resolver_of(crawler),
            guard=AddressGuard.from_settings(crawler.settings),
            connect_timeout=limits.connect_timeout,
            local_address=(bind, 0) if isinstance(bind, str) else bind,
            proxies=named_proxies(crawler.settings),
            took=latencies_of(crawler).connect.add,
        )

    async def dial(
        self,
        host: str,
        port: int,
        connect: Callable[[str, int, LocalAddress], Awaitable[_T]],
        *,
        until: float = math.inf,
        is_proxy: bool = False,
    ) -> _T:
        """Connect to *host*, which is a name or an address, and return the result of *connect*.

        Addresses are tried one by one. With *is_proxy* the host is a proxy. Raises
        ForbiddenAddressError if no address may be contacted, and TimeoutError at *until*, epoch
        seconds; a DNS lookup has its own timeouts.
        """
        # With POLITENESS_KEY "address", a request may be sent only to the address whose pause has
        # passed.
        bound_address = "" if is_proxy else BOUND_ADDRESS.get()
        addresses = [bound_address] if bound_address else await self._resolve(host)

        guard = self.guard
        if is_proxy:
            from webcrawl.net.http.request import ADDED  # noqa: PLC0415  # it imports this module

            # Proxies in the settings or in a host policy are the user's choice.
            if (host.lower(), port) in self.proxies or ADDED.get().proxy:
                guard = _PROXY_GUARD
        permitted = guard.permitted_addresses(addresses)
        if not permitted:
            raise outcomes.ForbiddenAddressError(
                f"{host} has the address {', '.join(addresses[:2])}, which is not public: "
                "ALLOW_PRIVATE_ADDRESSES=1 allows it"
            )

        # If no address can be reached, the failure of the last one is raised.
        for address in permitted[:-1]:
            with contextlib.suppress(*_UNREACHABLE):
                return await self.dial_address(address, port, connect, until=until)
        return await self.dial_address(permitted[-1], port, connect, until=until)

    async def dial_address(
        self,
        address: str,
        port: int,
        connect: Callable[[str, int, LocalAddress], Awaitable[_T]],
        *,
        until: float = math.inf,
    ) -> _T:
        """Connect to *address*, which the guard has permitted, and return the result of *connect*.

        Raises TimeoutError at *until*, epoch seconds, and what ``pass_fence`` raises.
        """
        pass_fence()
        began = now()
        left = until - began
        task: Any = asyncio.current_task()

        # This works like asyncio.timeout, which takes 7 us more. One timer serves both limits.
        seconds = max(0.0, min(left, self.connect_timeout))
        timer = asyncio.get_running_loop().call_later(seconds, task.cancel, _TOO_LATE)
        try:
            try:
                connection = await connect(address, port, self.local_address)
            except asyncio.CancelledError as e:
                # ``uncancel`` is not 0 if the task was also cancelled by someone else.
                if e.args != (_TOO_LATE,) or task.uncancel():
                    raise
                raise TimeoutError from None
            finally:
                timer.cancel()
            self.took(now() - began)
        except OSError as e:
            # The time of the caller is over, not that of the connection.
            if isinstance(e, TimeoutError) and left < self.connect_timeout:
                raise
            where = f"{address}, port {port}"
            raise outcomes.failure_of(e)(f"{where}: {e or type(e).__name__}") from e
        return connection

    async def _resolve(self, host: str) -> list[str]:
        """Return the addresses of *host*; raise HostNotFoundError or HostLookupError."""
        try:
            return await self.resolver.resolve(host)
        except dns.NameNotFoundError as e:
            raise outcomes.HostNotFoundError(str(e)) from e
        except dns.DnsError as e:
            raise outcomes.HostLookupError(str(e)) from e
