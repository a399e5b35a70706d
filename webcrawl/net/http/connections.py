"""The http and https connections of a crawl: direct ones, and those through a proxy.

Invariants: a connection is used only for the scheme, host, port and proxy that it was opened for,
and never for another host at the same address. A connection that is no longer used is immediately
closed or put in the pool. A connection that was closed, or that received data while idle, is not
reused. One request is sent once, to one address that accepted the connection.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable
from functools import partial
from typing import Any

from scrapy.utils.datatypes import LocalCache

from webcrawl.clock import now
from webcrawl.items import is_success
from webcrawl.net.dialer import Dialer
from webcrawl.net.guard import BOUND_ADDRESS
from webcrawl.net.http.exchange import Exchange
from webcrawl.net.http.request import Endpoint, Proxy, WireRequest, tunnel_request
from webcrawl.net.http.tls import TlsContext
from webcrawl.net.limits import FetchLimits
from webcrawl.net.outcomes import BadAnswerError, ForbiddenAddressError, is_stale

#: Seconds for which an idle connection is kept for another request to its host.
KEEPALIVE_SECS = 10.0
# Seconds between two checks for expired connections.
_SWEEP_SECS = 0.1
# If a server has twice closed an idle connection just as a request was sent, it gets a new
# connection for each request during this many seconds. The second number limits how many such
# servers are remembered.
_FRESH_SECS = 600.0
_MAX_CLOSING_ORIGINS = 4096


class IdleConnections:
    """The pool of idle connections of one scheme, with room for *capacity* connections.

    There is at most one connection per endpoint.
    """

    def __init__(self, *, capacity: int, loop: asyncio.AbstractEventLoop) -> None:
        self._capacity = capacity
        self._loop = loop
        # Each connection with the time at which it became idle; the longest idle first.
        self._pool: OrderedDict[Endpoint, tuple[Exchange, float]] = OrderedDict()
        # The endpoints in the pool for which no request waits, in the same order.
        self._spare: OrderedDict[Endpoint, None] = OrderedDict()
        self._sweep: asyncio.TimerHandle | None = None

    def take(self, endpoint: Endpoint, address: str) -> Exchange | None:
        """Remove and return an idle connection to *endpoint*, or return None.

        If *address* is not empty, the connection must be to that address. A connection that cannot
        be used is closed.
        """
        if endpoint not in self._pool:
            return None

        exchange, since = self._take(endpoint)
        is_fresh = now() - since < KEEPALIVE_SECS
        if is_fresh and exchange.is_connected() and (not address or exchange.is_to(address)):
            return exchange
        exchange.abort()
        return None

    def put(self, endpoint: Endpoint, exchange: Exchange, *, is_wanted: bool) -> bool:
        """Add *exchange*, a connection to *endpoint*, to the pool; return whether it was added.

        *is_wanted* tells whether a request waits for it. If so, and if the pool is full, it
        replaces a connection that no request waits for. It is unknown which of those would be used
        next, and all of them expire within seconds.
        """
        if endpoint in self._pool:
            return False

        if len(self._pool) >= self._capacity:
            if not (is_wanted and self._spare):
                return False
            self._take(next(iter(self._spare)))[0].abort()

        self._pool[endpoint] = exchange, now()
        if not is_wanted:
            self._spare[endpoint] = None
        if self._sweep is None:
            self._sweep = self._loop.call_later(KEEPALIVE_SECS, self._close_expired)
        return True

    def close(self) -> None:
        """Close all connections."""
        if self._sweep is not None:
            self._sweep.cancel()
        for exchange, _ in self._pool.values():
            exchange.abort()
        self._pool.clear()
        self._spare.clear()

    def _close_expired(self) -> None:
        """Close expired connections, and set a timer for the next ones."""
        self._sweep = None
        expired_since = now() - KEEPALIVE_SECS
        while self._pool:
            endpoint, (exchange, since) = next(iter(self._pool.items()))
            if since > expired_since:
                # One timer closes several connections, instead of one timer for each.
                secs = max(since - expired_since, _SWEEP_SECS)
                self._sweep = self._loop.call_later(secs, self._close_expired)
                return
            self._take(endpoint)
            exchange.abort()

    def _take(self, endpoint: Endpoint) -> tuple[Exchange, float]:
        """Remove and return the connection to *endpoint*, and since when it was idle."""
        self._spare.pop(endpoint, None)
        return self._pool.pop(endpoint)


class HttpConnections:
    """Sends requests over new or idle connections, and keeps these. Needs a running event loop."""

    def __init__(self, *, limits: FetchLimits, dialer: Dialer, tls: TlsContext) -> None:
        self._dialer = dialer
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._new_exchange = partial(Exchange, loop=self._loop, limits=limits)
        self._idle = {
            scheme: IdleConnections(capacity=capacity, loop=self._loop)
            for scheme, capacity in limits.idle_by_scheme.items()
        }
        # Connections that send or receive; see ``give_back``.
        self._busy: set[Exchange] = set()
        # Endpoints that closed an idle connection just as a request was sent, and until when no
        # connection to them is kept: 0.0 if that happened only once.
        self._closing_origins: LocalCache[Endpoint, float] = LocalCache(_MAX_CLOSING_ORIGINS)
        self._closed = False

    async def send(self, request: WireRequest, seconds: float) -> Exchange:
        """Send *request*, and return the exchange when the header of the answer was received.

        The body must be complete *seconds* from now. The caller must call ``give_back``.

        Raises TimeoutError when the time is over, the exceptions of `outcomes`, and RuntimeError if
        this object or the event loop's connection is closed.
        """
        if self._closed:
            raise RuntimeError("the connections are closed")

        until = now() + seconds
        endpoint = request.endpoint
        if endpoint.proxy is not None and not self._dialer.guard.is_host_permitted(endpoint.host):
            raise ForbiddenAddressError(f"{endpoint.host} must not be requested through a proxy")

        exchange = None
        if request.is_reusing and not self._is_closing(endpoint):
            address = "" if endpoint.proxy else BOUND_ADDRESS.get()
            exchange = self._idle[endpoint.scheme].take(endpoint, address)
        if exchange is None:
            exchange = await self._connect(endpoint, until)

        self._busy.add(exchange)
        try:
            exchange.ask(request, until=until)
            await exchange.receive_header()
        except BaseException as error:
            self._busy.discard(exchange)
            exchange.finish()
            exchange.abort()
            if is_stale(error):
                self._note_closing(endpoint)
            raise
        return exchange

    def give_back(self, exchange: Exchange, *, is_wanted: bool = True) -> None:
        """End the use of *exchange*: put its connection in the pool, or close it.

        *is_wanted* tells whether another request to its host is waiting.
        """
        request = exchange.request
        self._busy.discard(exchange)
        may_keep = exchange.finish() and request.is_reusing and not self._closed
        may_keep = may_keep and not self._is_closing(request.endpoint)
        pool = self._idle[request.endpoint.scheme]
        if not (may_keep and pool.put(request.endpoint, exchange, is_wanted=is_wanted)):
            exchange.abort()

    def close(self) -> None:
        """Close every connection; requests in progress fail."""
        self._closed = True
        for pool in self._idle.values():
            pool.close()
        for exchange in self._busy:
            exchange.abort()

    def _note_closing(self, endpoint: Endpoint) -> None:
        """Record that the server at *endpoint* closed an idle connection as a request was sent."""
        # Once may be chance, so that has no effect yet.
        is_first = endpoint not in self._closing_origins
        self._closing_origins[endpoint] = 0.0 if is_first else now() + _FRESH_SECS
        self._closing_origins.move_to_end(endpoint)

    def _is_closing(self, endpoint: Endpoint) -> bool:
        """Return whether, at present, no connection to *endpoint* is kept or reused."""
        until = self._closing_origins.get(endpoint)
        return until is not None and now() < until

    def _connect(self, endpoint: Endpoint, until: float) -> Awaitable[Exchange]:
        """Open a connection for requests to *endpoint*, through its proxy if it has one."""
        if endpoint.proxy is None:
            return self._dial(endpoint, until)
        return self._connect_through(endpoint.proxy, endpoint, until)

    async def _connect_through(self, proxy: Proxy, endpoint: Endpoint, until: float) -> Exchange:
        """Open a connection to *endpoint* through *proxy*; for https, a tunnel."""
        exchange = await self._dial(proxy, until, is_proxy=True)
        if endpoint.scheme == "http":
            return exchange
        try:
            return await self._tunnel(exchange, endpoint, proxy, until)
        except BaseException:
            exchange.finish()
            exchange.abort()
            raise

    def _dial(
        self, to: Endpoint | Proxy, until: float, *, is_proxy: bool = False
    ) -> Awaitable[Exchange]:
        """Open a connection to the endpoint or proxy *to*, with TLS if its scheme is https."""

        async def connect(address: str, port: int, local: tuple[str, int] | None) -> Exchange:
            """Connect from *local* to *address*, and wait for the TLS handshake if there is one."""
            exchange = self._new_exchange(peer=address)
            tls = self._tls.new_layer(exchange, to) if to.scheme == "https" else None
            protocol = tls or exchange
            await self._loop.create_connection(lambda: protocol, address, port, local_addr=local)
            if tls is not None:
                await tls.wait_until_open()
            return exchange

        # This method is not a coroutine, as each coroutine would add 1 us to a connection.
        return self._dialer.dial(to.host, to.port, connect, until=until, is_proxy=is_proxy)

    async def _tunnel(
        self, exchange: Exchange, endpoint: Endpoint, proxy: Proxy, until: float
    ) -> Exchange:
        """Open a tunnel to *endpoint* through *exchange*, the connection to *proxy*.

        The limits of the proxy's answer do not apply to the tunnel.
        """
        exchange.ask(tunnel_request(endpoint, proxy), until=until)
        await exchange.receive_header()
        answer = exchange.answer
        if not is_success(answer.status):
            raise BadAnswerError(f"the proxy answered {answer.status} {answer.reason}")

        exchange.finish()
        # From now on, the connection to the proxy is the transport of TLS with the endpoint.
        outer: Any = exchange.transport
        inside = self._new_exchange(peer=exchange.peer)
        tls = self._tls.new_layer(inside, endpoint)

        async def begin(*_: object) -> None:
            outer.set_protocol(tls)
            tls.connection_made(outer)
            await tls.wait_until_open()

        # Nothing is dialed: this applies the connect timeout, and names the endpoint in errors.
        await self._dialer.dial_address(endpoint.host, endpoint.port, begin, until=until)
        # A connection with a repaired header is not reused, not even with a tunnel in it.
        inside.may_be_kept = not answer.is_head_repaired
        return inside
