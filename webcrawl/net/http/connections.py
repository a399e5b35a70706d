"""The connections of a crawl by http and https: direct ones, and those through a proxy.

Invariants: a connection serves the scheme, host, port and proxy it was made for and no others, not
even one at the same address; one that is through is closed at once, or waits in the pool; none is
used again that was closed, or to which something came meanwhile; one request is sent once, and to
one address that took the connection.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Final

from webcrawl.clock import now
from webcrawl.net.guard import BOUND_ADDRESS, AddressGuard
from webcrawl.net.http.exchange import Exchange
from webcrawl.net.http.request import tunnel_request
from webcrawl.net.outcomes import BadAnswerError, ConnectTimeoutError, ForbiddenAddressError

if TYPE_CHECKING:
    from webcrawl.net.dns.resolver import Resolver
    from webcrawl.net.http.request import Endpoint, Proxy, WireRequest
    from webcrawl.net.limits import FetchLimits

# A proxy is the user's choice, and often stands on a private address.
_OF_PROXIES: Final = AddressGuard(allow_private=True)


class IdleConnections:
    """The pool of idle connections of one scheme.

    One for each endpoint, none for longer than *keepalive* seconds.
    """

    def __init__(self, *, most: int, keepalive: float, loop: asyncio.AbstractEventLoop) -> None:
        self._most = most
        self._keepalive = keepalive
        self._loop = loop
        # With the time since when each waits, the longest first.
        self._waiting: OrderedDict[Endpoint, tuple[Exchange, float]] = OrderedDict()
        self._sweep: asyncio.TimerHandle | None = None

    def take(self, endpoint: Endpoint, address: str) -> Exchange | None:
        """The connection to *endpoint*, if one waits that can be used, and to *address*, if that
        is not empty. One that cannot is closed."""
        exchange, since = self._waiting.pop(endpoint, (None, 0.0))
        if exchange is None:
            return None
        fresh = now() - since < self._keepalive
        if fresh and exchange.is_connected() and (not address or exchange.is_to(address)):
            return exchange
        exchange.abort()
        return None

    def put(self, endpoint: Endpoint, exchange: Exchange) -> bool:
        """Whether *exchange* waits from now on.

        Not when the pool is full: which of them will be used again first is unknown, and all expire
        within seconds.
        """
        if len(self._waiting) >= self._most or endpoint in self._waiting:
            return False
        self._waiting[endpoint] = exchange, now()
        if self._sweep is None:
            self._sweep = self._loop.call_later(self._keepalive, self._close_expired)
        return True

    def close(self) -> None:
        """Close all of them."""
        if self._sweep is not None:
            self._sweep.cancel()
        for exchange, _ in self._waiting.values():
            exchange.abort()
        self._waiting.clear()

    def _close_expired(self) -> None:
        self._sweep = None
        latest = now() - self._keepalive
        while self._waiting:
            endpoint, (exchange, since) = next(iter(self._waiting.items()))
            if since > latest:
                self._sweep = self._loop.call_later(since - latest, self._close_expired)
                return
            del self._waiting[endpoint]
            exchange.abort()


class HttpConnections:
    """Sends requests and keeps the connections. Needs a running event loop."""

    def __init__(
        self,
        *,
        limits: FetchLimits,
        resolver: Resolver,
        guard: AddressGuard,
        ssl_context: ssl.SSLContext,
        local_address: tuple[str, int] | None,
    ) -> None:
        self._limits = limits
        self._resolver = resolver
        self._guard = guard
        self._ssl_context = ssl_context
        self._local_address = local_address
        self._loop = asyncio.get_running_loop()
        self._new_exchange = partial(Exchange, loop=self._loop, limits=limits)
        self._idle = {
            scheme: IdleConnections(most=most, keepalive=limits.keepalive, loop=self._loop)
            for scheme, most in limits.idle_by_scheme.items()
        }
        self._busy: set[Exchange] = set()
        self._closed = False

    async def send(self, request: WireRequest, seconds: float) -> Exchange:
        """The exchange of *request* when the header of the answer is there; its body has to be
        there, too, *seconds* from now. To be given back by the caller.

        Raises TimeoutError when they are over, the exceptions of `outcomes`, of the resolver and of
        the loop, and RuntimeError when this is closed.
        """
        if self._closed:
            raise RuntimeError("the connections are closed")
        until = now() + seconds
        endpoint = request.endpoint
        if endpoint.proxy is not None and not self._guard.permits_host(endpoint.host):
            raise ForbiddenAddressError(f"{endpoint.host} is not to be asked of a proxy")
        exchange = None
        if request.is_reusing:
            address = "" if endpoint.proxy else BOUND_ADDRESS.get()
            exchange = self._idle[endpoint.scheme].take(endpoint, address)
        if exchange is None:
            async with asyncio.timeout(seconds):
                exchange = await self._connect(endpoint, until)
        self._busy.add(exchange)
        try:
            exchange.ask(request, until=until)
            await exchange.header()
        except BaseException:
            self._busy.discard(exchange)
            exchange.rest()
            exchange.abort()
            raise
        return exchange

    def give_back(self, exchange: Exchange) -> None:
        """Nothing more is wanted of *exchange*: its connection waits for another one, or is
        closed."""
        request = exchange.request
        self._busy.discard(exchange)
        keep = exchange.rest() and request.is_reusing and not self._closed
        if not (keep and self._idle[request.endpoint.scheme].put(request.endpoint, exchange)):
            exchange.abort()

    def close(self) -> None:
        """Close every connection; requests under way fail."""
        self._closed = True
        for pool in self._idle.values():
            pool.close()
        for exchange in self._busy:
            exchange.abort()

    async def _connect(self, endpoint: Endpoint, until: float) -> Exchange:
        """A new connection over which requests to *endpoint* can be sent."""
        scheme, host, port, proxy = endpoint
        if proxy is None:
            turn = BOUND_ADDRESS.get()
            found = [turn] if turn else await self._resolver.resolve(host)
            addresses = self._guard.permitted(found)
            if not addresses:
                raise ForbiddenAddressError(f"{host} is at {', '.join(found[:2])}")
            return await self._dial(addresses, scheme, host, port)
        found = await self._resolver.resolve(proxy.host)
        addresses = _OF_PROXIES.permitted(found)
        exchange = await self._dial(addresses, *proxy[:3])
        if scheme == "http":
            return exchange
        try:
            return await self._tunnel(exchange, endpoint, proxy, until)
        except BaseException:
            exchange.rest()
            exchange.abort()
            raise

    async def _dial(self, addresses: list[str], scheme: str, host: str, port: int) -> Exchange:
        """A connection to the first of the *addresses* of *host* that takes one, tried one after
        the other. Where a server was there, but speaks no TLS or hung up, the host has been
        contacted: not twice."""
        is_tls = scheme == "https"
        failure: Exception | None = None
        for address in addresses:
            try:
                async with asyncio.timeout(self._limits.connect_timeout):
                    _, exchange = await self._loop.create_connection(
                        self._new_exchange,
                        address,
                        port,
                        ssl=self._ssl_context if is_tls else None,
                        server_hostname=_certified(host) if is_tls else None,
                        local_addr=self._local_address,
                    )
                    return exchange
            except TimeoutError as error:
                failure = ConnectTimeoutError(f"no connection to {address} in time")
                failure.__cause__ = error
            except OSError as error:
                if isinstance(error, ssl.SSLError) or _is_hang_up(error):
                    raise
                failure = error
        assert failure is not None
        raise failure

    async def _tunnel(
        self, exchange: Exchange, endpoint: Endpoint, proxy: Proxy, until: float
    ) -> Exchange:
        """A connection to *endpoint* through that to *proxy*. The bounds of the proxy's answer end
        with it."""
        exchange.ask(tunnel_request(endpoint, proxy), until=until)
        await exchange.header()
        if exchange.status != 200:
            raise BadAnswerError(f"{exchange.status} {exchange.reason} from the proxy")
        exchange.rest()
        assert exchange.transport is not None
        inside = self._new_exchange()
        try:
            async with asyncio.timeout(self._limits.connect_timeout):
                transport = await self._loop.start_tls(
                    exchange.transport,
                    inside,
                    self._ssl_context,
                    server_hostname=_certified(endpoint.host),
                )
        except TimeoutError as error:
            raise ConnectTimeoutError(f"no TLS with {endpoint.host} in time") from error
        assert transport is not None
        inside.connection_made(transport)
        return inside


def _certified(host: str) -> str:
    """*host* as its certificate has it."""
    return host.removeprefix("[").removesuffix("]").removesuffix(".")


def _is_hang_up(error: OSError) -> bool:
    """Whether a server was there, and left."""
    return isinstance(error, ConnectionError) and not isinstance(error, ConnectionRefusedError)
