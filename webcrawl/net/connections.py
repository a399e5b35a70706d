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
from aiohttp.client_proto import ResponseHandler
from aiohttp.helpers import _EXC_SENTINEL
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from multidict import CIMultiDict

from webcrawl.net.guard import plain_address
from webcrawl.net.outcomes import (
    FirstByteTimeoutError,
    ForbiddenAddressError,
    HeaderTooLargeError,
    TooSlowError,
)
from webcrawl.net.turn import TURN

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from aiohappyeyeballs import AddrInfoType
    from aiohttp import StreamReader
    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.connector import Connection
    from aiohttp.http import RawResponseMessage
    from aiohttp.tracing import Trace
    from aiohttp.typedefs import LooseHeaders

    from webcrawl.net.dns import Resolver
    from webcrawl.net.guard import AddressGuard
    from webcrawl.net.limits import FetchLimits

_NUMERIC: Final = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
# Interim answers (1xx) before the one that counts, and that one. Real servers send one or none; a
# stream of them would keep the loop busy until the time-out.
_MAX_ANSWERS: Final = 20
_SWITCHING_PROTOCOLS: Final = 101
# Bytes of chunk sizes, extensions and trailers to a byte of the largest page: chunks of one byte
# have five. More is a server that sends framing without an end, and no body.
_FRAMING: Final = 8
# What aiohttp's parser says, in so many words.
_TOO_MANY_FIELDS: Final = "Too many headers received"
# What aiohttp must not say of a body: nobody has said it.
_NO_CONTENT_TYPE: Final[CIMultiDict[None]] = CIMultiDict({"Content-Type": None})


class Connector(aiohttp.TCPConnector):
    """A connector whose pool of idle connections is bounded; aiohttp bounds only those in use."""

    def __init__(self, *, limits: FetchLimits, **options: Any) -> None:
        """*options* are those of aiohttp's connector."""
        super().__init__(keepalive_timeout=limits.keepalive, **options)
        self._max_idle = limits.idle_connections
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
                if not _is_to(protocol, address):
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
            if isinstance(error, aiohttp.ClientSSLError) or _is_hang_up(error.os_error):
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


