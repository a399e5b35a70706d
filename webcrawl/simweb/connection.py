"""HTTP connections to the simulated web: requests in; replies, delays and faults out.

Requests may be pipelined; they are answered one after another in their order. Every request that
is begun to be answered leaves exactly one line in the access log, whatever becomes of the answer.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import struct
import time
from collections import deque
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final, cast

from webcrawl.simweb import chance
from webcrawl.simweb.accesslog import AnswerEnd, escaped
from webcrawl.simweb.host_spec import Behaviour, Framing
from webcrawl.simweb.replies import STATUS_LINES, HostReply, error
from webcrawl.simweb.requests import Request, RequestReader
from webcrawl.simweb.robots import MOVED_PATH, PATH

if TYPE_CHECKING:
    from collections.abc import Callable

    from webcrawl.simweb.host_spec import HostSpec
    from webcrawl.simweb.server_state import ServerState

# Bodies above this are written in parts, as fast as the client takes them.
_AT_ONCE_BYTES: Final = 1 << 18
_DRIPS: Final = 8
_MAX_TARGET: Final = 8000  # characters
_MAX_WAITING: Final = 64  # pipelined requests, before reading pauses
# Linger for zero seconds: closing sends RST.
_LINGER_NONE = struct.pack("ii", 1, 0)
# What was written before a reset must be on the line by then, or it would be dropped.
_RESET_SECS: Final = 0.01

_DNS_FAULTS: Final = frozenset({Behaviour.NXDOMAIN, Behaviour.SERVFAIL, Behaviour.DNS_TIMEOUT})
_HANDED_OVER: Final = frozenset({AnswerEnd.OK, AnswerEnd.GARBAGE, AnswerEnd.BAD})
_SPOILING: Final = frozenset({Behaviour.RESET, Behaviour.STALL, Behaviour.GARBAGE})


class HttpConnection(asyncio.Protocol):
    """One HTTP connection, as an asyncio protocol."""

    def __init__(self, *, shared: ServerState, secure: bool) -> None:
        self._shared = shared
        self._world = shared.world
        self._scheme = "https" if secure else "http"
        self._waiting: deque[Request] = deque()
        self._reader = RequestReader(clock=shared.clock, received=self._waiting.append)
        # The request being answered: what its log line will say, and what goes on with it.
        self._current: Request | None = None
        self._status = 0
        self._sent = 0
        self._timer: asyncio.TimerHandle | None = None
        self._parts: deque[bytes] = deque()
        self._last_write = 0.0  # when the last part of an answer went to the transport
        self._is_last = False  # the connection ends with the current answer
        self._pages = 0  # answers in this connection but to requests for robots.txt
        self._at_eof = False  # it ends when all requests have been answered
        self._paused = False
        self._is_stalling = False

    # called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._address: str = transport.get_extra_info("sockname")[0]
        self._client: str = transport.get_extra_info("peername")[0]
        self._shared.opened(self._transport)

    def connection_lost(self, _exc: Exception | None) -> None:
        """Log what was going on, and end it."""
        self._shared.closed(self._transport)
        self._waiting.clear()
        self._parts.clear()
        if self._timer is not None:
            self._timer.cancel()
        if self._current is not None:
            self._log(AnswerEnd.CLOSED)

    def data_received(self, data: bytes) -> None:
        """Read on."""
        self._reader.feed(data)
        if self._current is None:
            self._serve_waiting()
        if len(self._waiting) > _MAX_WAITING and not self._transport.is_closing():
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Finish the answers that are due. TLS cannot be half open, so it ends here.

        A client that gave up waiting is gone, not half closed: its contact ends here, too.
        """
        self._at_eof = True
        return self._current is not None and self._scheme == "http" and not self._is_stalling

    def pause_writing(self) -> None:
        """Wait: the client takes no more for now."""
        self._paused = True

    def resume_writing(self) -> None:
        """Go on with a long answer and those after it."""
        self._paused = False
        if self._parts:
            self._write_parts()
            if self._current is None:
                self._serve_waiting()

    # answers

    def _serve_waiting(self) -> None:
        waiting = self._waiting
        while waiting and self._current is None and not self._transport.is_closing():
            if len(waiting) == _MAX_WAITING:
                self._transport.resume_reading()
            self._current = request = waiting.popleft()
            self._status = self._sent = 0
            self._serve(request)

    def _serve(self, request: Request) -> None:
        if request.is_bad:
            self._refuse(request, 400)
            return
        host = self._shared.find(request.host)
        if host is None or host.address != self._address or host.behaviour in _DNS_FAULTS:
            # A name that does not belong to this address: it was resolved wrongly.
            self._refuse(request, 421)
            return
        if host.behaviour is Behaviour.SLOW:
            self._serve_slowly(request, host)
        elif host.behaviour in _SPOILING:
            self._spoil(request, host)
        else:
            self._send(request, host, self._answer(request, host))

    def _answer(self, request: Request, host: HostSpec) -> HostReply:
        if request.method not in {"GET", "HEAD"}:
            return error(405, "Allow: GET, HEAD\r\n")
        if host.scheme != self._scheme or not self._is_its_port(request, host):
            return error(301, f"Location: {host.origin}{request.target}\r\n")
        if len(request.target) > _MAX_TARGET:
            return error(414)
        if host.behaviour is Behaviour.THROTTLE and request.target not in {PATH, MOVED_PATH}:
            left = self._shared.too_soon(host)
            if left:
                return _throttled(host, left)
        return self._shared.pool.reply_to(host, request.target, gzip=request.gzip)

    def _is_its_port(self, request: Request, host: HostSpec) -> bool:
        colon = request.host.find(":")
        if colon < 0:
            return bool(self._world.portless)
        return host.origin.endswith(request.host[colon:])

    def _refuse(self, request: Request, status: int) -> None:
        self._is_last = True
        head, parts = self._framed(request, error(status), Framing.LENGTH)
        self._write(b"".join((head, *parts)))
        self._finish(AnswerEnd.BAD)

    def _framed(
        self, request: Request, answer: HostReply, framing: Framing
    ) -> tuple[bytes, list[bytes]]:
        """Head and body parts as they are sent. Sets what the log line will have."""
        status, headers, parts = answer
        self._status = status
        length = sum(map(len, parts))
        if framing is Framing.CHUNKED and request.version != "1.1":
            framing = Framing.CLOSE
        if request.method == "HEAD" or framing is Framing.LENGTH:
            frame = b"Content-Length: %d\r\n" % length
        elif framing is Framing.CHUNKED:
            frame = b"Transfer-Encoding: chunked\r\n"
            parts = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part]
            parts.append(b"0\r\n\r\n")
        else:
            frame = b""
            self._is_last = True
        if request.method == "HEAD":
            length = 0
            parts = []
        if self._is_last or not request.keep_alive:
            self._is_last = True
            frame += b"Connection: close\r\n"
        elif request.version == "1.0":
            frame += b"Connection: keep-alive\r\n"
        self._sent = length
        head = b"".join((STATUS_LINES[status], self._shared.date(), headers, frame, b"\r\n"))
        return head, parts

    def _send(self, request: Request, host: HostSpec, answer: HostReply) -> None:
        if request.target != PATH:
            self._pages += 1
            self._is_last |= self._pages == self._world.pages_per_connection
        head, parts = self._framed(request, answer, host.framing)
        if self._sent <= _AT_ONCE_BYTES:
            self._write(b"".join((head, *parts)))
            self._finish(AnswerEnd.OK)
        else:
            self._sent = 0
            self._write(head)
            self._parts.extend(parts)
            self._write_parts()

    def _write(self, data: bytes) -> None:
        # Noted before: when the call returns, the client may have had the last byte for a while,
        # and its pause has begun.
        self._last_write = self._shared.clock()
        self._transport.write(data)

    def _write_parts(self) -> None:
        parts = self._parts
        while parts and not self._paused and not self._transport.is_closing():
            batch = [parts.popleft()]
            size = len(batch[0])
            while parts and size < 1 << 16:
                batch.append(parts.popleft())
                size += len(batch[-1])
            self._sent += size
            self._write(b"".join(batch))
        if not parts:
            self._finish(AnswerEnd.OK)

    def _finish(self, outcome: AnswerEnd) -> None:
        """The answer has been handed over: log it, and close if it was the last."""
        self._log(outcome)
        if self._is_last or (self._at_eof and not self._waiting):
            self._waiting.clear()
            self._transport.close()

    def _log(self, outcome: AnswerEnd) -> None:
        request = self._current
        assert request is not None
        self._current = None
        end = self._last_write if outcome in _HANDED_OVER else self._shared.clock()
        if self._shared.log is not None:
            self._shared.log.add(
                f"{self._client} - - [{request.start:.6f} {end:.6f}] "
                f'"{request.method} {escaped(request.target)} HTTP/{request.version}" '
                f"{self._status} {self._sent} "
                f'"{escaped(request.referer)}" "{escaped(request.agent)}" '
                f"{self._scheme}://{escaped(request.host).replace(' ', '%20')} "
                f"{self._address} {outcome.value}\n"
            )

    # delays and faults

    def _later(self, delay: float, callback: Callable[[], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay, self._resume, callback)

    def _resume(self, callback: Callable[[], None]) -> None:
        self._timer = None
        if not self._transport.is_closing():
            callback()
            if self._current is None:
                self._serve_waiting()

    def _serve_slowly(self, request: Request, host: HostSpec) -> None:
        """Half of the slow hosts begin late, the others take their time over it."""
        answer = self._answer(request, host)
        if chance.draw(self._world.seed, chance.FAULT, host.index) & 1:
            send = functools.partial(self._send, request, host, answer)
            self._later(self._world.slow_secs, send)
            return
        head, parts = self._framed(request, answer, host.framing)
        data = b"".join((head, *parts))
        step = len(data) // _DRIPS + 1
        drips = deque(data[at : at + step] for at in range(0, len(data), step))
        self._drip(drips, self._world.slow_secs / len(drips))

    def _drip(self, drips: deque[bytes], pause: float) -> None:
        self._write(drips.popleft())
        if drips:
            self._later(pause, functools.partial(self._drip, drips, pause))
        else:
            self._finish(AnswerEnd.OK)

    def _spoil(self, request: Request, host: HostSpec) -> None:
        """Reset, stall or send garbage: half of the hosts at once, the others within the answer."""
        self._is_last = True
        self._waiting.clear()
        seed = self._world.seed
        if host.behaviour is Behaviour.GARBAGE:
            noise = chance.draws(seed, chance.FAULT, host.index, 1, 40)
            self._write(b"".join(number.to_bytes(8, "little") for number in noise))
            self._finish(AnswerEnd.GARBAGE)
            return
        if chance.draw(seed, chance.FAULT, host.index) & 1:
            answer = self._answer(request, host)
            head, parts = self._framed(request, answer, Framing.LENGTH)
            half = b"".join(parts)[: self._sent // 2]
            self._sent = len(half)
            self._write(head + half)
        if host.behaviour is Behaviour.STALL:
            self._is_stalling = True
            end = functools.partial(self._finish, AnswerEnd.STALL)
            self._later(self._world.stall_secs, end)
        else:
            self._later(_RESET_SECS, self._reset)

    def _reset(self) -> None:
        sock: Any = self._transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
        self._log(AnswerEnd.RESET)
        self._transport.abort()


def _throttled(host: HostSpec, left: float) -> HostReply:
    """429; Retry-After as a date on every second host, as seconds on the others."""
    wait = int(left) + 1
    value = formatdate(time.time() + wait, usegmt=True) if host.index & 1 else str(wait)
    return error(429, f"Retry-After: {value}\r\n")
