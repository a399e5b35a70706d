"""The protocol of one connection: a request and its answer, one after the other, within bounds.

Invariants: a header has a bound in bytes and in seconds, a body a lowest rate and a bound on its
framing; what has come of a body is never lost; and what comes while nothing is asked is no answer.

aiohttp 3.14.5 has no public name for its parser and for the protocol that is refined here.
tests/test_net_http*.py fail when what is used of them moves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from aiohttp import ClientConnectionError
from aiohttp.client_proto import ResponseHandler
from aiohttp.helpers import _EXC_SENTINEL
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from webcrawl.clock import now
from webcrawl.net.guard import plain_address
from webcrawl.net.limits import MAX_HEADER_FIELDS
from webcrawl.net.outcomes import FirstByteTimeoutError, HeaderTooLargeError, TooSlowError

if TYPE_CHECKING:
    import asyncio

    from aiohttp import StreamReader
    from aiohttp.http import RawResponseMessage

    from webcrawl.net.limits import FetchLimits

# What is held of one answer before no more is read from the socket.
READ_BUFFER: Final = 256 * 1024
# Interim answers (1xx) before the one that counts, and that one. Real servers send one or none; a
# stream of them would keep the loop busy until the time-out.
_MAX_ANSWERS: Final = 20
_SWITCHING_PROTOCOLS: Final = 101
# Bytes of chunk sizes, extensions and trailers to a byte of the largest page: chunks of one byte
# have five. More is a server that sends framing without an end, and no body.
_FRAMING: Final = 8
# What aiohttp's parser says, in so many words.
_TOO_MANY_FIELDS: Final = "Too many headers received"


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
    peer = ""  # the address at the other end
    certificate: bytes | None = None  # of the server, DER; None without TLS
    _clock: asyncio.TimerHandle | None = None  # of the header, then of the rate
    _end: asyncio.TimerHandle | None = None  # of the time for all of it
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

    def ask(self, request: bytes, *, has_body: bool, until: float) -> None:
        """Send *request*, whose answer is to be there, its body included, *until* then.
        Without *has_body* the answer has none, whatever its header says."""
        if self.transport is None:
            raise ClientConnectionError("closed before the request was sent")
        limits = self._limits
        self.set_response_params(
            skip_payload=not has_body,
            read_until_eof=True,
            auto_decompress=False,
            read_bufsize=READ_BUFFER,
            max_line_size=limits.header_bytes,
            max_field_size=limits.header_bytes,
            max_headers=MAX_HEADER_FIELDS,
        )
        self._end = self._loop.call_later(until - now(), self._on_end)
        self.transport.write(request)

    async def answer(self) -> tuple[RawResponseMessage, StreamReader]:
        """The header of the answer that counts, and its body as it comes, for which the lowest
        rate is watched from now on."""
        while True:
            message, body = await self.read()
            if not 100 <= message.code < 200 or message.code == _SWITCHING_PROTOCOLS:
                self.watch_rate()
                return message, body

    def rest(self) -> bool:
        """End the exchange; whether another one may follow."""
        self._stop_clock()
        if self._end is not None:
            self._end.cancel()
            self._end = None
        return not self.should_close and self.is_connected()

    def is_to(self, address: str) -> bool:
        """Whether the other end is at *address*."""
        return self.peer == address or plain_address(self.peer) == plain_address(address)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Both loops turn Nagle's algorithm off by themselves.
        self.transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.peer = peer[0] if peer else ""
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            self.certificate = tls.getpeercert(binary_form=True)

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

    def _on_end(self) -> None:
        self._end = None
        if not self._has_header:
            self._fail(TimeoutError())
        elif not self._is_between_bodies():
            self._end_body(TimeoutError())

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
