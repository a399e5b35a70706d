"""Connections as the download handler wants them; the only module that reaches into aiohttp.

aiohttp 3.14.5 has no public name for what is changed here: a bound on idle connections, no second
sending of a request, no answers that nobody asked for, and keeping a body whose framing is broken
behind it. tests/test_net_http.py and tests/test_net_http_outcomes.py fail when one of them stops
working.

Invariant: at most *max_idle* connections are open beside those in use, whatever hosts they are to.
"""

from __future__ import annotations

import functools
import socket
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError

from webcrawl.net.outcomes import ForbiddenAddressError

if TYPE_CHECKING:
    from aiohttp import StreamReader
    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.http import RawResponseMessage

    from webcrawl.net.dns import Resolver
    from webcrawl.net.guard import AddressGuard

# aiohttp tries every address it is given, some of them twice, each with the connect time-out.
_MAX_ADDRESSES: Final = 2
_NUMERIC: Final = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
# Interim answers (1xx) before the one that counts, and that one. Real servers send one or none; a
# stream of them would keep the loop busy until the time-out.
_MAX_ANSWERS: Final = 20


class Connector(aiohttp.TCPConnector):
    """A connector whose pool of idle connections is bounded; aiohttp bounds only those in use."""

    def __init__(self, *, max_idle: int, **options: Any) -> None:
        """*options* are those of aiohttp's connector."""
        super().__init__(**options)
        self._max_idle = max_idle
        # Typed as a partial of aiohttp's class, and partials are invariant.
        self._factory = functools.partial(Exchange, loop=self._loop)  # type: ignore[assignment]

    def _release(
        self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False
    ) -> None:
        # `_conns` has an entry per host with an idle connection, and the frontier lets a host have
        # one at a time. When it is full the newcomer goes: which of them will be used again first
        # is unknown, and all expire within seconds.
        full = len(self._conns) >= self._max_idle
        super()._release(key, protocol, should_close=should_close or full)


class GuardedResolver(AbstractResolver):
    """The crawler's resolver as aiohttp wants it, less the addresses that the guard forbids.

    aiohttp does not ask it about hosts that are addresses, nor is its answer binding: the guard
    judges again when the socket is opened. Here it lets a host's permitted addresses be used
    though there are others. Closing it leaves the resolver open: that is shared.
    """

    def __init__(self, resolver: Resolver, guard: AddressGuard) -> None:
        self._resolver = resolver
        self._guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the first addresses of *host*; raises DnsError or ForbiddenAddressError."""
        found = await self._resolver.resolve(host, family)
        addresses = self._guard.permitted(found)
        if not addresses:
            raise ForbiddenAddressError(f"{host} is at {', '.join(found[:_MAX_ADDRESSES])}")
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=_NUMERIC,
            )
            for address in addresses[:_MAX_ADDRESSES]
        ]

    async def close(self) -> None:
        """Do nothing."""


def send_once(session: aiohttp.ClientSession) -> None:
    """Keep *session* from sending a request again, at once, when the server hangs up.

    aiohttp does so for GET, and the frontier would know nothing of that second contact. The fetch
    fails as transient instead, and the frontier repeats it when it may.
    """
    session._retry_connection = False


class Exchange(ResponseHandler):
    """The protocol of one connection, which gives its parser header and body separately.

    The parser reports an error instead of everything it read in the same piece: a page that is a
    few bytes longer than its Content-Length would be lost, or not, by how it was cut into
    packets. And what it says of a broken body does not reach the reader of the body, who would
    wait for the time-out. Here the body ends, and *damage* says why.
    """

    damage: BaseException | None = None
    _seam = b""  # the last bytes of a header that goes on in the next piece
    _answers = 0

    def set_response_params(self, **params: Any) -> None:
        """Begin the exchange of one request and its answer."""
        self.damage = None
        self._seam = b""
        self._answers = 0
        super().set_response_params(**params)

    def is_connected(self) -> bool:
        """Say whether the connection can be used again.

        Not if something came while it was idle: that would be taken for the next answer.
        """
        return super().is_connected() and not self._buffer and self._exception is None

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Take the header of an answer from the parser."""
        self._answers += 1
        if self._answers <= _MAX_ANSWERS:
            super().feed_data(data, size)
        elif self._exception is None:
            self.set_exception(HttpProcessingError(code=400, message="too many interim answers"))
            if self.transport is not None:
                self.transport.close()

    def data_received(self, data: bytes) -> None:
        while self._exception is None and (self._payload is None or self._payload.is_eof()):
            found = (self._seam + data).find(b"\r\n\r\n")
            if found < 0:
                self._seam = (self._seam + data)[-3:]
                break
            end = found + 4 - len(self._seam)
            self._seam = b""
            if end == len(data):
                break
            super().data_received(data[:end])
            data = data[end:]
        super().data_received(data)
        if self._exception is not None and self._payload is not None:
            body = self._payload
            if not body.is_eof() and body.exception() is None:
                self.damage = self._exception
                body.feed_eof()
