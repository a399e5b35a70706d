"""Connections as the download handler wants them; the only module that reaches into aiohttp.

aiohttp 3.14.5 has no public name for what is changed here: a bound on idle connections, no second
sending of a request, no answers that nobody asked for, bounds on the header and on the time it
takes, a lowest rate, and keeping a body whose framing is broken behind it. tests/test_net_http*.py
fail when one of them stops working.

Invariants: at most *max_idle* connections are open beside those in use, whatever hosts they are
to; a connection serves the scheme, host and port it was made for and no other, not even one at
the same address; one that is through is closed at once.
"""

from __future__ import annotations

import functools
import socket
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from multidict import CIMultiDict

from webcrawl.net.http.answers import Answer
from webcrawl.net.http.direct import is_hang_up
from webcrawl.net.http.exchange import Exchange
from webcrawl.net.outcomes import ForbiddenAddressError
from webcrawl.net.turn import TURN

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from aiohappyeyeballs import AddrInfoType
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace
    from aiohttp.typedefs import LooseHeaders

    from webcrawl.net.dns.resolver import Resolver
    from webcrawl.net.guard import AddressGuard
    from webcrawl.net.limits import FetchLimits

_NUMERIC: Final = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
# What aiohttp must not say of a body: nobody has said it.
_NO_CONTENT_TYPE: Final[CIMultiDict[None]] = CIMultiDict({"Content-Type": None})


class Connector(aiohttp.TCPConnector):
    """A connector whose pool of idle connections is bounded; aiohttp bounds only those in use."""

    def __init__(self, *, limits: FetchLimits, max_idle: int, **options: Any) -> None:
        """*options* are those of aiohttp's connector."""
        super().__init__(keepalive_timeout=limits.keepalive, **options)
        self._max_idle = max_idle
        # Typed as a partial of aiohttp's class, and partials are invariant.
        self._factory = functools.partial(  # type: ignore[assignment]
            Exchange, loop=self._loop, limits=limits
        )

    def _release(
        self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False
    ) -> None:
        # `_conns` has an entry per host with an idle connection, and the frontier lets a host have
        # one at a time. When it is full the newcomer goes: which of them will be used again first
        # is unknown, and all expire within seconds.
        close = should_close or protocol.should_close or len(self._conns) >= self._max_idle
        if close:
            # An orderly end of TLS would leave it open until the server agrees, or for 30 s: to
            # the server, a second connection beside that of the host's next page.
            protocol.abort()
        super()._release(key, protocol, should_close=close)

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        address = TURN.get()
        if address and key.proxy is None:
            for protocol, _ in self._conns.get(key, ()):
                if not (isinstance(protocol, Exchange) and protocol.is_to(address)):
                    protocol.abort()  # and is passed over
        return await super()._get(key, traces)

    async def _wrap_create_connection(
        self, *args: Any, addr_infos: list[AddrInfoType], **options: Any
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        # aiohttp tries all addresses in one call, takes the first one off the list whichever has
        # failed, and calls again: the second would be contacted twice. And where somebody was
        # there, but speaks no TLS or hung up, the host has been contacted: not once more elsewhere.
        try:
            return await super()._wrap_create_connection(
                *args, addr_infos=addr_infos[:1], **options
            )
        except aiohttp.ClientConnectorError as error:
            if isinstance(error, aiohttp.ClientSSLError) or is_hang_up(error.os_error):
                del addr_infos[1:]
            raise


class GuardedResolver(AbstractResolver):
    """The crawler's resolver as aiohttp wants it, less the addresses that the guard forbids.

    aiohttp does not ask it about hosts that are addresses, nor is its answer binding: the guard
    judges again when the socket is opened. Here it lets a host's permitted addresses be used
    though there are others. Closing it leaves the resolver open: that is shared. With *to_proxies*
    the hosts are not those of the URLs, whose turn it is.
    """

    def __init__(self, resolver: Resolver, guard: AddressGuard, *, to_proxies: bool) -> None:
        self._resolver = resolver
        self._guard = guard
        self._to_proxies = to_proxies

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the first addresses of *host*; raises DnsError or ForbiddenAddressError."""
        turn = "" if self._to_proxies else TURN.get()
        found = [turn] if turn else await self._resolver.resolve(host, family)
        addresses = self._guard.permitted(found)
        if not addresses:
            raise ForbiddenAddressError(f"{host} is at {', '.join(found[:2])}")
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=_NUMERIC,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """Do nothing."""


class Answered(aiohttp.ClientResponse):
    """Remembers the exchange that it is of, which may be in the pool when the answer is used."""

    _exchange: Exchange | None = None

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        assert isinstance(connection.protocol, Exchange)
        self._exchange = connection.protocol
        await super().start(connection)
        self._exchange.watch_rate()
        return self

    def answer(self) -> Answer:
        """This as the handler wants it."""
        assert self._exchange is not None
        sent = self.request_info.headers.items()
        return Answer(
            self._exchange,
            self,
            self.content,
            status=self.status,
            request_headers=tuple((name.encode(), value.encode()) for name, value in sent),
            close=self.close,
        )


class Sent(aiohttp.ClientRequest):
    """A request with the header fields it is given and that of its host, and no others."""

    def update_auto_headers(self, skip_auto_headers: Iterable[str] | None) -> None:  # noqa: ARG002  # its interface
        """Add nothing. aiohttp finds that out by copying the fields twice."""
        self._skip_auto_headers = _NO_CONTENT_TYPE


def send_once(session: aiohttp.ClientSession) -> None:
    """Keep *session* from sending a request again, at once, when the server hangs up, and from
    copying its header fields one by one to those of all requests, of which there are none.

    aiohttp does so for GET, and the frontier would know nothing of that second contact. The fetch
    fails as transient instead, and the frontier repeats it when it may.
    """
    session._retry_connection = False
    session._prepare_headers = _fields  # type: ignore[method-assign]  # as said


def _fields(headers: LooseHeaders | None) -> CIMultiDict[str]:
    return CIMultiDict(headers or ())
