"""One connection: requests and their answers, one after the other, within bounds.

Invariants: a header has a bound in bytes and in seconds, a body a lowest rate and a bound on its
framing; what has come of a body is never lost; and what comes while nothing is asked is no answer.
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

# What is held of one answer before no more is read from the socket.
_READ_BUFFER = 256 * 1024
# Interim answers (1xx) before the one that counts, and that one. Real servers send one or none; a
# stream of them would keep the loop busy until the time-out.
_MAX_ANSWERS = 20
# Line ends before an answer.
_MAX_BLANK = 64
_SWITCHING_PROTOCOLS = 101
# Bytes of chunk sizes, extensions and trailers to a byte of the largest page: chunks of one byte
# have five. More is a server that sends framing without an end, and no body.
_FRAMING = 8
_CODING = b"transfer-encoding"
_CHUNKED = b"chunked"
# Bytes of a chunked body, with its framing, that can be read again: most pages.
_MAX_RAW = 64 * 1024
# Statuses of answers that have none, whatever their fields say (RFC 9112, section 6.3).
_WITHOUT_BODY = frozenset({204, 304})
# Seconds for the body of an answer whose head decides alone.
_MINOR_BODY_SECS = 2.0


class Exchange(asyncio.Protocol):
    """The protocol of one connection, and the answer to the request that was sent over it last.

    A body always ends without an exception: *damage* says why it ended early, and what came of it
    can be read. Before the body an exchange fails with the exceptions of `outcomes`, or with
    TimeoutError when all of its time is over.
    """

    transport: asyncio.Transport | None = None
    certificate: bytes | None = None  # of the server, DER; None without TLS
    tls = ""  # see ``TlsTransport.names``; empty without TLS
    status = 0
    reason = ""
    version = ""
    #: The fields as received; of a head that was mended, those of the mended one.
    headers: list[tuple[bytes, bytes]]
    head = b""  # all of the header as received, with the empty line
    #: Whether the head could only be read after it was mended: see head.py.
    is_mended = False
    damage: BaseException | None = None
    #: Whether another request may follow, if all goes well.
    may_be_kept = True
    request: WireRequest  # the last one
    _error: BaseException | None = None  # before the body
    _parser: HttpResponseParser | None
    _waiter: asyncio.Future[None] | None = None
    # Of the header, then of the rate; or of the time for all of it, where that is over before.
    _clock: asyncio.TimerHandle | None = None
    _early = b""  # what came before anything was asked
    _mended_size = 0  # bytes of the heads up to the mended one
    _is_asked = _is_used = _is_reused = False
    # A chunked body as it has come, behind its head; None if that is too much, or was read again.
    _raw: list[bytes] | None = None
    _raw_start = 0  # of the body in it
    _chunks: ChunkedBody | None = None
    _has_begun = _has_header = _is_whole = False
    _is_sound = True  # whether another request may follow
    _is_paused = False

    def __init__(self, *, loop: asyncio.AbstractEventLoop, limits: FetchLimits, peer: str) -> None:
        #: The address at the other end, which the system need not be asked for.
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
        """Send *request*, whose answer is to be there, its body included, *until* then. As
        ``pass_fence``."""
        self._is_reused = self._is_used
        if self.transport is None:
            raise self._lost("closed before the request was sent")
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
        # Bytes received when the rate was looked at last; those of the body; of its framing, and
        # of the framing since the last byte of the body.
        self._counted = self._body_size = self._framing = self._bare = 0
        self._until = until
        self._set_clock(self._limits.first_byte_timeout, self._on_late_header)
        self.transport.write(request.data)
        if self._early:
            # What a server says before it is asked is no answer, most often. Read at once, it would
            # close the connection under the request, which then fails for that and not for this.
            self._loop.call_soon(self.data_received, self._early)
            self._early = b""

    async def header(self) -> None:
        """Wait for the header of the answer that counts; watch the rate from then on.

        Where the header decides alone, the body has only a moment.
        """
        while not self._has_header:
            if self._error is not None:
                raise self._error
            await self._wait()
        if not is_success(self.status):
            self._until = min(self._until, now() + _MINOR_BODY_SECS)
        self._watch_rate()

    async def read(self) -> bytes:
        """The bytes of the body that have come, at least one; none at its end."""
        while not self._pieces and not self._is_whole:
            await self._wait()
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._held = 0
        if self._is_paused and self.transport is not None:
            self._is_paused = False
            self.transport.resume_reading()
        return data

    def rest(self) -> bool:
        """End the exchange; whether another one may follow."""
        self._stop_clock()
        self._is_asked = False
        self._is_used = True
        self._pieces.clear()
        return self._is_whole and self.is_connected()

    def is_connected(self) -> bool:
        """Whether another request may be sent: not if something came that was not asked for."""
        is_usable = self.may_be_kept and self._is_sound
        return is_usable and self.transport is not None and not self.transport.is_closing()

    def is_to(self, address: str) -> bool:
        """Whether the other end is at *address*."""
        return self.peer == address or plain_address(self.peer) == plain_address(address)

    def abort(self) -> None:
        """Close the connection at once.

        An orderly end of TLS would leave it open until the server agrees, or for 30 s: to the
        server, a second connection beside that of the host's next page.
        """
        if self.transport is not None:
            self.transport.abort()

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Both loops turn Nagle's algorithm off by themselves.
        self.transport = transport  # type: ignore[assignment]  # as the loops have it
        if isinstance(transport, TlsTransport):
            self.certificate = transport.certificate()
            self.tls = transport.names()
        elif self._fence is not None:
            self._fence.enclose(transport)

    def data_received(self, data: bytes) -> None:
        if not self.tls:  # whose transport has counted them as they came
            self._count(len(data))
        if not self._is_asked:
            self._is_sound = False
            self._early = self._early or data
            return
        if self._is_whole or self._error is not None or self._parser is None:
            self._is_sound = False  # TLS may still deliver what it had when it was closed
            return
        self._received += len(data)
        if not self._has_begun:
            size = len(data)
            data = data.lstrip(b"\r\n")
            self._blank += size - len(data)
            if self._blank > _MAX_BLANK:
                self._fail(BadAnswerError("blank lines, and no answer"))
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
        self._parser = None  # which refers to this
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
            # A body without a length ends with the connection; if that ends in disorder, nothing
            # says whether it is whole.
            is_end = self._has_no_length() and (exc is None or isinstance(exc, UnclosedError))
            self._end_body(exc if is_end else lost)

    # What the parser calls. What these raise ends its work, but comes out of it as another
    # exception.

    def on_message_begin(self) -> None:
        self._has_begun = True
        self._answers += 1
        if self._is_whole or self._answers > _MAX_ANSWERS:
            self._refuse(BadAnswerError("too many interim answers"))
        self._reason = b""
        self.headers.clear()

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_header:  # else of a trailer
            self.headers.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        parser = self._parser
        assert parser is not None
        status = parser.get_status_code()
        if status == _SWITCHING_PROTOCOLS:
            # Nobody asked for that: what follows is the answer (RFC 9110, section 15.2).
            raise ValueError("a head to be mended")
        if 100 <= status < 200:
            return
        codings = [
            value.lower()
            for name, value in self.headers
            if len(name) == len(_CODING) and name.lower() == _CODING
        ]
        may_have_body = self.request.has_body and status not in _WITHOUT_BODY
        # The parser takes a line of blanks for the head's end.
        is_odd = may_have_body and not self.headers and not self.is_mended
        if is_odd or (codings and codings != [_CHUNKED]):
            raise ValueError("a head to be mended")
        received, size = b"".join(self._head_pieces), self._mended_size
        if not self.is_mended:
            self.head, size = _last_head(received, self._answers)
            if codings and (b"\n " in self.head or b"\n\t" in self.head):
                # The parser takes chunks for the text of the body if their field is folded.
                raise ValueError("a head to be mended")
            self._head_pieces.clear()
            if b"\0" in self.head:
                self._refuse(BadAnswerError("a zero byte in the header"))
        if size > self._limits.header_bytes or len(self.headers) > MAX_HEADER_FIELDS:
            self._refuse(self._too_large())
        self.status = status
        self.version = parser.get_http_version()
        self.reason = self._reason.decode("utf-8", "surrogateescape")
        self._has_header = True
        if self.is_mended or not parser.should_keep_alive():
            self._is_sound = False
        self._stop_clock()
        if not self.request.has_body:
            self.on_message_complete()
            self._parser = self._new_parser()  # the other one would go on to the body
        elif codings and may_have_body:
            self._raw, self._raw_start = [received], size
        self._wake()

    def on_body(self, data: bytes) -> None:
        if self._is_whole:
            self._is_sound = False
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
        """Give *data* to what reads the answer at this point of it."""
        if self.is_mended and not self._has_header:
            self._mend()
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
                if last.endswith(b"0\n\n"):  # it may be the end, for which the parser would wait
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
            self._is_sound = False
        elif self._raw is not None:
            self._read_again(self._raw)
        elif self._has_header:
            self._end_body(error)
        elif self._error is None and not self.is_mended:
            self.is_mended = True
            self._mend()
        else:
            self._fail(self._error or BadAnswerError(str(error)))

    def _mend(self) -> None:
        """Give a new parser the head that the first one could not read, once all of it is there."""
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
        """Read *raw*, a chunked body on which the parser failed, with the lenient decoder."""
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
            self._is_sound = False
        if self._chunks.has_ended:
            self.on_message_complete()

    def _refuse(self, error: Exception) -> NoReturn:
        """End the exchange before its body, and the parser's work."""
        self._error = error
        raise error

    def _count_framing(self, size: int, of_body: int) -> None:
        self._framing += size - of_body
        self._bare = 0 if of_body else self._bare + size
        limits = self._limits
        if self._framing > _FRAMING * limits.max_bytes or self._bare > limits.header_bytes:
            self._end_body(BadAnswerError("more framing than body"))

    def _lost(self, why: str) -> ConnectionLostError:
        error = ConnectionLostError(why)
        error.is_stale = self._is_reused and not self._received
        return error

    def _has_no_length(self) -> bool:
        """Whether the end of the connection is that of the body (RFC 9112, section 6.3)."""
        names = {name.lower() for name, _ in self.headers}
        return names.isdisjoint((_CODING, b"content-length"))

    def _watch_rate(self) -> None:
        """See to it that the body, unless it is there already, comes at the lowest rate or ends.

        Bytes are counted as they come, chunking included.
        """
        if not self._is_whole:
            self._counted = self._received
            self._set_clock(self._limits.rate_window, self._on_window_end)

    def _on_late_header(self) -> None:
        seconds = self._limits.first_byte_timeout
        error = FirstByteTimeoutError(f"no header within {seconds:g} seconds")
        error.is_reused = self._is_reused
        self._fail(error)

    def _on_window_end(self) -> None:
        window = self._limits.rate_window
        came = self._received - self._counted
        if came >= self._limits.min_rate * window:
            self._watch_rate()
        else:
            self._end_body(TooSlowError(f"{came} bytes in {window:g} seconds"))

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
        """End the body here; what has come of it can still be read."""
        if not self._is_whole:
            self._is_whole = True
            self.damage = why
            self._close()

    def _close(self) -> None:
        self._is_sound = False
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
    """The last of the headers of *answers*, which *received* begins with, and the bytes of all."""
    rest = received
    while found := HEAD_END.search(rest):
        answers -= 1
        if answers < 1:
            return rest[: found.end()], len(received) - len(rest) + found.end()
        rest = rest[found.end() :].lstrip(b"\r\n")
    return b"", 0
