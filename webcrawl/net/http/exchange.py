"""HTTP connection: sends requests and receives their answers, one after the other, within limits.

Invariants: a header has a limit in bytes and in seconds, a body has a minimum rate and a limit on
its framing. Received parts of a body are never lost. Data received before a request was sent is not
taken for an answer.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NoReturn

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

# Reading from the socket pauses when this many bytes of an answer are buffered.
_READ_BUFFER = 256 * 1024
# Maximum number of interim answers (1xx) plus the final one. Real servers send at most one; a
# stream of them would keep the event loop busy until the timeout.
_MAX_ANSWERS = 20
# Maximum number of bytes in line ends that are skipped before an answer.
_MAX_BLANK = 64
_SWITCHING_PROTOCOLS = 101
# Maximum number of bytes of framing (chunk sizes, extensions and trailers) per byte of the largest
# page. A chunk of one byte has five; a server that sends more sends endless framing and no body.
_FRAMING = 8
_CODING = b"transfer-encoding"
_CHUNKED = b"chunked"
# Maximum number of bytes of a chunked body, with its framing, that are kept so that it can be
# decoded again. They are enough for most pages.
_MAX_KEPT_CHUNKS = 64 * 1024
# Statuses of answers without a body, even if their fields announce one (RFC 9112, section 6.3).
_WITHOUT_BODY = frozenset({204, 304})
# Seconds for the body of an answer whose head is sufficient.
_MINOR_BODY_SECS = 2.0


class Exchange(asyncio.Protocol):
    """The protocol of one connection, and the answer to the last request sent over it.

    Reading a body never raises an exception: *damage* tells why it ended early, and the received
    part can be read. Before the body, an exchange fails with the exceptions of `outcomes`, or with
    TimeoutError when its whole time is over.
    """

    transport: asyncio.Transport | None = None
    certificate: bytes | None = None  # the server's, in DER form; None without TLS
    tls = ""  # see ``TlsTransport.version_and_cipher``; empty without TLS
    status = 0
    reason = ""
    version = ""
    #: The fields as received; if the head was repaired, the fields of the repaired head.
    headers: list[tuple[bytes, bytes]]
    head = b""  # the whole header as received, with the empty line
    #: Whether the head had to be repaired to be read: see head.py.
    is_mended = False
    damage: BaseException | None = None
    #: Whether the connection may be used for another request if nothing goes wrong.
    may_be_kept = True
    request: WireRequest  # the last one
    _error: BaseException | None = None  # a failure before the body
    _parser: HttpResponseParser | None
    _waiter: asyncio.Future[None] | None = None
    # Until the header is received, then until the end of a window of the rate; or until the end of
    # the exchange's whole time, if that is earlier.
    _timer: asyncio.TimerHandle | None = None
    _early_data = b""  # received before a request was sent
    _mended_size = 0  # bytes of all heads up to and including the repaired one
    _is_asked = _is_used = _is_reused = False
    # The head and the chunked body as received; None if they are too large, or were decoded again.
    _kept_chunks: list[bytes] | None = None
    _kept_start = 0  # where the body begins in them
    # The lenient decoder, once the parser has failed on a chunked body.
    _chunked_body: ChunkedBody | None = None
    _has_begun = _has_header = _is_complete = False
    _is_reusable = True  # whether another request may follow
    _is_paused = False

    def __init__(self, *, loop: asyncio.AbstractEventLoop, limits: FetchLimits, peer: str) -> None:
        #: The address at the other end, so that the system need not be asked.
        self.peer = peer
        self._loop = loop
        self._limits = limits
        self._parser = self._new_parser()
        # The part of the body that was received and not read yet, and its size.
        self._pieces: list[bytes] = []
        self._buffered_bytes = 0
        self._count_received = RECEIVED.get()
        self._fence = FENCE.get()
        self._head_pieces: list[bytes] = []

    def ask(self, request: WireRequest, *, until: float) -> None:
        """Send *request*; its answer must be complete, including the body, by *until*.

        *until* is epoch seconds. Raises ConnectionLostError if the connection is closed, and what
        ``pass_fence`` raises.
        """
        self._is_reused = self._is_used
        if self.transport is None:
            raise self._lost_error("the connection was closed before the request was sent")

        self.request = request
        self.headers = []
        self.head = b""
        self._head_pieces = []
        self.damage = None
        self._is_asked = True
        self.is_mended = False
        self._chunked_body = self._kept_chunks = None
        self._has_begun = self._has_header = self._is_complete = False
        self._answers = self._blank_bytes = self._received = 0
        # Bytes received before the current window of the rate; bytes of the body; bytes of its
        # framing; and bytes of framing since the last byte of the body.
        self._received_before = self._body_size = self._framing = self._framing_run = 0
        self._until = until
        pass_fence()
        self.transport.write(request.data)
        self._set_timer(self._limits.first_byte_timeout, self._on_late_header)

        if self._early_data:
            # Data that a server sends before a request is rarely an answer. If it were processed
            # now, the connection would be closed while the request is being sent, and that would be
            # reported as the error.
            self._loop.call_soon(self.data_received, self._early_data)
            self._early_data = b""

    async def receive_header(self) -> None:
        """Wait for the header of the final answer; from then on the rate of the body is checked.

        For errors and redirects, whose header is sufficient, the body must come within 2 s.
        """
        while not self._has_header:
            if self._error is not None:
                raise self._error
            await self._wait()
        if not is_success(self.status):
            self._until = min(self._until, now() + _MINOR_BODY_SECS)
        self._watch_rate()

    async def read(self) -> bytes:
        """Wait for more of the body and return the bytes received; b"" at its end."""
        while not self._pieces and not self._is_complete:
            await self._wait()
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._buffered_bytes = 0
        if self._is_paused and self.transport is not None:
            self._is_paused = False
            self.transport.resume_reading()
        return data

    def finish(self) -> bool:
        """End the exchange; return whether another one may follow over this connection."""
        self._stop_timer()
        self._is_asked = False
        self._is_used = True
        self._pieces.clear()
        return self._is_complete and self.is_connected()

    def is_connected(self) -> bool:
        """Return whether another request may be sent; False if unrequested data was received."""
        is_usable = self.may_be_kept and self._is_reusable
        return is_usable and self.transport is not None and not self.transport.is_closing()

    def is_to(self, address: str) -> bool:
        """Return whether the other end is at *address*."""
        return self.peer == address or plain_address(self.peer) == plain_address(address)

    def abort(self) -> None:
        """Close the connection immediately.

        An orderly end of TLS would leave it open until the server answers, for up to 30 s. The
        server would see it as a second connection, next to the one for the host's next page.
        """
        if self.transport is not None:
            self.transport.abort()

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Use *transport*, a new connection to the server."""
        # Both event loops turn off Nagle's algorithm without being asked.
        self.transport = transport  # type: ignore[assignment]  # the loops pass this type
        if isinstance(transport, TlsTransport):
            self.certificate = transport.certificate()
            self.tls = transport.version_and_cipher()
        elif self._fence is not None:
            self._fence.enclose(transport)

    def data_received(self, data: bytes) -> None:
        """Process *data* from the server, which is decrypted already; check the limits."""
        if not self.tls:  # the TLS transport has already counted the encrypted bytes
            self._count_received(len(data))
        if not self._is_asked:
            self._is_reusable = False
            self._early_data = self._early_data or data
            return
        if self._is_complete or self._error is not None or self._parser is None:
            self._is_reusable = False  # TLS may still deliver data after it was closed
            return

        self._received += len(data)
        if not self._has_begun:
            size = len(data)
            data = data.lstrip(b"\r\n")
            self._blank_bytes += size - len(data)
            if self._blank_bytes > _MAX_BLANK:
                self._fail(BadAnswerError("the server sent blank lines instead of an answer"))
                return

        had_header, body_size = self._has_header, self._body_size
        if not had_header:
            self._head_pieces.append(data)
        self._feed(data)

        if not self._has_header:
            if self._received > self._limits.header_bytes or len(self.headers) > MAX_HEADER_FIELDS:
                self._fail(self._too_large_error())
        elif had_header and not self._is_complete:
            self._count_framing(len(data), self._body_size - body_size)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the exchange, as the server closed the connection, or because of *exc*."""
        self.transport = None
        self._parser = None  # it refers back to this object
        if self._is_complete:
            return

        if self._kept_chunks is not None:
            self._decode_leniently(self._kept_chunks)

        lost = self._lost_error(str(exc) if exc else "the server hung up")
        if not self._has_header:
            self._fail(lost)
        elif self._chunked_body is not None and self._chunked_body.has_last_chunk:
            self._end_body(None)
        else:
            # A body without a length ends when the server closes the connection. If the connection
            # breaks, it is unknown whether the body is complete.
            is_end = self._has_no_length() and (exc is None or isinstance(exc, UnclosedError))
            self._end_body(exc if is_end else lost)

    # Called by the parser. An exception here stops it; it then raises an exception of its own.

    def on_message_begin(self) -> None:
        """Begin an answer, interim or final."""
        self._has_begun = True
        self._answers += 1
        if self._is_complete or self._answers > _MAX_ANSWERS:
            self._reject(BadAnswerError("too many interim answers"))
        self._reason = b""
        self.headers.clear()

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_header:  # else it is a trailer
            self.headers.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """Check the header of an answer and, if that is the final one, publish it.

        ValueError is raised if the parser may have read the head wrongly; it is then repaired.
        """
        parser: Any = self._parser
        status = parser.get_status_code()
        if status == _SWITCHING_PROTOCOLS:
            # Nothing of this kind was requested, so the bytes that follow are the answer (RFC 9110,
            # section 15.2).
            raise ValueError("the head must be repaired")
        if 100 <= status < 200:
            return

        codings = [
            value.lower()
            for name, value in self.headers
            if len(name) == len(_CODING) and name.lower() == _CODING
        ]
        may_have_body = self.request.has_body and status not in _WITHOUT_BODY
        # The parser takes a line that contains only spaces for the end of the head.
        is_suspicious = may_have_body and not self.headers and not self.is_mended
        if is_suspicious or (codings and codings != [_CHUNKED]):
            raise ValueError("the head must be repaired")

        received, size = b"".join(self._head_pieces), self._mended_size
        if not self.is_mended:
            self.head, size = _last_head(received, self._answers)
            if codings and (b"\n " in self.head or b"\n\t" in self.head):
                # If the field is folded, the parser does not recognize the chunks as such.
                raise ValueError("the head must be repaired")
            self._head_pieces.clear()
            if b"\0" in self.head:
                self._reject(BadAnswerError("a zero byte in the header"))
        if size > self._limits.header_bytes or len(self.headers) > MAX_HEADER_FIELDS:
            self._reject(self._too_large_error())

        self.status = status
        self.version = parser.get_http_version()
        self.reason = self._reason.decode("utf-8", "surrogateescape")
        self._has_header = True
        if self.is_mended or not parser.should_keep_alive():
            self._is_reusable = False
        self._stop_timer()
        if not self.request.has_body:
            self.on_message_complete()
            self._parser = self._new_parser()  # the old one would expect a body
        elif codings and may_have_body:
            self._kept_chunks, self._kept_start = [received], size
        self._wake()

    def on_body(self, data: bytes) -> None:
        """Buffer *data*, a part of the body; stop reading if too much waits to be read."""
        if self._is_complete:
            self._is_reusable = False
            return
        self._pieces.append(data)
        self._body_size += len(data)
        self._buffered_bytes += len(data)
        if (
            self._buffered_bytes > _READ_BUFFER
            and not self._is_paused
            and self.transport is not None
        ):
            self._is_paused = True
            self.transport.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        """End the body of the final answer; interim answers have none."""
        if not self._has_header or self._is_complete:
            return
        self._is_complete = True
        self._stop_timer()
        self._wake()

    def _new_parser(self) -> HttpResponseParser:
        """Return a parser for the next answer, which calls the methods above."""
        parser = HttpResponseParser(self)
        parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        return parser

    def _feed(self, data: bytes) -> None:
        """Pass *data* to the repair of the head, the lenient decoder or the parser."""
        if self.is_mended and not self._has_header:
            self._repair_head()
        elif self._chunked_body is not None:
            self._read_chunks(data)
        else:
            if self._kept_chunks is not None:
                self._kept_chunks.append(data)
                if self._received > _MAX_KEPT_CHUNKS:
                    self._kept_chunks = None
            self._parse(data)

            # With bare line feeds, the parser does not see the end of the body.
            chunks = None if self._is_complete else self._kept_chunks
            if chunks is not None and data[-1:] == b"\n":
                last_bytes = data if len(data) > 2 else b"".join(chunks[-3:])
                if last_bytes.endswith(b"0\n\n"):
                    self._decode_leniently(chunks)

    def _parse(self, data: bytes) -> None:
        """Pass *data* to the parser, and handle its errors."""
        parser: Any = self._parser
        try:
            parser.feed_data(data)
        except HttpParserUpgrade:
            pass
        except HttpParserError as error:
            self._on_error(error)

    def _on_error(self, error: HttpParserError) -> None:
        """Handle *error* of the parser: repair the head, decode the body again, or fail."""
        if self._is_complete:
            self._is_reusable = False
        elif self._kept_chunks is not None:
            self._decode_leniently(self._kept_chunks)
        elif self._has_header:
            self._end_body(error)
        elif self._error is None and not self.is_mended:
            self.is_mended = True
            self._repair_head()
        else:
            self._fail(self._error or BadAnswerError(str(error)))

    def _repair_head(self) -> None:
        """Repair the head once it is complete, and pass it to a new parser."""
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
                self._fail(self._too_large_error())
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

    def _decode_leniently(self, chunks: list[bytes]) -> None:
        """Decode *chunks*, a body on which the parser failed, with the lenient decoder.

        The part that the parser has decoded before is not delivered again.
        """
        bytes_to_skip = self._body_size

        def deliver(piece: bytes) -> None:
            nonlocal bytes_to_skip
            new = piece[bytes_to_skip:]
            bytes_to_skip -= len(piece) - len(new)
            if new:
                self.on_body(new)

        self._kept_chunks = None
        self._chunked_body = ChunkedBody(deliver)
        self._read_chunks(b"".join(chunks)[self._kept_start :])

    def _read_chunks(self, data: bytes) -> None:
        """Pass *data* to the lenient decoder."""
        body: Any = self._chunked_body
        try:
            rest = body.feed(data)
        except ValueError as error:
            self._end_body(BadAnswerError(str(error)))
            return

        if rest:
            self._is_reusable = False
        if body.has_ended:
            self.on_message_complete()

    def _reject(self, error: Exception) -> NoReturn:
        """Fail with *error* before the body; called by the parser, which stops."""
        self._error = error
        raise error

    def _count_framing(self, size: int, body_bytes: int) -> None:
        """Count *size* bytes, of which *body_bytes* are not framing; end a body of mere framing."""
        self._framing += size - body_bytes
        self._framing_run = 0 if body_bytes else self._framing_run + size
        limits = self._limits
        if self._framing > _FRAMING * limits.max_bytes or self._framing_run > limits.header_bytes:
            self._end_body(BadAnswerError("the chunked body is mostly framing"))

    def _lost_error(self, why: str) -> ConnectionLostError:
        """Return the error for a connection that was lost before the body."""
        error = ConnectionLostError(why)
        error.is_stale = self._is_reused and not self._received
        return error

    def _has_no_length(self) -> bool:
        """Return whether the body ends when the connection is closed (RFC 9112, section 6.3)."""
        names = {name.lower() for name, _ in self.headers}
        return names.isdisjoint((_CODING, b"content-length"))

    def _watch_rate(self) -> None:
        """Start a window; at its end the body is cut if it was below the minimum rate.

        Bytes are counted as received, including chunk framing.
        """
        if not self._is_complete:
            self._received_before = self._received
            self._set_timer(self._limits.rate_window, self._on_window_end)

    def _on_late_header(self) -> None:
        """Fail because the header was not received in time."""
        seconds = self._limits.first_byte_timeout
        error = FirstByteTimeoutError(f"no header after {seconds:g} seconds")
        error.is_reused = self._is_reused
        self._fail(error)

    def _on_window_end(self) -> None:
        """Begin another window, or cut the body if it was too slow."""
        window = self._limits.rate_window
        size = self._received - self._received_before
        if size >= self._limits.min_rate * window:
            self._watch_rate()
        else:
            self._end_body(TooSlowError(f"too slow: {size} bytes in {window:g} seconds"))

    def _on_deadline(self) -> None:
        """Cut the body, or fail, because the whole time of the exchange is over."""
        if self._has_header:
            self._end_body(TimeoutError())
        else:
            self._fail(TimeoutError())

    def _set_timer(self, seconds: float, then: Callable[[], None]) -> None:
        """Call *then* after *seconds*, or ``_on_deadline`` if the deadline is earlier."""
        left = self._until - now()
        if left < seconds:
            seconds, then = left, self._on_deadline
        self._stop_timer()
        self._timer = self._loop.call_later(seconds, then)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fail(self, error: BaseException) -> None:
        """Fail with *error* before the body, and close the connection."""
        self._error = self._error or error
        self._close()

    def _end_body(self, damage: BaseException | None) -> None:
        """End the body here because of *damage*, if any; the received part can still be read."""
        if not self._is_complete:
            self._is_complete = True
            self.damage = damage
            self._close()

    def _close(self) -> None:
        """Close the connection, and wake the reader."""
        self._is_reusable = False
        self._stop_timer()
        self.abort()
        self._wake()

    def _too_large_error(self) -> HeaderTooLargeError:
        """Return the error for a header over the limits."""
        limits = self._limits
        return HeaderTooLargeError(
            f"more than {limits.header_bytes} bytes or {MAX_HEADER_FIELDS} fields"
        )

    def _wait(self) -> asyncio.Future[None]:
        """Return a future that is done at the next call of ``_wake``."""
        self._waiter = self._loop.create_future()
        return self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _last_head(received: bytes, answers: int) -> tuple[bytes, int]:
    """Return the last of the *answers* headers at the start of *received*, and their total size."""
    rest = received
    while match := HEAD_END.search(rest):
        answers -= 1
        if answers < 1:
            return rest[: match.end()], len(received) - len(rest) + match.end()
        rest = rest[match.end() :].lstrip(b"\r\n")
    return b"", 0
