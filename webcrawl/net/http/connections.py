"""The connections of a crawl by http and https: direct ones, and those through a proxy.

Invariants: a connection serves the scheme, host, port and proxy it was made for and no others, not
even one at the same address; one that is through is closed at once, or waits in the pool; none is
used again that was closed, or to which something came meanwhile; one request is sent once, and to
one address that took the connection.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING

from webcrawl.clock import now
from webcrawl.items import is_success
from webcrawl.net.guard import BOUND_ADDRESS
from webcrawl.net.http.exchange import Exchange
from webcrawl.net.http.request import tunnel_request
from webcrawl.net.outcomes import BadAnswerError, ForbiddenAddressError, is_stale

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from webcrawl.net.dialer import Dialer
    from webcrawl.net.http.request import Endpoint, Proxy, WireRequest
    from webcrawl.net.http.tls import TlsContext
    from webcrawl.net.limits import FetchLimits


# Seconds between two looks for connections that waited long enough.
_SWEEP_SECS = 0.1
# Seconds in which an origin that twice closed a kept connection under a request gets a new one for
# each, and how many such origins are remembered.
_FRESH_SECS = 600.0
_MOST_CLOSING = 4096


class IdleConnections:
    """The pool of idle connections of one scheme.

    One for each endpoint; none is used that has waited for *keepalive* seconds.
    """

    def __init__(self, *, most: int, keepalive: float, loop: asyncio.AbstractEventLoop) -> None:
        self._most = most
        self._keepalive = keepalive
        self._loop = loop
        # With the time since when each waits, the longest first.
        self._waiting: OrderedDict[Endpoint, tuple[Exchange, float]] = OrderedDict()
        # Those of them that no request waits for yet, in the same order.
        self._unwanted: OrderedDict[Endpoint, None] = OrderedDict()
        self._sweep: asyncio.TimerHandle | None = None

    def take(self, endpoint: Endpoint, address: str) -> Exchange | None:
        """The connection to *endpoint*, if one waits that can be used, and to *address*, if that
        is not empty. One that cannot is closed."""
        if endpoint not in self._waiting:
            return None
        exchange, since = self._take(endpoint)
        fresh = now() - since < self._keepalive
        if fresh and exchange.is_connected() and (not address or exchange.is_to(address)):
            return exchange
        exchange.abort()
        return None

    def put(self, endpoint: Endpoint, exchange: Exchange, *, is_wanted: bool) -> bool:
        """Whether *exchange* waits from now on.

        In a full pool it takes the place of one that no request waits for, if one waits for it:
        which of the others will be used again first is unknown, and all expire within seconds.
        """
        if endpoint in self._waiting:
            return False
        if len(self._waiting) >= self._most:
            if not (is_wanted and self._unwanted):
                return False
            self._take(next(iter(self._unwanted)))[0].abort()
        self._waiting[endpoint] = exchange, now()
        if not is_wanted:
            self._unwanted[endpoint] = None
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
        self._unwanted.clear()

    def _close_expired(self) -> None:
        self._sweep = None
        latest = now() - self._keepalive
        while self._waiting:
            endpoint, (exchange, since) = next(iter(self._waiting.items()))
            if since > latest:
                # Some at once: each would have a timer of its own.
                secs = max(since - latest, _SWEEP_SECS)
                self._sweep = self._loop.call_later(secs, self._close_expired)
                return
            self._take(endpoint)
            exchange.abort()

    def _take(self, endpoint: Endpoint) -> tuple[Exchange, float]:
        self._unwanted.pop(endpoint, None)
        return self._waiting.pop(endpoint)


class HttpConnections:
    """Sends requests and keeps the connections. Needs a running event loop."""

    def __init__(self, *, limits: FetchLimits, dialer: Dialer, tls: TlsContext) -> None:
        self._dialer = dialer
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._new_exchange = partial(Exchange, loop=self._loop, limits=limits)
        self._idle = {
            scheme: IdleConnections(most=most, keepalive=limits.keepalive, loop=self._loop)
            for scheme, most in limits.idle_by_scheme.items()
        }
        self._busy: set[Exchange] = set()
        # Origins that closed a kept connection under a request, and until when none is kept.
        self._closing: OrderedDict[Endpoint, float] = OrderedDict()
        self._closed = False

    async def send(self, request: WireRequest, seconds: float) -> Exchange:
        """The exchange of *request* when the header of the answer is there; its body has to be
        there, too, *seconds* from now. To be given back by the caller.

        Raises TimeoutError when they are over, the exceptions of `outcomes`, and RuntimeError when
        this is closed, or a connection under the loop.
        """
        if self._closed:
            raise RuntimeError("the connections are closed")
        until = now() + seconds
        endpoint = request.endpoint
        if endpoint.proxy is not None and not self._dialer.guard.permits_host(endpoint.host):
            raise ForbiddenAddressError(f"{endpoint.host} is not to be asked of a proxy")
        exchange = None
        if request.is_reusing and not self._is_closing(endpoint):
            address = "" if endpoint.proxy else BOUND_ADDRESS.get()
            exchange = self._idle[endpoint.scheme].take(endpoint, address)
        if exchange is None:
            exchange = await self._connect(endpoint, until)
        self._busy.add(exchange)
        try:
            exchange.ask(request, until=until)
            await exchange.header()
        except BaseException as error:
            self._busy.discard(exchange)
            exchange.rest()
            exchange.abort()
            if is_stale(error):
                self._note_closing(endpoint)
            raise
        return exchange

    def give_back(self, exchange: Exchange, *, is_wanted: bool = True) -> None:
        """Nothing more is wanted of *exchange*: its connection waits for another one, or is closed.
        *is_wanted*: whether another request to its host waits already."""
        request = exchange.request
        self._busy.discard(exchange)
        keep = exchange.rest() and request.is_reusing and not self._closed
        keep = keep and not self._is_closing(request.endpoint)
        pool = self._idle[request.endpoint.scheme]
        if not (keep and pool.put(request.endpoint, exchange, is_wanted=is_wanted)):
            exchange.abort()

    def close(self) -> None:
        """Close every connection; requests under way fail."""
        self._closed = True
        for pool in self._idle.values():
            pool.close()
        for exchange in self._busy:
            exchange.abort()

    def _note_closing(self, endpoint: Endpoint) -> None:
        """Take in that the server of *endpoint* closed a kept connection under a request."""
        is_first = endpoint not in self._closing
        self._closing[endpoint] = 0.0 if is_first else now() + _FRESH_SECS
        self._closing.move_to_end(endpoint)
        if len(self._closing) > _MOST_CLOSING:
            self._closing.popitem(last=False)

    def _is_closing(self, endpoint: Endpoint) -> bool:
        """Return whether no connection to *endpoint* is kept for now."""
        until = self._closing.get(endpoint)
        return until is not None and now() < until

    def _connect(self, endpoint: Endpoint, until: float) -> Awaitable[Exchange]:
        """A new connection over which requests to *endpoint* can be sent."""
        if endpoint.proxy is None:
            return self._dial(endpoint, until)
        return self._connect_through(endpoint.proxy, endpoint, until)

    async def _connect_through(self, proxy: Proxy, endpoint: Endpoint, until: float) -> Exchange:
        exchange = await self._dial(proxy, until, is_proxy=True)
        if endpoint.scheme == "http":
            return exchange
        try:
            return await self._tunnel(exchange, endpoint, proxy, until)
        except BaseException:
            exchange.rest()
            exchange.abort()
            raise

    def _dial(
        self, to: Endpoint | Proxy, until: float, *, is_proxy: bool = False
    ) -> Awaitable[Exchange]:
        async def connect(address: str, port: int, local: tuple[str, int] | None) -> Exchange:
            exchange = self._new_exchange(peer=address)
            tls = self._tls.over(exchange, _certified(to.host)) if to.scheme == "https" else None
            protocol = tls or exchange
            await self._loop.create_connection(lambda: protocol, address, port, local_addr=local)
            if tls is not None:
                await tls.opened()
            return exchange

        # No coroutine: each of them under a task costs 1 us of a connection.
        return self._dialer.dial(to.host, to.port, connect, until=until, is_proxy=is_proxy)

    async def _tunnel(
        self, exchange: Exchange, endpoint: Endpoint, proxy: Proxy, until: float
    ) -> Exchange:
        """A connection to *endpoint* through that to *proxy*. The bounds of the proxy's answer end
        with it."""
        exchange.ask(tunnel_request(endpoint, proxy), until=until)
        await exchange.header()
        if not is_success(exchange.status):
            raise BadAnswerError(f"{exchange.status} {exchange.reason} from the proxy")
        exchange.rest()
        outer = exchange.transport
        assert outer is not None
        inside = self._new_exchange(peer=exchange.peer)
        tls = self._tls.over(inside, _certified(endpoint.host))

        async def begin(*_: object) -> None:
            outer.set_protocol(tls)
            tls.connection_made(outer)
            await tls.opened()

        await self._dialer.dial_address(endpoint.host, endpoint.port, begin, until=until)
        inside.may_be_kept = not exchange.is_mended
        return inside


def _certified(host: str) -> str:
    """*host* as its certificate has it."""
    return host.removeprefix("[").removesuffix("]").removesuffix(".")
