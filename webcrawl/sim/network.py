"""Network of a simulated process: connections to servers in the same process, in virtual time.

A connection is a socket pair of the system whose two ends are transports of asyncio. Data takes the
time of its `Route`: a latency each way, and its size divided by the bandwidth. Datagrams travel the
same way. All other sockets are refused.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from webcrawl.sim.loop import VirtualLoop
    from webcrawl.sim.web import SimulatedWeb

_Waiting: TypeAlias = "deque[tuple[Callable[..., object], tuple[object, ...]]]"
_DATAGRAM_BYTES = 65_535
_CLIENT = ("192.0.2.1", 0)
# First of the ports that servers choose themselves, as for FTP's data.
_FIRST_PORT = 49_152
# Audit events of reaching another machine, or of being reachable.
_REFUSED = frozenset({"socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo"})


class Route(NamedTuple):
    """Route to an address: latency one way in seconds, and bandwidth back in bytes a second."""

    latency: float = 0.0
    bandwidth: float = 0.0  # 0: unlimited


class Network:
    """Opens the connections of a simulated process to *servers*."""

    def __init__(self, servers: SimulatedWeb) -> None:
        self._servers = servers
        self._opened: dict[tuple[str, int], Callable[[], asyncio.Protocol]] = {}
        self._ports = itertools.count(_FIRST_PORT)

    def bind(self, loop: VirtualLoop) -> None:
        """Use *loop* from now on."""
        self._loop = loop
        self._servers.begin(loop.time)

    async def connect(self, address: str, port: int) -> socket.socket:
        """Return this end of a new connection.

        Raises the OSError of a failure when it would be known.
        """
        route = self._servers.route(address)
        await asyncio.sleep(2 * route.latency)
        try:
            opened = self._opened.get((address, port))
            protocol = opened() if opened else self._servers.protocol(address, port)
        except TimeoutError:
            await self._loop.create_future()  # until the caller has waited long enough
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        line = _Link(self._loop, protocol, route, (address, port))
        await self._loop.connect_accepted_socket(lambda: line, theirs)
        return ours

    def listen(self, address: str, made: Callable[[], asyncio.Protocol]) -> Listening:
        """Serve the protocols that *made* returns, at *address* on a new port."""
        at = address, next(self._ports)
        self._opened[at] = made
        return Listening(at, lambda: self._opened.pop(at, None))

    def datagrams(self, address: tuple[str, int]) -> socket.socket:
        """Return this end of a non-blocking socket pair for datagrams to *address*."""
        ours, theirs = socket.socketpair(type=socket.SOCK_DGRAM)
        ours.setblocking(False)
        theirs.setblocking(False)

        def answer() -> None:
            question = theirs.recv(_DATAGRAM_BYTES)
            if not question:  # the other end was closed
                self._loop.remove_reader(theirs)
                theirs.close()
                return
            route = self._servers.route(address[0])
            found = self._servers.answer(*address, question)
            if found is not None:
                self._loop.call_later(2 * route.latency, send, found)

        def send(found: bytes) -> None:
            if theirs.fileno() >= 0:
                try:
                    theirs.send(found)
                except OSError:  # the other end was closed
                    self._loop.remove_reader(theirs)
                    theirs.close()

        self._loop.add_reader(theirs, answer)
        return ours


class Listening(NamedTuple):
    """A listening server *at* an address and port, as much of it and its socket as simweb needs."""

    at: tuple[str, int]
    close: Callable[[], object]

    @property
    def sockets(self) -> list[Listening]:
        return [self]

    def getsockname(self) -> tuple[str, int]:
        return self.at


class _Link(asyncio.Transport, asyncio.Protocol):
    """The server's end of a connection: a transport whose data takes time to arrive."""

    _below: asyncio.Transport

    def __init__(
        self,
        loop: VirtualLoop,
        protocol: asyncio.Protocol,
        route: Route,
        address: tuple[str, int],
    ) -> None:
        super().__init__({"sockname": address, "peername": _CLIENT})
        self._loop = loop
        self._protocol = protocol
        self._route = route
        self._coming: _Waiting = deque()
        self._going: _Waiting = deque()
        self._free_at = 0.0  # when the last byte written has left
        self._is_closing = False

    # the protocol of the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._below = transport  # type: ignore[assignment]  # a stream's
        self._protocol.connection_made(self)

    def data_received(self, data: bytes) -> None:
        self._later(self._protocol.data_received, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._later(self._protocol.connection_lost, exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    # the transport of the server's protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "socket":
            return self._below.get_extra_info(name)
        return super().get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closing:
            self._free_at = max(self._free_at, self._loop.time())
            if self._route.bandwidth:
                self._free_at += len(data) / self._route.bandwidth
            self._when_sent(self._send, bytes(data))

    def _send(self, data: bytes) -> None:
        if not self._below.is_closing():  # asyncio would warn of data that nothing reads
            self._below.write(data)

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._when_sent(self._below.close)

    def abort(self) -> None:
        self._is_closing = True
        self._below.abort()

    def is_closing(self) -> bool:
        return self._is_closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol  # type: ignore[assignment]  # a stream's

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def pause_reading(self) -> None:
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._below.resume_reading()

    def _later(self, call: Callable[..., object], *args: object) -> None:
        """Call *call* when data from the client arrives."""
        self._at(self._loop.time() + self._route.latency, self._coming, call, *args)

    def _when_sent(self, call: Callable[..., object], *args: object) -> None:
        """Call *call* when data has reached the client."""
        self._at(self._free_at + self._route.latency, self._going, call, *args)

    def _at(self, at: float, line: _Waiting, call: Callable[..., object], *args: object) -> None:
        """Queue *call* behind earlier ones: asyncio runs timers of the same moment in any order."""
        line.append((call, args))
        self._loop.call_at(at, self._next, line)

    @staticmethod
    def _next(line: _Waiting) -> None:
        call, args = line.popleft()
        call(*args)


def refuse_other_sockets() -> None:
    """Prevent this process from reaching other machines, or being reached, until it ends."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in _REFUSED:
            where = args[-1] if event != "socket.getaddrinfo" else args[0]
            raise PermissionError(
                f"This is a rehearsal: only simulated sockets can be opened, none to {where}"
            )

    sys.addaudithook(hook)
