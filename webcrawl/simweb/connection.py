"""HTTP connections to the simulated web: reads requests, and sends replies with delays and faults.

Requests may be pipelined; they are answered one after another, in order. A reply of a sound host is
written immediately; all other replies are sent by a task. Every request whose answer has begun
leaves exactly one line in the access log, however the answer ends.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import httptools

from webcrawl.simweb import chance
from webcrawl.simweb.accesslog import AnswerEnd, Hit
from webcrawl.simweb.host_spec import DNS_FAULTS, Behaviour, Framing, HostSpec
from webcrawl.simweb.replies import NONE, STATUS_LINES, HostReply, Known, status_page
from webcrawl.simweb.robots import MOVED_PATH, PATH

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from webcrawl.simweb.server_state import ServerState

# Larger bodies are written in parts, as fast as the client accepts them.
_MAX_WRITE_BYTES = 1 << 18
_DRIPS = 8  # parts of an answer that is sent slowly
_MAX_WAITING = 1024  # pipelined requests
# Value of SO_LINGER: linger for zero seconds, so that closing sends RST.
_LINGER_NONE = struct.pack("ii", 1, 0)
# Seconds between the last data and a reset; with an immediate reset, the data would be dropped.
_RESET_SECS = 0.01

_HANDED_OVER = frozenset({AnswerEnd.OK, AnswerEnd.GARBAGE, AnswerEnd.BAD})
_MISBEHAVING = frozenset({Behaviour.RESET, Behaviour.STALL, Behaviour.GARBAGE})


class WebRequest(NamedTuple):
    """Complete HTTP request. Data that is not HTTP becomes a request without host and target."""

    start: float
    method: str = "-"
    target: str = "-"
    version: str = "-"
    host: str = "-"
    agent: str = ""
    referer: str = ""
    gzip: bool = False
    keep_alive: bool = False
    known: Known = NONE
    is_signed: bool = False
    verified: bool = True

    @property
    def is_bad(self) -> bool:
        """Whether the request cannot be answered: it is not HTTP, or has no path or no Host."""
        return not (self.host and self.target.startswith("/"))


class HttpConnection(asyncio.Protocol):
    """Server side of an HTTP or HTTPS connection: an asyncio protocol.

    *scheme* is http or https.
    """

    def __init__(self, shared: ServerState, scheme: str) -> None:
        self._shared = shared
        self._world = shared.world
        self._scheme = scheme
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._stops_reading = False  # whether no more requests are read
        self._waiting: deque[WebRequest] = deque()
        self._can_write = asyncio.Event()
        self._can_write.set()
        # The request being answered by a task, and the values for its log line.
        self._current: WebRequest | None = None
        self._task: asyncio.Task[None] | None = None
        self._status = 0
        self._sent = 0
        # Time at which the last part of an answer was handed to the transport.
        self._last_write = 0.0
        self._is_last = False  # whether the connection ends with the current answer
        self._pages = 0  # number of answers, except to requests for robots.txt

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the addresses of the connection."""
        self._transport = cast("asyncio.Transport", transport)
        self._address: str = transport.get_extra_info("sockname")[0]
        self._client: str = (transport.get_extra_info("peername") or [""])[0]
        self._shared.connections.add(self._transport)

    def connection_lost(self, _exc: Exception | None) -> None:
        """Log an unfinished answer and cancel it."""
        self._shared.connections.discard(self._transport)
        self._waiting.clear()
        if self._current is not None:
            self._log(self._current, AnswerEnd.CLOSED)
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Parse *data* and serve complete requests."""
        if not self._stops_reading:
            try:
                self._parser.feed_data(data)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade):
                if not self._stops_reading:
                    self._stops_reading = True
                    self._waiting.append(WebRequest(self._shared.clock()))
        self._serve_waiting()
        if len(self._waiting) > _MAX_WAITING:
            self._transport.abort()

    def pause_writing(self) -> None:
        """Stop writing until the client accepts more data."""
        self._can_write.clear()

    def resume_writing(self) -> None:
        """Continue a long answer."""
        self._can_write.set()

    # Called by the parser

    def on_message_begin(self) -> None:
        """Begin a new request."""
        self._url = b""
        self._headers = {}

    def on_url(self, url: bytes) -> None:
        """Append a part of the request's target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header; the last one of a name counts."""
        self._headers[name.lower()] = value

    def on_message_complete(self) -> None:
        """Queue the complete request."""
        if self._stops_reading:
            return
        headers = self._headers
        verify = self._shared.verify if self._scheme == "https" else None
        parser = self._parser
        keep_alive = parser.should_keep_alive() and not parser.should_upgrade()
        self._stops_reading = not keep_alive
        self._waiting.append(
            WebRequest(
                self._shared.clock(),
                parser.get_method().decode("ascii"),
                self._url.decode("latin-1"),
                parser.get_http_version(),
                headers.get(b"host", b"").decode("latin-1").lower(),
                headers.get(b"user-agent", b"").decode("latin-1"),
                headers.get(b"referer", b"").decode("latin-1"),
                b"gzip" in headers.get(b"accept-encoding", b""),
                keep_alive,
                (
                    headers.get(b"if-none-match", b"").decode("latin-1"),
                    headers.get(b"if-modified-since", b"").decode("latin-1"),
                ),
                b"signature" in headers,
                verify is None or verify(headers),
            )
        )

    # Answers

    def _serve_waiting(self) -> None:
        """Answer queued requests one after another, until one needs a task."""
        while self._waiting and self._current is None and not self._transport.is_closing():
            request = self._waiting.popleft()
            self._status = 0
            self._sent = 0
            self._serve(request)

    def _serve(self, request: WebRequest) -> None:
        """Answer *request*: immediately, or in a task if that takes time."""
        host = None if request.is_bad else self._shared.find(request.host)
        if host is None or host.address != self._address or host.behaviour in DNS_FAULTS:
            # 421: the host name does not belong to this address, so it was resolved wrongly.
            self._is_last = True
            answer = status_page(400 if request.is_bad else 421)
            self._write(self._frame(request, Framing.LENGTH, answer))
            self._end(request, AnswerEnd.BAD)
        elif host.behaviour is Behaviour.SLOW:
            self._start(request, lambda: self._answer_slowly(request, host))
        elif host.behaviour in _MISBEHAVING:
            self._start(request, lambda: self._misbehave(request, host))
        else:
            if request.target != PATH:
                self._pages += 1
                self._is_last = self._pages == self._world.pages_per_connection
            parts = self._frame(request, host.framing, self._answer(request, host))
            if self._sent <= _MAX_WRITE_BYTES:
                self._write(parts)
                self._end(request, AnswerEnd.OK)
            else:
                self._start(request, lambda: self._write_long(parts))

    def _answer(self, request: WebRequest, host: HostSpec) -> HostReply:
        """Return the response of *host* to *request*, without faults."""
        if request.method != "GET":
            return status_page(405, "Allow: GET\r\n")
        if not request.verified:
            return status_page(401, ACCEPT_SIGNATURE)
        _, _, port = request.host.partition(":")
        # A Host header without a port is accepted, because wget2 1.99 never sends one.
        if host.scheme != self._scheme or (port and not host.origin.endswith(f":{port}")):
            return status_page(301, f"Location: {host.origin}{request.target}\r\n")
        if host.behaviour is Behaviour.THROTTLE and request.target not in {PATH, MOVED_PATH}:
            wait_secs = self._shared.secs_until_accepted(host)
            if wait_secs:
                return _throttle(host, wait_secs, self._shared.clock())
        if host.behaviour is Behaviour.GUARDED and request.target not in {PATH, MOVED_PATH}:
            status, field = GUARDS[host.index % len(GUARDS)]
            if not (field == ACCEPT_SIGNATURE and request.is_signed):
                return status_page(status, field)
        return self._shared.reply_to(
            host, request.target, gzip=request.gzip, at=request.start, known=request.known
        )

    def _frame(self, request: WebRequest, framing: Framing, answer: HostReply) -> list[bytes]:
        """Return the head and body of *answer* as sent; store the values for the log line."""
        self._status, headers, parts = answer
        self._sent = sum(map(len, parts))
        if framing is Framing.CHUNKED and request.version != "1.1":
            framing = Framing.CLOSE
        if self._status == 304:
            frame_headers = b""  # the answer has no body
        elif framing is Framing.LENGTH:
            frame_headers = b"Content-Length: %d\r\n" % self._sent
        elif framing is Framing.CHUNKED:
            frame_headers = b"Transfer-Encoding: chunked\r\n"
            parts = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part]
            parts.append(b"0\r\n\r\n")
        else:  # the end of the connection ends the body
            frame_headers = b""
            self._is_last = True
        if self._is_last or not request.keep_alive:
            self._is_last = True
            frame_headers += b"Connection: close\r\n"
        head = (STATUS_LINES[self._status], self._shared.date(), headers, frame_headers, b"\r\n")
        return [b"".join(head), *parts]

    def _write(self, parts: list[bytes]) -> None:
        """Send *parts*."""
        # The time is taken before the call. When the call returns, the client may have had the last
        # byte for a while, and its pause may have begun.
        self._last_write = self._shared.clock()
        self._transport.write(b"".join(parts))

    def _end(self, request: WebRequest, outcome: AnswerEnd) -> None:
        """Log the finished answer to *request*; close the connection if it is the last."""
        self._log(request, outcome)
        if outcome is AnswerEnd.RESET:
            sock: Any = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
            self._transport.abort()
        elif self._is_last:
            self._waiting.clear()
            self._transport.close()

    def _log(self, request: WebRequest, outcome: AnswerEnd) -> None:
        """Write the line for *request* to the access log."""
        self._shared.record(
            Hit(
                start=request.start,
                end=self._last_write if outcome in _HANDED_OVER else self._shared.clock(),
                client=self._client,
                method=request.method,
                target=request.target,
                version=request.version,
                status=self._status,
                size=self._sent,
                referer=request.referer,
                agent=request.agent,
                origin=f"{self._scheme}://{request.host}",
                address=self._address,
                outcome=outcome,
            )
        )

    # Answers that take time

    def _start(self, request: WebRequest, answer: Callable[[], Awaitable[AnswerEnd]]) -> None:
        """Answer *request* by a task that awaits *answer*."""
        self._current = request
        self._task = self._shared.start(self._run(request, answer))

    async def _run(self, request: WebRequest, answer: Callable[[], Awaitable[AnswerEnd]]) -> None:
        """Await *answer*, log its outcome, and serve the next requests."""
        outcome = await answer()  # a lost connection is logged elsewhere and cancels this task
        self._current = None
        self._end(request, outcome)
        self._serve_waiting()

    async def _write_long(self, parts: list[bytes]) -> AnswerEnd:
        """Send *parts* one by one, as fast as the client accepts them."""
        self._sent = 0
        self._write(parts[:1])  # the head
        for part in parts[1:]:
            await self._can_write.wait()
            self._write([part])
            self._sent += len(part)
        return AnswerEnd.OK

    async def _answer_slowly(self, request: WebRequest, host: HostSpec) -> AnswerEnd:
        """Send a slow answer: half of the slow hosts start late, the others send in pieces."""
        data = b"".join(self._frame(request, host.framing, self._answer(request, host)))
        starts_late = chance.draw(self._world.seed, chance.FAULT, host.index) & 1
        step = len(data) if starts_late else len(data) // _DRIPS + 1
        for offset in range(0, len(data), step):
            await asyncio.sleep(self._world.slow_secs * step / len(data))
            self._write([data[offset : offset + step]])
        return AnswerEnd.OK

    async def _misbehave(self, request: WebRequest, host: HostSpec) -> AnswerEnd:
        """Reset the connection, stall or send garbage, as the fault of *host* says.

        Half of the hosts that reset or stall do so immediately, the others during the answer.
        """
        self._is_last = True
        seed = self._world.seed
        if host.behaviour is Behaviour.GARBAGE:
            self._write([chance.noise(seed, host.index)])
            return AnswerEnd.GARBAGE
        if chance.draw(seed, chance.FAULT, host.index) & 1:
            head, *parts = self._frame(request, Framing.LENGTH, self._answer(request, host))
            half = b"".join(parts)[: self._sent // 2]
            self._sent = len(half)
            self._write([head, half])
        if host.behaviour is Behaviour.STALL:
            await asyncio.sleep(self._world.stall_secs)
            return AnswerEnd.STALL
        await asyncio.sleep(_RESET_SECS)
        return AnswerEnd.RESET


ACCEPT_SIGNATURE = 'Accept-Signature: sig1=("@authority");tag="web-bot-auth"\r\n'
#: Answers of guarded hosts: status and header line. A signature of any kind opens those that ask.
GUARDS = (
    (401, ACCEPT_SIGNATURE),
    (403, ACCEPT_SIGNATURE),
    (402, "Crawler-Price: USD 0.01\r\n"),
    (403, ""),
    (429, ""),
    (403, "Cf-Mitigated: challenge\r\n"),
)


def _throttle(host: HostSpec, wait_secs: float, now: float) -> HostReply:
    """Return the answer to a request that came too soon: a 429, or a 503 for every fourth host.

    *wait_secs* is the number of seconds still to wait, *now* the current time in epoch seconds.
    Retry-After is a date for every second host and a number of seconds for the others.
    """
    retry_after = int(wait_secs) + 1
    value = formatdate(now + retry_after, usegmt=True) if host.index & 1 else str(retry_after)
    return status_page(503 if host.index % 4 == 3 else 429, f"Retry-After: {value}\r\n")
