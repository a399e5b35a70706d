"""One HTTP connection to the simulated web: requests in, answers, delays and faults out.

Requests may be pipelined; they are answered one after another in their order. Every request that
was read whole leaves exactly one line in the access log, whatever becomes of its answer.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import struct
import time
from collections import OrderedDict, deque
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import urlsplit

import httptools

from webcrawl.simweb import chance
from webcrawl.simweb.accesslog import AccessLog, Outcome, epoch_clock, escaped
from webcrawl.simweb.answers import STATUS_LINES, Answer, answer_to, error
from webcrawl.simweb.robots import MOVED_PATH, PATH
from webcrawl.simweb.world import Behaviour, Framing

if TYPE_CHECKING:
    from webcrawl.simweb.world import HostSpec, World

# Bodies above this are written in parts, as fast as the client takes them.
_AT_ONCE_BYTES: Final = 1 << 18
_DRIPS: Final = 8
_MAX_TARGET: Final = 8000  # characters
_MAX_WAITING: Final = 64  # pipelined requests, before reading pauses
_KNOWN_NAMES: Final = 16_384
_THROTTLE_TABLE: Final = 65_536
# Linger for zero seconds: closing sends RST.
_LINGER_NONE = struct.pack("ii", 1, 0)

_DNS_FAULTS = frozenset({Behaviour.NXDOMAIN, Behaviour.SERVFAIL, Behaviour.DNS_TIMEOUT})


class Request(NamedTuple):
    """One request as read."""

    start: float
    method: str
    target: str
    version: str
    host: str
    agent: str
    referer: str
    gzip: bool
    keep_alive: bool


class Shared:
    """What all connections of one server share."""

    def __init__(self, *, world: World, log: AccessLog | None) -> None:
        self.world = world
        self.log = log
        self.clock = epoch_clock()
        self.connections: set[Connection] = set()
        self.idle = asyncio.Event()  # set while there are no connections
        self.idle.set()
        self._names: dict[str, HostSpec | None] = {}
        self._answered_at: OrderedDict[int, float] = OrderedDict()
        self._date = (0, b"")

    def find(self, header: str) -> HostSpec | None:
        """The host that a Host header names."""
        try:
            return self._names[header]
        except KeyError:
            pass
        if len(self._names) >= _KNOWN_NAMES:
            self._names.clear()
        found = self._names[header] = self.world.find(header.partition(":")[0])
        return found

    def too_soon(self, host: HostSpec) -> float:
        """How long a throttling host wants to be left alone; 0 if it may be asked now."""
        now = time.monotonic()
        left = self._answered_at.get(host.index, -1e9) + self.world.throttle_secs - now
        if left > 0:
            return left
        self._answered_at[host.index] = now
        self._answered_at.move_to_end(host.index)
        if len(self._answered_at) > _THROTTLE_TABLE:
            self._answered_at.popitem(last=False)
        return 0.0

    def date(self) -> bytes:
        """The Date and Server header lines."""
        now = int(time.time())
        if self._date[0] != now:
            text = f"Server: simweb\r\nDate: {formatdate(now, usegmt=True)}\r\n"
            self._date = (now, text.encode())
        return self._date[1]


class Connection(asyncio.Protocol):
    """The protocol of one connection; also receives the parser's callbacks."""

    def __init__(self, *, shared: Shared, secure: bool) -> None:
        self._shared = shared
        self._world = shared.world
        self._scheme = "https" if secure else "http"
        # httptools has no type for "self": it calls the on_ methods it finds.
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[Request] = deque()
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        # The request being answered: what its log line will say, and what goes on with it.
        self._current: Request | None = None
        self._status = 0
        self._sent = 0
        self._timer: asyncio.TimerHandle | None = None
        self._parts: deque[bytes] = deque()
        self._close_after = False
        self._paused = False

    # event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast("asyncio.Transport", transport)
        self._address: str = transport.get_extra_info("sockname")[0]
        self._client: str = transport.get_extra_info("peername")[0]
        self._shared.connections.add(self)
        self._shared.idle.clear()

    def connection_lost(self, _exc: Exception | None) -> None:
        """Called by the event loop."""
        self._shared.connections.discard(self)
        if not self._shared.connections:
            self._shared.idle.set()
        self._waiting.clear()
        self._parts.clear()
        if self._timer is not None:
            self._timer.cancel()
        if self._current is not None:
            self._log(Outcome.CLOSED)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        if self._close_after and not self._waiting and self._current is None:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # answered as if Upgrade had not been asked for
        except httptools.HttpParserError:
            if not self._close_after:
                self._close_after = True
                self._waiting.append(self._bad_request())
        if self._current is None:
            self._serve_waiting()
        if len(self._waiting) > _MAX_WAITING:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Called by the event loop: a client that shuts down its side still gets its answers."""
        if self._current is None:
            return False
        self._close_after = True
        return self._scheme == "http"  # TLS cannot be half open

    def pause_writing(self) -> None:
        """Called by the event loop."""
        self._paused = True

    def resume_writing(self) -> None:
        """Called by the event loop."""
        self._paused = False
        if self._parts:
            self._write_parts()

    def abort(self) -> None:
        """End the connection now: the server stops."""
        self._transport.abort()

    # parser

    def on_message_begin(self) -> None:
        """Called by the parser."""
        self._url = b""
        self._headers = {}

    def on_url(self, url: bytes) -> None:
        """Called by the parser, with parts of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser."""
        self._headers[name.lower()] = value

    def on_message_complete(self) -> None:
        """Called by the parser."""
        headers = self._headers
        parser = self._parser
        target = self._url.decode("latin-1")
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if not target.startswith("/"):
            target, host = _absolute_form(target, host)
        keep_alive = parser.should_keep_alive() and not self._close_after
        if not keep_alive:
            self._close_after = True
        self._waiting.append(
            Request(
                self._shared.clock(),
                parser.get_method().decode("ascii"),
                target,
                parser.get_http_version(),
                host,
                headers.get(b"user-agent", b"").decode("latin-1"),
                headers.get(b"referer", b"").decode("latin-1"),
                b"gzip" in headers.get(b"accept-encoding", b""),
                keep_alive,
            )
        )

    # answers

    def _bad_request(self) -> Request:
        return Request(self._shared.clock(), "-", "-", "-", "-", "", "", False, False)

    def _serve_waiting(self) -> None:
        waiting = self._waiting
        while waiting and self._current is None and not self._transport.is_closing():
            if len(waiting) == _MAX_WAITING:
                self._transport.resume_reading()
            self._current = request = waiting.popleft()
            self._status = self._sent = 0
            self._serve(request)

    def _serve(self, request: Request) -> None:
        if request.method == "-" or (not request.host and request.version != "1.0"):
            self._refuse(request, 400)
            return
        host = self._shared.find(request.host)
        if host is None or host.address != self._address or host.behaviour in _DNS_FAULTS:
            # Names that do not belong to this address: somebody resolved them wrongly.
            self._refuse(request, 421)
            return
        behaviour = host.behaviour
        if behaviour is Behaviour.SOUND:
            self._send(request, host, self._answer(request, host))
        elif behaviour is Behaviour.SLOW:
            self._serve_slowly(request, host)
        elif behaviour is Behaviour.THROTTLE and request.target not in {PATH, MOVED_PATH}:
            left = self._shared.too_soon(host)
            answer = self._answer(request, host) if not left else _throttled(host, left)
            self._send(request, host, answer)
        elif behaviour in {Behaviour.RESET, Behaviour.STALL, Behaviour.GARBAGE}:
            self._misbehave(request, host)
        else:
            self._send(request, host, self._answer(request, host))

    def _answer(self, request: Request, host: HostSpec) -> Answer:
        if request.method not in {"GET", "HEAD"}:
            return error(405, "Allow: GET, HEAD\r\n")
        if host.scheme != self._scheme or not _same_port(request.host, host.origin):
            location = f"Location: {host.origin}{request.target}\r\n"
            return error(301, location)
        if len(request.target) > _MAX_TARGET:
            return error(414)
        return answer_to(self._world, host, request.target, gzip=request.gzip)

    def _refuse(self, request: Request, status: int) -> None:
        self._close_after = True
        self._waiting.clear()
        self._status = status
        answer = error(status)
        head, parts = self._framed(request, answer, Framing.LENGTH)
        self._sent = sum(map(len, parts))
        self._transport.write(head + b"".join(parts))
        self._finish(Outcome.BAD)

    def _framed(
        self, request: Request, answer: Answer, framing: Framing
    ) -> tuple[bytes, list[bytes]]:
        """Head and body parts as they go over the line. Sets what the log will say."""
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
            self._close_after = True
        if request.method == "HEAD":
            parts = []
        if not request.keep_alive or self._close_after:
            frame += b"Connection: close\r\n"
        elif request.version == "1.0":
            frame += b"Connection: keep-alive\r\n"
        head = b"".join((STATUS_LINES[status], self._shared.date(), headers, frame, b"\r\n"))
        self._sent = 0 if request.method == "HEAD" else length
        return head, parts

    def _send(self, request: Request, host: HostSpec, answer: Answer) -> None:
        head, parts = self._framed(request, answer, host.framing)
        if self._sent <= _AT_ONCE_BYTES:
            self._transport.write(b"".join((head, *parts)))
            self._finish(Outcome.OK)
        else:
            self._sent = 0
            self._transport.write(head)
            self._parts.extend(parts)
            self._write_parts()

    def _write_parts(self) -> None:
        parts = self._parts
        while parts and not self._paused and not self._transport.is_closing():
            batch = [parts.popleft()]
            size = len(batch[0])
            while parts and size < 1 << 16:
                batch.append(parts.popleft())
                size += len(batch[-1])
            self._sent += size
            self._transport.write(b"".join(batch))
        if not parts:
            self._finish(Outcome.OK)

    def _finish(self, outcome: Outcome) -> None:
        """The answer has been handed over: log it and turn to the next request."""
        self._log(outcome)
        if self._close_after and not self._waiting:
            self._transport.close()

    def _log(self, outcome: Outcome) -> None:
        request = self._current
        assert request is not None
        self._current = None
        log = self._shared.log
        if log is not None:
            log.add(
                f"{self._client} - - [{request.start:.6f} {self._shared.clock():.6f}] "
                f'"{request.method} {escaped(request.target).replace(" ", "%20")} '
                f'HTTP/{request.version}" {self._status} {self._sent} '
                f'"{escaped(request.referer)}" "{escaped(request.agent)}" '
                f"{self._scheme}://{escaped(request.host).replace(' ', '%20')} "
                f"{self._address} {outcome.value}\n"
            )

    # delays and faults

    def _later(self, delay: float, callback: functools.partial[None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay, self._resume, callback)

    def _resume(self, callback: functools.partial[None]) -> None:
        self._timer = None
        if not self._transport.is_closing():
            callback()
            if self._current is None:
                self._serve_waiting()

    def _serve_slowly(self, request: Request, host: HostSpec) -> None:
        value = chance.draw(self._world.seed, chance.FAULT, host.index)
        answer = self._answer(request, host)
        if value & 1:
            send = functools.partial(self._send_later, request, host, answer)
            self._later(self._world.slow_secs, send)
            return
        head, parts = self._framed(request, answer, host.framing)
        self._sent = 0
        data = head + b"".join(parts)
        step = len(data) // _DRIPS + 1
        drips = deque(data[at : at + step] for at in range(0, len(data), step))
        self._drip(drips, self._world.slow_secs / len(drips))

    def _send_later(self, request: Request, host: HostSpec, answer: Answer) -> None:
        self._send(request, host, answer)

    def _drip(self, drips: deque[bytes], pause: float) -> None:
        part = drips.popleft()
        self._sent += len(part)
        self._transport.write(part)
        if drips:
            self._later(pause, functools.partial(self._drip, drips, pause))
        else:
            self._finish(Outcome.OK)

    def _misbehave(self, request: Request, host: HostSpec) -> None:
        """Reset, stall or send garbage: half of the hosts at once, the others in mid answer."""
        value = chance.draw(self._world.seed, chance.FAULT, host.index)
        self._waiting.clear()
        self._close_after = True
        if host.behaviour is Behaviour.GARBAGE:
            noise = chance.draws(self._world.seed, chance.FAULT, host.index, 1, 40)
            self._transport.write(b"".join(number.to_bytes(8, "little") for number in noise))
            self._finish(Outcome.GARBAGE)
            return
        if value & 1:
            answer = self._answer(request, host)
            head, parts = self._framed(request, answer, Framing.LENGTH)
            half = b"".join(parts)[: self._sent // 2]
            self._sent = len(half)
            self._transport.write(head + half)
        if host.behaviour is Behaviour.STALL:
            end = functools.partial(self._finish, Outcome.STALL)
            self._later(self._world.stall_secs, end)
            return
        # What was written must be out before the reset, or it would be dropped.
        self._later(0.01, functools.partial(self._reset))

    def _reset(self) -> None:
        sock: Any = self._transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
        self._log(Outcome.RESET)
        self._transport.abort()


def _throttled(host: HostSpec, left: float) -> Answer:
    """429; Retry-After as seconds on every second host, as a date on the others."""
    wait = int(left) + 1
    value = formatdate(time.time() + wait, usegmt=True) if host.index & 1 else str(wait)
    return error(429, f"Retry-After: {value}\r\n")


def _absolute_form(target: str, host: str) -> tuple[str, str]:
    """Path and host of a request in absolute form (RFC 9112, section 3.2.2)."""
    try:
        parts = urlsplit(target)
    except ValueError:
        return target, ""
    if not parts.netloc:
        return target, host
    path = parts.path or "/"
    return f"{path}?{parts.query}" if parts.query else path, parts.netloc.lower()


def _same_port(header: str, origin: str) -> bool:
    """Whether the Host header *header* names the port of *origin*."""
    return origin.endswith(header[header.find(":") :]) if ":" in header else False
