"""A connection: requests and their answers, one after the other, within limits.

Invariants: a header has a limit in bytes and in seconds, a body has a minimum rate and a limit on
its framing. Received parts of a body are never lost. Data that comes without a request is not an
answer.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NoReturn

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from webcrawl.clock import now
from webcrawl.items import is_success
from webcrawl.net.fence import FENCE, pass_fence
from webcrawl.net.guard import plain_address
from webcrawl.net.http.chunks import ChunkedBody
from webcrawl.net.http.head import HEAD_END, end_of_head, may_be_head, mended_head
from webcrawl.net.http.tls import TlsTransport, UnclosedError
from webcrawl.net.limits import MAX_HEADER_FIELDS
from webcrawl.net.outcomes import (
    BadAnswerError,
    ConnectionLostError,
    FirstByteTimeoutError,
    HeaderTooLargeError,
    TooSlowError,
)
from webcrawl.net.rates import RECEIVED

if TYPE_CHECKING:
    from collections.abc import Callable

    from webcrawl.net.http.request import WireRequest
    from webcrawl.net.limits import FetchLimits

# Bytes of an answer that are buffered before reading from the socket pauses.
_READ_BUFFER = 256 * 1024
# Interim answers (1xx) and the final one. Real servers send at most one; a stream of them would
# keep the loop busy until the timeout.
_MAX_ANSWERS = 20
# Bytes of line ends that are skipped before an answer.
_MAX_BLANK = 64
_SWITCHING_PROTOCOLS = 101
# Bytes of chunk sizes, extensions and trailers per byte of the largest page. Chunks of one byte
# have five; a server with more sends endless framing and no body.
_FRAMING = 8
_CODING = b"transfer-encoding"
_CHUNKED = b"chunked"
# Bytes of a chunked body, with its framing, that are kept to be read again: enough for most pages.
_MAX_RAW = 64 * 1024
# Statuses of answers without a body, whatever their fields say (RFC 9112, section 6.3).
_WITHOUT_BODY = frozenset({204, 304})
# Seconds for the body of an answer whose head is enough.
_MINOR_BODY_SECS = 2.0


class Exchange(asyncio.Protocol):
    """The protocol of one connection, with the answer to the request that was sent last.

    A body always ends without an exception: *damage* says why it ended early, and the received part
    can be read. Before the body, an exchange fails with the exceptions of `outcomes`, or with
    TimeoutError when its whole time is over.
    """

    transport: asyncio.Transport | None = None
    certificate: bytes | None = None  # of the server, DER; None without TLS
    tls = ""  # see ``TlsTransport.names``; empty without TLS
    status = 0
    reason = ""
    version = ""
    #: The fields as received; if the head was repaired, those of the repaired one.
    headers: list[tuple[bytes, bytes]]
    head = b""  # all of the header as received, with the empty line
    #: Whether the head had to be repaired to be read: see head.py.
    is_mended = False
    damage: BaseException | None = None
    #: Whether another request may follow if nothing goes wrong.
    may_be_kept = True
    request: WireRequest  # the last one
    _error: BaseException | None = None  # before the body
    _parser: HttpResponseParser | None
    _waiter: asyncio.Future[None] | None = None
    # For the header, then for the rate; or for the whole exchange if its time is over before.
    _clock: asyncio.TimerHandle | None = None
    _early = b""  # received before a request was sent
    _mended_size = 0  # bytes of the heads up to the repaired one
    _is_asked = _is_used = _is_reused = False
    # A chunked body as received, after its head; None if it is too large, or was read again.
    _raw: list[bytes] | None = None
    _raw_start = 0  # where the body begins in it
    _chunks: ChunkedBody | None = None
    _has_begun = _has_header = _is_whole = False
    _is_reusable = True  # whether another request may follow
    _is_paused = False

    def __init__(self, *, loop: asyncio.AbstractEventLoop, limits: FetchLimits, peer: str) -> None:
        #: The address at the other end, so that the system need not be asked.
        self.peer = peer
        self._loop = loop
        self._limits = limits
        self._parser = self._new_parser()
        self._pieces: list[bytes] = []
        self._held = 0  # bytes of them
        self._count = RECEIVED.get()
        self._fence = FENCE.get()
        self._head_pieces: list[bytes] = []

    def ask(self, request: WireRequest, *, until: float) -> None:
        """Send *request*. Its answer has to be complete, including the body, by *until*.

        Raises what ``pass_fence`` raises.
        """
        self._is_reused = self._is_used
        if self.transport is None:
            raise self._lost("the connection was closed before the request was sent")
        pass_fence()
        self.request = request
        self.headers = []
        self.head = b""
        self._head_pieces = []
        self.damage = None
        self._is_asked = True
        self.is_mended = False
        self._chunks = self._raw = None
        self._has_begun = self._has_header = self._is_whole = False
        self._answers = self._blank = self._received = 0
        # Bytes received at the last check of the rate; bytes of the body; bytes of its framing; and
        # bytes of framing since the last byte of the body.
        self._counted = self._body_size = self._framing = self._framing_run = 0
        self._until = until
        self._set_clock(self._limits.first_byte_timeout, self._on_late_header)
        self.transport.write(request.data)
        if self._early:
            # Data that a server sends before a request is rarely an answer. If it were read now, it
            # would close the connection while the request is sent, which would then be the error.
            self._loop.call_soon(self.data_received, self._early)
            self._early = b""

    async def header(self) -> None:
        """Wait for the header of the final answer; check the rate of the body from then on.

        If the header is enough, the body gets only a moment.
        """
        while not self._has_header:
            if self._error is not None:
                raise self._error
            await self._wait()
        if not is_success(self.status):
            self._until = min(self._until, now() + _MINOR_BODY_SECS)
        self._watch_rate()

    async def read(self) -> bytes:
        """Return the bytes of the body that have come, at least one; none at its end."""
        while not self._pieces and not self._is_whole:
            await self._wait()
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._held = 0
        if self._is_paused and self.transport is not None:
            self._is_paused = False
            self.transport.resume_reading()
        return data

    def finish(self) -> bool:
        """End the exchange; return whether another one may follow."""
        self._stop_clock()
        self._is_asked = False
        self._is_used = True
        self._pieces.clear()
        return self._is_whole and self.is_connected()

    def is_connected(self) -> bool:
        """Return whether another request may be sent: not if unrequested data came."""
        is_usable = self.may_be_kept and self._is_reusable
        return is_usable and self.transport is not None and not self.transport.is_closing()

    def is_to(self, address: str) -> bool:
        """Return whether the other end is at *address*."""
        return self.peer == address or plain_address(self.peer) == plain_address(address)

    def abort(self) -> None:
        """Close the connection immediately.

        An orderly end of TLS would leave it open until the server agrees, for up to 30 s. To the
        server, that is a second connection next to that of the host's next page.
        """
        if self.transport is not None:
            self.transport.abort()

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Both event loops turn off Nagle's algorithm by themselves.
        self.transport = transport  # type: ignore[assignment]  # the loops pass this type
        if isinstance(transport, TlsTransport):
            self.certificate = transport.certificate()
            self.tls = transport.names()
        elif self._fence is not None:
            self._fence.enclose(transport)

    def data_received(self, data: bytes) -> None:
        if not self.tls:  # the TLS transport has counted the bytes as they came
            self._count(len(data))
        if not self._is_asked:
            self._is_reusable = False
            self._early = self._early or data
            return
        if self._is_whole or self._error is not None or self._parser is None:
            self._is_reusable = False  # TLS may still deliver data after it was closed
            return
        self._received += len(data)
        if not self._has_begun:
            size = len(data)
            data = data.lstrip(b"\r\n")
            self._blank += size - len(data)
            if self._blank > _MAX_BLANK:
                self._fail(BadAnswerError("the server sent blank lines instead of an answer"))
                return
        had_header, body_size = self._has_header, self._body_size
        if not had_header:
            self._head_pieces.append(data)
        self._feed(data)
        if not self._has_header:
            if self._received > self._limits.header_bytes or len(self.headers) > MAX_HEADER_FIELDS:
                self._fail(self._too_large())
        elif had_header and not self._is_whole:
            self._count_framing(len(data), self._body_size - body_size)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.transport = None
        self._parser = None  # it refers back to this object
        if self._is_whole:
            return
        if self._raw is not None:
            self._read_again(self._raw)
        lost = self._lost(str(exc) if exc else "the server hung up")
        if not self._has_header:
            self._fail(lost)
        elif self._chunks is not None and self._chunks.has_last_chunk:
            self._end_body(None)
        else:
            # A body without a length ends with the connection. If the connection breaks, it is
            # unknown whether the body is complete.
            is_end = self._has_no_length() and (exc is None or isinstance(exc, UnclosedError))
            self._end_body(exc if is_end else lost)

    # Called by the parser. An exception here ends its work, but it raises another one instead.

    def on_message_begin(self) -> None:
        self._has_begun = True
        self._answers += 1
        if self._is_whole or self._answers > _MAX_ANSWERS:
            self._reject(BadAnswerError("too many interim answers"))
        self._reason = b""
        self.headers.clear()

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_header:  # else it is a trailer
            self.headers.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        parser = self._parser
        assert parser is not None
        status = parser.get_status_code()
        if status == _SWITCHING_PROTOCOLS:
            # It was not requested, so what follows is the answer (RFC 9110, section 15.2).
            raise ValueError("the head must be repaired")
        if 100 <= status < 200:
            return
        codings = [
            value.lower()
            for name, value in self.headers
            if len(name) == len(_CODING) and name.lower() == _CODING
        ]
        may_have_body = self.request.has_body and status not in _WITHOUT_BODY
        # The parser takes a blank line with spaces for the end of the head.
        is_odd = may_have_body and not self.headers and not self.is_mended
        if is_odd or (codings and codings != [_CHUNKED]):
            raise ValueError("the head must be repaired")
        received, size = b"".join(self._head_pieces), self._mended_size
        if not self.is_mended:
            self.head, size = _last_head(received, self._answers)
            if codings and (b"\n " in self.head or b"\n\t" in self.head):
                # If the field is folded, the parser takes the chunks for the body itself.
                raise ValueError("the head must be repaired")
            self._head_pieces.clear()
            if b"\0" in self.head:
                self._reject(BadAnswerError("a zero byte in the header"))
        if size > self._limits.header_bytes or len(self.headers) > MAX_HEADER_FIELDS:
            self._reject(self._too_large())
        self.status = status
        self.version = parser.get_http_version()
        self.reason = self._reason.decode("utf-8", "surrogateescape")
        self._has_header = True
        if self.is_mended or not parser.should_keep_alive():
            self._is_reusable = False
        self._stop_clock()
        if not self.request.has_body:
            self.on_message_complete()
            self._parser = self._new_parser()  # the old one would expect a body
        elif codings and may_have_body:
            self._raw, self._raw_start = [received], size
        self._wake()

    def on_body(self, data: bytes) -> None:
        if self._is_whole:
            self._is_reusable = False
            return
        self._pieces.append(data)
        self._body_size += len(data)
        self._held += len(data)
        if self._held > _READ_BUFFER and not self._is_paused and self.transport is not None:
            self._is_paused = True
            self.transport.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        if not self._has_header or self._is_whole:
            return
        self._is_whole = True
        self._stop_clock()
        self._wake()

    def _new_parser(self) -> HttpResponseParser:
        parser = HttpResponseParser(self)
        parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        return parser

    def _feed(self, data: bytes) -> None:
        """Pass *data* to whatever reads this part of the answer."""
        if self.is_mended and not self._has_header:
            self._repair_head()
        elif self._chunks is not None:
            self._read_chunks(data)
        else:
            if self._raw is not None:
                self._raw.append(data)
                if self._received > _MAX_RAW:
                    self._raw = None
            self._parse(data)
            raw = None if self._is_whole else self._raw
            if raw is not None and data[-1:] == b"\n":
                last = data if len(data) > 2 else b"".join(raw[-3:])
                if last.endswith(b"0\n\n"):  # it may be the end, which the parser does not see
                    self._read_again(raw)

    def _parse(self, data: bytes) -> None:
        assert self._parser is not None
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            pass
        except HttpParserError as error:
            self._on_error(error)

    def _on_error(self, error: HttpParserError) -> None:
        if self._is_whole:
            self._is_reusable = False
        elif self._raw is not None:
            self._read_again(self._raw)
        elif self._has_header:
            self._end_body(error)
        elif self._error is None and not self.is_mended:
            self.is_mended = True
            self._repair_head()
        else:
            self._fail(self._error or BadAnswerError(str(error)))

    def _repair_head(self) -> None:
        """Pass the repaired head to a new parser, once all of it has come."""
        received = b"".join(self._head_pieces)
        self._head_pieces = [received]
        start = 0
        for _ in range(_MAX_ANSWERS):
            if not may_be_head(received, start):
                self._fail(BadAnswerError("no status line"))
                return
            end = end_of_head(received, start)
            if end < 0:
                return
            if end > self._limits.header_bytes:
                self._fail(self._too_large())
                return
            try:
                mended = mended_head(received[start:end])
            except ValueError as error:
                self._fail(BadAnswerError(str(error)))
                return
            if not mended.is_interim:
                self.head, self._mended_size = received[start:end], end
                self._answers = 0
                self._parser = self._new_parser()
                self._parse(mended.data + received[end:])
                return
            start = len(received) - len(received[end:].lstrip(b"\r\n"))
        self._fail(BadAnswerError("too many interim answers"))

    def _read_again(self, raw: list[bytes]) -> None:
        """Decode *raw*, a chunked body on which the parser failed, with the lenient decoder."""
        known = self._body_size

        def give(piece: bytes) -> None:
            nonlocal known
            new = piece[known:]
            known -= len(piece) - len(new)
            if new:
                self.on_body(new)

        self._raw = None
        self._chunks = ChunkedBody(give)
        self._read_chunks(b"".join(raw)[self._raw_start :])

    def _read_chunks(self, data: bytes) -> None:
        assert self._chunks is not None
        try:
            rest = self._chunks.feed(data)
        except ValueError as error:
            self._end_body(BadAnswerError(str(error)))
            return
        if rest:
            self._is_reusable = False
        if self._chunks.has_ended:
            self.on_message_complete()

    def _reject(self, error: Exception) -> NoReturn:
        """End the exchange before its body, and the parser's work."""
        self._error = error
        raise error

    def _count_framing(self, size: int, of_body: int) -> None:
        self._framing += size - of_body
        self._framing_run = 0 if of_body else self._framing_run + size
        limits = self._limits
        if self._framing > _FRAMING * limits.max_bytes or self._framing_run > limits.header_bytes:
            self._end_body(BadAnswerError("the chunked body is mostly framing"))

    def _lost(self, why: str) -> ConnectionLostError:
        error = ConnectionLostError(why)
        error.is_stale = self._is_reused and not self._received
        return error

    def _has_no_length(self) -> bool:
        """Return whether the body ends with the connection (RFC 9112, section 6.3)."""
        names = {name.lower() for name, _ in self.headers}
        return names.isdisjoint((_CODING, b"content-length"))

    def _watch_rate(self) -> None:
        """Start a window, after which the body ends if it came below the minimum rate.

        Bytes are counted as received, including chunk framing.
        """
        if not self._is_whole:
            self._counted = self._received
            self._set_clock(self._limits.rate_window, self._on_window_end)

    def _on_late_header(self) -> None:
        seconds = self._limits.first_byte_timeout
        error = FirstByteTimeoutError(f"no header after {seconds:g} seconds")
        error.is_reused = self._is_reused
        self._fail(error)

    def _on_window_end(self) -> None:
        window = self._limits.rate_window
        came = self._received - self._counted
        if came >= self._limits.min_rate * window:
            self._watch_rate()
        else:
            self._end_body(TooSlowError(f"too slow: {came} bytes in {window:g} seconds"))

    def _on_end(self) -> None:
        if self._has_header:
            self._end_body(TimeoutError())
        else:
            self._fail(TimeoutError())

    def _set_clock(self, seconds: float, then: Callable[[], None]) -> None:
        left = self._until - now()
        if left < seconds:
            seconds, then = left, self._on_end
        self._stop_clock()
        self._clock = self._loop.call_later(seconds, then)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _fail(self, error: BaseException) -> None:
        """End the exchange before its body."""
        self._error = self._error or error
        self._close()

    def _end_body(self, why: BaseException | None) -> None:
        """End the body here; the received part can still be read."""
        if not self._is_whole:
            self._is_whole = True
            self.damage = why
            self._close()

    def _close(self) -> None:
        self._is_reusable = False
        self._stop_clock()
        self.abort()
        self._wake()

    def _too_large(self) -> HeaderTooLargeError:
        limits = self._limits
        return HeaderTooLargeError(
            f"more than {limits.header_bytes} bytes or {MAX_HEADER_FIELDS} fields"
        )

    def _wait(self) -> asyncio.Future[None]:
        self._waiter = self._loop.create_future()
        return self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _last_head(received: bytes, answers: int) -> tuple[bytes, int]:
    """Return the last of the *answers* headers at the start of *received*, and the size of all."""
    rest = received
    while match := HEAD_END.search(rest):
        answers -= 1
        if answers < 1:
            return rest[: match.end()], len(received) - len(rest) + match.end()
        rest = rest[match.end() :].lstrip(b"\r\n")
    return b"", 0
