"""Connections for the requests that a crawl makes, all but a few: GET or HEAD of a plain URL.

A page by aiohttp's session takes 0.3 ms of what a crawl does besides, most of it for what such a
request has none of: cookies, redirects, forms, middlewares, traces. Here the exchange (exchange.py,
on aiohttp's parser) is asked without them.

Invariants: a connection serves the scheme, host and port it was made for and no other, not even one
at the same address; one that is through is closed at once, or waits in the pool (idle.py).
"""

from __future__ import annotations

import asyncio
import re
import ssl
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from aiohttp import ConnectionTimeoutError

from webcrawl.clock import now
from webcrawl.net.http.answers import Answer
from webcrawl.net.http.exchange import Exchange
from webcrawl.net.http.idle import IdleConnections, Place
from webcrawl.net.outcomes import ForbiddenAddressError
from webcrawl.net.turn import TURN

if TYPE_CHECKING:
    from scrapy import Request

    from webcrawl.net.dns.resolver import Resolver
    from webcrawl.net.guard import AddressGuard
    from webcrawl.net.limits import FetchLimits

_OCTET: Final = r"(?:0|[1-9][0-9]{0,2})"
# Scheme, host, port, and what to ask for. A last label that begins with a letter makes no address.
_PLAIN_URL: Final = re.compile(
    r"(https?)://((?:[a-z0-9_-]++\.)*+[a-z][a-z0-9_-]*+|"
    rf"(?:{_OCTET}\.){{3}}{_OCTET})"
    r"(?::([1-9][0-9]{0,4}))?+"
    r"""(/[!"$-~]*+)?+(?:#.*)?+""",
    re.ASCII | re.DOTALL,
)
_PORTS: Final = {"http": 80, "https": 443}
_METHODS: Final = frozenset({"GET", "HEAD"})
# Fields that decide on the framing, or on where a request goes.
_UNUSUAL: Final = frozenset(
    {
        b"Connection",
        b"Content-Length",
        b"Expect",
        b"Host",
        b"Proxy-Authorization",
        b"Transfer-Encoding",
        b"Upgrade",
    }
)
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


class Asked(NamedTuple):
    """A request as it is sent. headers: its fields, that of the host included."""

    place: Place
    data: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    has_body: bool
    """Whether its answer may have a body."""


def plain_request(request: Request) -> Asked | None:
    """*request* as it is sent, None if it takes more than is done here."""
    method, fields = request.method, request.headers
    found = _PLAIN_URL.fullmatch(request.url)
    if found is None or request.body or method not in _METHODS or not _UNUSUAL.isdisjoint(fields):
        return None
    scheme, host, digits, path = found.groups()
    port = int(digits) if digits else _PORTS[scheme]
    if port > 65535:
        return None
    authority = host if port == _PORTS[scheme] else f"{host}:{port}"
    headers = [(b"Host", authority.encode())]
    headers += [(name, value) for name, values in fields.items() for value in values]
    # A field with a line end in it would say more than one thing.
    if _CONTROL.search(b"".join(map(b"".join, headers))) is not None:
        return None
    lines = [b"%b: %b\r\n" % field for field in headers]
    data = b"%b %b HTTP/1.1\r\n%b\r\n" % (
        method.encode(),
        (path or "/").encode(),
        b"".join(lines),
    )
    return Asked(Place(scheme, host, port), data, tuple(headers), method == "GET")


class DirectConnections:
    """Asks over connections of its own. Needs a running event loop."""

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

    async def ask(self, asked: Asked, seconds: float) -> Answer:
        """The answer to *asked* when its header is there; its body has to be there, too, *seconds*
        from now. To be closed by the caller.

        Raises TimeoutError when they are over; ForbiddenAddressError; the exceptions of the
        resolver, of the loop and of `Exchange`; RuntimeError when this is closed.
        """
        if self._closed:
            raise RuntimeError("the connections are closed")
        until = now() + seconds
        place = asked.place
        exchange = self._idle[place.scheme].take(place, TURN.get())
        if exchange is None:
            async with asyncio.timeout(seconds):
                exchange = await self._connect(place)
        self._busy.add(exchange)
        try:
            exchange.ask(asked.data, has_body=asked.has_body, until=until)
            message, body = await exchange.answer()
        except BaseException:
            self._drop(exchange)
            raise
        return Answer(
            exchange,
            message,
            body,
            status=message.code,
            request_headers=asked.headers,
            close=partial(self._give_back, place, exchange),
        )

    def close(self) -> None:
        """Close every connection; requests under way fail."""
        self._closed = True
        for pool in self._idle.values():
            pool.close()
        for exchange in self._busy:
            if exchange.transport is not None:
                exchange.transport.abort()

    async def _connect(self, place: Place) -> Exchange:
        """A new connection to one of the host's addresses, tried one after the other. Where
        somebody was there, but speaks no TLS or hung up, the host has been contacted: not twice."""
        scheme, host, port = place
        turn = TURN.get()
        found = [turn] if turn else await self._resolver.resolve(host)
        addresses = self._guard.permitted(found)
        if not addresses:
            raise ForbiddenAddressError(f"{host} is at {', '.join(found[:2])}")
        tls = self._ssl_context if scheme == "https" else None
        failure: OSError | None = None
        for address in addresses:
            try:
                async with asyncio.timeout(self._limits.connect_timeout):
                    _, exchange = await self._loop.create_connection(
                        self._new_exchange,
                        address,
                        port,
                        ssl=tls,
                        server_hostname=host if tls else None,
                        local_addr=self._local_address,
                    )
                    return exchange
            except TimeoutError as error:
                failure = ConnectionTimeoutError(f"no connection to {address} in time")
                failure.__cause__ = error
            except ssl.SSLError:
                raise
            except OSError as error:
                if is_hang_up(error):
                    raise
                failure = error
        assert failure is not None
        raise failure

    def _give_back(self, place: Place, exchange: Exchange) -> None:
        """The exchange is over: another one may follow, or the connection is closed."""
        if exchange not in self._busy:
            return
        self._busy.discard(exchange)
        sound = exchange.rest() and not self._closed
        if not (sound and self._idle[place.scheme].put(place, exchange)):
            # An orderly end of TLS would leave it open until the server agrees, or for 30 s: to the
            # server, a second connection beside that of the host's next page.
            exchange.abort()

    def _drop(self, exchange: Exchange) -> None:
        self._busy.discard(exchange)
        exchange.rest()
        exchange.abort()


def is_hang_up(error: OSError) -> bool:
    """Whether somebody was there, and left."""
    return isinstance(error, ConnectionError) and not isinstance(error, ConnectionRefusedError)
