"""Network of a simulated process: connections to servers in the same process, in virtual time.

A connection is a real socket pair whose two ends are asyncio transports. How long data takes
depends on its `Route`: the latency in each direction, plus the size divided by the bandwidth. The
same latency applies to datagrams. All other sockets are refused.
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
# First of the ports that servers choose themselves, for example for FTP's data connections.
_FIRST_PORT = 49_152
# Audit events of calls that reach another machine or make this one reachable.
_REFUSED = frozenset({"socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo"})


class Route(NamedTuple):
    """Route to an address: one-way latency in seconds, bandwidth to the client in bytes/s."""

    latency: float = 0.0
    bandwidth: float = 0.0  # 0: unlimited


class Network:
    """Network that connects a simulated process to *servers*."""

    def __init__(self, servers: SimulatedWeb) -> None:
        self._servers = servers
        self._listeners: dict[tuple[str, int], Callable[[], asyncio.Protocol]] = {}
        self._ports = itertools.count(_FIRST_PORT)

    def bind(self, loop: VirtualLoop) -> None:
        """Use *loop* and its time from now on."""
        self._loop = loop
        self._servers.begin(loop.time)

    async def connect(self, address: str, port: int) -> socket.socket:
        """Connect to *address* and *port*; return the client's end of the connection.

        If connecting fails, raises its OSError when a real client would learn of the failure.
        """
        route = self._servers.route(address)
        await asyncio.sleep(2 * route.latency)
        try:
            make_protocol = self._listeners.get((address, port))
            protocol = make_protocol() if make_protocol else self._servers.protocol(address, port)
        except TimeoutError:
            await self._loop.create_future()  # never done, so the caller's timeout ends the wait
        client_end, server_end = socket.socketpair()
        client_end.setblocking(False)
        server_end.setblocking(False)
        link = _Link(self._loop, protocol, route, (address, port))
        await self._loop.connect_accepted_socket(lambda: link, server_end)
        return client_end

    def listen(self, address: str, make_protocol: Callable[[], asyncio.Protocol]) -> Listening:
        """Listen at *address* on a new port; *make_protocol* is called for each connection."""
        server_address = address, next(self._ports)
        self._listeners[server_address] = make_protocol
        return Listening(server_address, lambda: self._listeners.pop(server_address, None))

    def datagrams(self, address: tuple[str, int]) -> socket.socket:
        """Return a non-blocking socket for datagrams to *address*: one end of a socket pair."""
        client_end, server_end = socket.socketpair(type=socket.SOCK_DGRAM)
        client_end.setblocking(False)
        server_end.setblocking(False)

        def answer() -> None:
            """Answer a datagram from the client, after the latency of its route."""
            datagram = server_end.recv(_DATAGRAM_BYTES)
            if not datagram:  # the other end was closed
                self._loop.remove_reader(server_end)
                server_end.close()
                return
            route = self._servers.route(address[0])
            reply = self._servers.answer(*address, datagram)
            if reply is not None:
                self._loop.call_later(2 * route.latency, send, reply)

        def send(reply: bytes) -> None:
            """Send *reply*, unless the client has closed its end."""
            if server_end.fileno() >= 0:
                try:
                    server_end.send(reply)
                except OSError:  # the other end was closed
                    self._loop.remove_reader(server_end)
                    server_end.close()

        self._loop.add_reader(server_end, answer)
        return client_end


class Listening(NamedTuple):
    """Listening server at the address and port *at*: the parts of its interface that simweb uses.

    It also stands for the server's only socket.
    """

    at: tuple[str, int]
    close: Callable[[], object]

    @property
    def sockets(self) -> list[Listening]:
        return [self]

    def getsockname(self) -> tuple[str, int]:
        return self.at


class _Link(asyncio.Transport, asyncio.Protocol):
    """Server's end of a connection: a transport whose data takes time to arrive.

    It is also the protocol of the real transport, ``_below``.
    """

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
        self._incoming: _Waiting = deque()
        self._outgoing: _Waiting = deque()
        self._free_at = 0.0  # when the last byte written so far will have been sent
        self._is_closing = False

    # Methods of the protocol of the real transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._below = transport  # type: ignore[assignment]
        self._protocol.connection_made(self)

    def data_received(self, data: bytes) -> None:
        self._after_latency(self._protocol.data_received, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._after_latency(self._protocol.connection_lost, exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    # Methods of the transport of the server's protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "socket":
            return self._below.get_extra_info(name)
        return super().get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send *data* to the client when the data written before it has been sent."""
        if not self._is_closing:
            self._free_at = max(self._free_at, self._loop.time())
            if self._route.bandwidth:
                self._free_at += len(data) / self._route.bandwidth
            self._when_sent(self._send, bytes(data))

    def _send(self, data: bytes) -> None:
        if not self._below.is_closing():  # asyncio would warn of data that nothing reads
            self._below.write(data)

    def close(self) -> None:
        """Close the connection when all data written so far has reached the client."""
        if not self._is_closing:
            self._is_closing = True
            self._when_sent(self._below.close)

    def abort(self) -> None:
        self._is_closing = True
        self._below.abort()

    def is_closing(self) -> bool:
        return self._is_closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol  # type: ignore[assignment]

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def pause_reading(self) -> None:
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._below.resume_reading()

    def _after_latency(self, call: Callable[..., object], *args: object) -> None:
        """Call *call* when data that the client sends now arrives."""
        self._call_in_order(self._loop.time() + self._route.latency, self._incoming, call, *args)

    def _when_sent(self, call: Callable[..., object], *args: object) -> None:
        """Call *call* when the data written so far has reached the client."""
        self._call_in_order(self._free_at + self._route.latency, self._outgoing, call, *args)

    def _call_in_order(
        self, at: float, queue: _Waiting, call: Callable[..., object], *args: object
    ) -> None:
        """Schedule *call* for the time *at*, after all earlier calls in *queue*.

        asyncio runs timers that are due at the same time in arbitrary order.
        """
        queue.append((call, args))
        self._loop.call_at(at, self._call_first, queue)

    @staticmethod
    def _call_first(queue: _Waiting) -> None:
        """Make the first of the queued calls."""
        call, args = queue.popleft()
        call(*args)


def refuse_other_sockets() -> None:
    """Prevent this process from connecting to other machines and from listening, until it ends."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        """Refuse the call if it would connect to another machine or listen."""
        if event in _REFUSED:
            target = args[-1] if event != "socket.getaddrinfo" else args[0]
            raise PermissionError(
                f"This is a rehearsal: only simulated sockets can be opened, none to {target}"
            )

    sys.addaudithook(hook)