class Exchange(ResponseHandler):
    """The protocol of one connection, which gives its parser header and body separately.

    The parser reports an error instead of everything it read in the same piece: a page that is a
    few bytes longer than its Content-Length would be lost, or not, by how it was cut into
    packets. And what it says of a broken body does not reach the reader of the body, who would
    wait for the time-out. Here the body ends, and *damage* says why: always, so that reading it
    raises nothing and what has come is never lost.

    Before the body an exchange fails with the exceptions of `outcomes` and aiohttp's.
    """

    damage: BaseException | None = None
    _clock: asyncio.TimerHandle | None = None  # of the header, then of the rate
    _seam = b""  # the last bytes of a header that goes on in the next piece
    _has_header = False
    _ends = 0  # of headers, or what looks like them: blank lines may come in floods
    _answers = 0
    _received = 0  # bytes of the answer, and those of them that are header
    _header_size = 0
    _counted = 0  # bytes that had been received when the rate was looked at last

    def __init__(self, *, loop: asyncio.AbstractEventLoop, limits: FetchLimits) -> None:
        super().__init__(loop=loop)
        self._limits = limits
        self._most_framing = _FRAMING * limits.max_bytes

    def set_response_params(self, **params: Any) -> None:
        """Begin the exchange of one request and its answer."""
        self.damage = None
        self._seam = b""
        self._has_header = False
        self._ends = self._answers = self._received = self._header_size = self._counted = 0
        self._stop_clock()
        self._clock = self._loop.call_later(self._limits.first_byte_timeout, self._on_late_header)
        # What a server says before it is asked is no answer, most often. Read at once, it would
        # close the connection under the request, which then fails for that and not for this.
        early, self._tail = self._tail, b""
        super().set_response_params(**params)
        if early:
            self._loop.call_soon(self.data_received, early)

    def close(self) -> None:
        """Close at once, when nothing is wanted of the connection any more.

        An orderly end of TLS would leave it open until the server agrees, or for 30 s: to the
        server, a second connection beside that of the host's next page.
        """
        self.abort()

    def is_connected(self) -> bool:
        """Say whether the connection can be used again.

        Not if something came while it was idle: that would be taken for the next answer.
        """
        return super().is_connected() and not self._buffer and self._exception is None

    def watch_rate(self) -> None:
        """See to it that the body, unless it is there already, comes at the lowest rate or ends.

        The damage is a TooSlowError then. Bytes are counted as they come, chunking included.
        """
        if self._limits.min_rate and not self._is_between_bodies():
            self._counted = self._received
            self._stop_clock()
            self._clock = self._loop.call_later(self._limits.rate_window, self._on_window_end)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Take the header of an answer from the parser."""
        self._answers += 1
        if self._answers > _MAX_ANSWERS:
            self._fail(_too_many_answers())
            return
        code = data[0].code
        if code >= 200 or code == _SWITCHING_PROTOCOLS:
            self._has_header = True
            self._stop_clock()
        super().feed_data(data, size)

    def set_exception(self, exc: BaseException, exc_cause: BaseException = _EXC_SENTINEL) -> None:
        if isinstance(exc_cause, LineTooLong) or exc_cause.args == (_TOO_MANY_FIELDS,):
            exc = HeaderTooLargeError(str(exc_cause))
        super().set_exception(exc, exc_cause)

    def data_received(self, data: bytes) -> None:
        if self._exception is not None or self.damage is not None:
            return  # TLS may still deliver what it had when it was closed
        if self._parser is None:
            super().data_received(data)  # nothing has been asked yet: it is kept, some of it
            return
        self._received += len(data)
        while self._is_between_bodies():
            read = self._seam + data
            end = _end_of_header(read) - len(self._seam)
            if end < 0:
                self._seam = read[-2:]
                self._count_header(len(data))
                break
            self._seam = b""
            self._ends += 1
            if self._ends > _MAX_ANSWERS:
                self._fail(_too_many_answers())
            else:
                self._count_header(end)
            if end == len(data) or self._exception is not None:
                break
            super().data_received(data[:end])
            data = data[end:]
        if self._exception is None:
            super().data_received(data)
            self._after()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_clock()
        parser = self._parser
        if parser is not None and not self._is_between_bodies():
            self._parser = None
            try:
                parser.feed_eof()
            except HttpProcessingError as error:
                self._end_body(error)
            else:
                # A body without a length ends with the connection; if that ends in disorder,
                # nobody knows whether it is whole.
                self.damage = exc
        super().connection_lost(exc)

    def _is_between_bodies(self) -> bool:
        return self._payload is None or self._payload.is_eof()

    def _after(self) -> None:
        """Look at what the parser, having read what was received, has come to."""
        body = self._payload
        if not self._has_header or body is None or body.is_eof():
            return
        if self._exception is not None:
            self._end_body(self._exception)
        elif self._received - self._header_size - body.total_bytes > self._most_framing:
            self._end_body(HttpProcessingError(message="more framing than body"))

    def _count_header(self, size: int) -> None:
        self._header_size += size
        if self._header_size > self._limits.header_bytes and not self._has_header:
            self._fail(HeaderTooLargeError(f"more than {self._limits.header_bytes} bytes"))

    def _on_late_header(self) -> None:
        self._clock = None
        seconds = self._limits.first_byte_timeout
        self._fail(FirstByteTimeoutError(f"no header within {seconds:g} seconds"))

    def _on_window_end(self) -> None:
        self._clock = None
        window = self._limits.rate_window
        came = self._received - self._counted
        if came >= self._limits.min_rate * window:
            self.watch_rate()
        elif not self._is_between_bodies():
            self._end_body(TooSlowError(f"{came} bytes in {window:g} seconds"))

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _fail(self, error: Exception) -> None:
        """End the exchange before its body."""
        self._stop_clock()
        self.set_exception(error)
        if self.transport is not None:
            self.transport.abort()

    def _end_body(self, why: BaseException) -> None:
        """End the body here; what has come of it can still be read."""
        assert self._payload is not None
        self.damage = why
        self._should_close = True
        self._stop_clock()
        self._payload.feed_eof()
        if self.transport is not None:
            self.transport.abort()


def _is_to(protocol: ResponseHandler, address: str) -> bool:
    transport = protocol.transport
    peer = None if transport is None else transport.get_extra_info("peername")
    return peer is not None and plain_address(peer[0]) == plain_address(address)


def _is_hang_up(error: OSError) -> bool:
    return isinstance(error, ConnectionError) and not isinstance(error, ConnectionRefusedError)


def _too_many_answers() -> HttpProcessingError:
    return HttpProcessingError(code=400, message="too many interim answers")


def _end_of_header(data: bytes) -> int:
    """Return where the first empty line in *data* ends, below 0 if there is none.

    With either of the line ends that the parser takes (RFC 9112, section 2.2).
    """
    end = data.find(b"\n\r\n") + 3
    short = data.find(b"\n\n", 0, end - 2 if end > 2 else None)
    if short >= 0:
        return short + 2
    return end if end > 2 else -1
