"""HTTP connection: sends requests and receives their answers, one after the other, within limits.

Invariants: a header has a limit in bytes and in seconds, a body has a minimum rate and a limit on
its framing (answer.py). Data received before a request was sent is not taken for an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from webcrawl.clock import now
from webcrawl.items import is_success
from webcrawl.net.fence import FENCE, pass_fence
from webcrawl.net.guard import plain_address
from webcrawl.net.http.answer import HttpAnswer
from webcrawl.net.http.request import WireRequest
from webcrawl.net.http.tls import TlsTransport
from webcrawl.net.limits import FetchLimits
from webcrawl.net.outcomes import ConnectionLostError, FirstByteTimeoutError, TooSlowError
from webcrawl.net.rates import COUNT_RECEIVED

# Reading from the socket pauses when this many bytes of an answer are buffered.
_READ_BUFFER = 256 * 1024
# Seconds for the body of an answer whose head is sufficient.
_MINOR_BODY_SECS = 2.0


class Exchange(asyncio.Protocol):
    """The protocol of one connection, and the answer to the last request sent over it."""

    transport: asyncio.Transport | None = None
    certificate: bytes | None = None  # the server's, in DER form; None without TLS
    tls = ""  # see ``TlsTransport.version_and_cipher``; empty without TLS
    #: Whether the connection may be used for another request if nothing goes wrong.
    may_be_kept = True
    request: WireRequest  # the last one
    answer: HttpAnswer  # to it
    _waiter: asyncio.Future[None] | None = None
    # Until the header is received, then until the end of a window of the rate; or until the end of
    # the exchange's whole time, if that is earlier.
    _timer: asyncio.TimerHandle | None = None
    _early_data = b""  # received before a request was sent
    _is_asked = False
    _is_reused = False
    _has_stray_data = False  # received data that was not requested
    _is_paused = False

    def __init__(self, *, loop: asyncio.AbstractEventLoop, limits: FetchLimits, peer: str) -> None:
        #: The address at the other end, so that the system need not be asked.
        self.peer = peer
        self._loop = loop
        self._limits = limits
        # The download that opens the connection has set both in its context. They stay the same
        # for all later requests over the connection.
        self._count_received = COUNT_RECEIVED.get()
        # In a hive it may forbid contacts, and then aborts the connection; None outside a hive.
        self._fence = FENCE.get()

    def ask(self, request: WireRequest, *, until: float) -> None:
        """Send *request*; its answer must be complete, including the body, by *until*.

        *until* is epoch seconds. Raises ConnectionLostError if the connection is closed, and what
        ``pass_fence`` raises.
        """
        self.request = request
        self.answer = HttpAnswer(has_body=request.has_body, max_bytes=self._limits.max_bytes)
        if self.transport is None:
            raise ConnectionLostError("the connection was closed before the request was sent")

        self._is_asked = True
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
        answer = self.answer
        while not answer.has_header:
            if answer.error is not None:
                raise answer.error
            await self._wait()
        if not is_success(answer.status):
            self._until = min(self._until, now() + _MINOR_BODY_SECS)
        self._watch_rate()

    async def read(self) -> bytes:
        """Wait for more of the body and return the bytes received; b"" at its end.

        Never raises an exception: see ``HttpAnswer.damage``.
        """
        answer = self.answer
        while not (answer.unread_bytes or answer.is_complete):
            await self._wait()
        data = answer.read()
        if self._is_paused and self.transport is not None:
            self._is_paused = False
            self.transport.resume_reading()
        return data

    def finish(self) -> bool:
        """End the exchange; return whether another one may follow over this connection."""
        self._stop_timer()
        self._is_asked = False
        self._is_reused = True
        self.answer.discard()
        return self.answer.is_complete and not self._is_paused and self.is_connected()

    def is_connected(self) -> bool:
        """Return whether another request may be sent; False if unrequested data was received."""
        is_usable = self.may_be_kept and self.answer.is_reusable and not self._has_stray_data
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
            self._has_stray_data = True
            self._early_data = self._early_data or data
        elif self.answer.is_complete or self.answer.error is not None or self.transport is None:
            self._has_stray_data = True  # TLS may still deliver data after it was closed
        else:
            self.answer.feed(data)
            self._follow_answer()

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the exchange, as the server closed the connection, or because of *exc*."""
        self.transport = None
        if self._is_asked and not self.answer.is_complete:
            lost = ConnectionLostError(str(exc) if exc else "the server hung up")
            lost.is_stale = self._is_reused and not self.answer.received_bytes
            self.answer.end(lost, exc)
            self._follow_answer()

    def _follow_answer(self) -> None:
        """Close the connection or stop reading, as the answer requires, and wake its reader."""
        answer = self.answer
        if answer.error or answer.damage:
            self.abort()
        if answer.error or answer.is_complete:
            self._stop_timer()
        is_full = answer.unread_bytes > _READ_BUFFER
        if is_full and not self._is_paused and self.transport is not None:
            self._is_paused = True
            self.transport.pause_reading()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _wait(self) -> asyncio.Future[None]:
        """Return a future that is done when the answer has changed."""
        self._waiter = self._loop.create_future()
        return self._waiter

    # --- limits in time

    def _watch_rate(self) -> None:
        """Start a window; at its end the body is cut if it was below the minimum rate.

        Bytes are counted as received, including chunk framing.
        """
        if not self.answer.is_complete:
            self._received_before = self.answer.received_bytes  # before this window
            self._set_timer(self._limits.rate_window, self._on_window_end)

    def _on_late_header(self) -> None:
        """Fail if the header was not received in time."""
        if not self.answer.has_header:
            seconds = self._limits.first_byte_timeout
            error = FirstByteTimeoutError(f"no header after {seconds:g} seconds")
            error.is_reused = self._is_reused
            self._stop_answer(error)

    def _on_window_end(self) -> None:
        """Begin another window, or cut the body if it was too slow."""
        window = self._limits.rate_window
        size = self.answer.received_bytes - self._received_before
        if size >= self._limits.min_rate * window:
            self._watch_rate()
        else:
            self._stop_answer(TooSlowError(f"too slow: {size} bytes in {window:g} seconds"))

    def _stop_answer(self, why: BaseException) -> None:
        """End the answer because of *why*, a limit in time."""
        self.answer.stop(why)
        self._follow_answer()

    def _set_timer(self, seconds: float, then: Callable[[], None]) -> None:
        """Call *then* after *seconds*; end the answer if the whole time is over earlier."""
        left = self._until - now()
        if left < seconds:
            seconds = left
            then = partial(self._stop_answer, TimeoutError())
        self._stop_timer()
        self._timer = self._loop.call_later(seconds, then)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
