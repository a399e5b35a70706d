"""One name server: its socket, and which question each message from it answers.

Made by `dnsquery`, one for each server in use.

Invariant: an id belongs to one question, drawn at random, until that question is forgotten.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from webcrawl.clock import now
from webcrawl.net.dns import wire as dnswire

if TYPE_CHECKING:
    import random

    from webcrawl.net.dns.servers import Address

# Seconds after which a name server that fell silent is asked one question again, and is spoken to
# through another socket if it says nothing at all.
PROBE_EVERY: Final = 30.0
# Messages that answer no open question and come to one port before another port is taken. To
# guess the id of an open question takes a forger 2**15 on average (RFC 5452, section 4.5).
_MAX_UNWANTED: Final = 1000
# Ids are drawn at random; with more in flight to one server the draw would take long.
_MAX_IN_FLIGHT: Final = 2**15
# Then the loop has its turn again.
_MESSAGES_PER_WAKE: Final = 64
# Answers to a thousand questions sent in one go fit into the socket.
_RECEIVE_BUFFER: Final = 1 << 20
_NUMERIC: Final = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


@dataclass(slots=True)
class QueryCounts:
    """What was sent and came of it."""

    sent: int = 0
    timed_out: int = 0
    over_tcp: int = 0
    unwanted: int = 0


class Asker(Protocol):
    """A question, as its name servers see it."""

    def answered(self, channel: Channel, message: bytes) -> bool:
        """Take a message with one of this question's ids; return whether it answers it."""

    def ask_again(self, channel: Channel) -> None:
        """Send the same to *channel* once more."""

    def give_up_on(self, channel: Channel, why: str) -> None:
        """Nothing is to be expected from *channel*."""


class Channel:
    """One name server: its socket, and the questions by message id that wait for it."""

    def __init__(
        self,
        *,
        address: Address,
        loop: asyncio.AbstractEventLoop,
        counts: QueryCounts,
        rng: random.Random,
    ) -> None:
        host, port = address
        self.address = address
        self.name = f"{host}:{port}" if ":" not in host else f"[{host}]:{port}"
        # Questions that timed out since the last answer, and when one of them may be tried again.
        self.silences = 0
        self.probe_at = 0.0
        self._loop = loop
        self._counts = counts
        self._rng = rng
        self._waiting: dict[int, Asker] = {}
        self._unwanted = 0
        self._heard_at = now()
        self._closed = False
        self._socket: socket.socket | None = None
        self._connect()

    def _connect(self) -> None:
        """Open a socket, on a port that the system draws at random."""
        host, port = self.address
        sock = None
        try:
            # Nothing is looked up: this reads the scope of a link-local address ("fe80::1%eth0").
            family, kind, proto, _, there = socket.getaddrinfo(
                host, port, type=socket.SOCK_DGRAM, flags=_NUMERIC
            )[0]
            sock = socket.socket(family, kind, proto)
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
            sock.connect(there)
        except OSError:  # no way there, as to an IPv6 server from a host without IPv6
            if sock is not None:
                sock.close()
        else:
            self._socket = sock
            self._listen(sock)

    def _listen(self, sock: socket.socket) -> None:
        """Be told of messages, and of errors; to be called again after each error.

        libuv, beneath uvloop, stops watching a socket that has reported one.
        """
        self._loop.remove_reader(sock.fileno())
        self._loop.add_reader(sock.fileno(), self._readable, sock)

    def send(self, asked: bytes, question: Asker) -> int | None:
        """Send and return the message id, or None when nothing can be sent there."""
        if self._socket is None and not self._closed:
            self._connect()
        if self._socket is None or len(self._waiting) >= _MAX_IN_FLIGHT:
            return None
        ident = self._rng.getrandbits(16)
        while ident in self._waiting:
            ident = self._rng.getrandbits(16)
        message = dnswire.query(ident, asked)
        try:
            self._socket.send(message)
        except BlockingIOError:
            pass  # as good as lost on the way: the time-out repeats it
        except OSError:
            # This may be the report of an earlier message (nobody listens): it is not sent.
            self._listen(self._socket)
            try:
                self._socket.send(message)
            except BlockingIOError:
                pass
            except OSError:
                # This machine may have another address now: the next one tries another socket.
                self._disconnect()
                return None
        self._waiting[ident] = question
        return ident

    def _readable(self, sock: socket.socket) -> None:
        for n in range(_MESSAGES_PER_WAKE):
            try:
                message = sock.recv(65535)
            except BlockingIOError:
                if n == 0:  # woken by an error that sending has met already
                    self._listen(sock)
                return
            except OSError as e:  # nobody listens there, or no way to it
                self._listen(sock)
                self.fell_silent()
                self.abandon(str(e.strerror))
                return
            asker = self._waiting.get(int.from_bytes(message[:2], "big"))
            if asker is not None and asker.answered(self, message):
                self.silences = 0
                self._heard_at = now()
            elif self._is_flooded():
                return

    def _is_flooded(self) -> bool:
        """Count a message that nobody asked for; with too many, go on at another port."""
        self._counts.unwanted += 1
        self._unwanted += 1
        if self._unwanted < _MAX_UNWANTED:
            return False
        self._move()
        return True

    def fell_silent(self) -> None:
        """A question has timed out, or nobody listens."""
        at = now()
        self.silences += 1
        self.probe_at = at + PROBE_EVERY
        if at - self._heard_at >= PROBE_EVERY:
            # The address that this machine had when the socket was made may be gone.
            self._move()

    def _move(self) -> None:
        """Go on at another port."""
        questions = set(self._waiting.values())
        self._waiting.clear()
        self._unwanted = 0
        self._heard_at = now()
        self._disconnect()
        for question in questions:
            question.ask_again(self)

    def abandon(self, why: str) -> None:
        """Nothing will come from here: what waits for it asks the other servers."""
        for question in set(self._waiting.values()):
            question.give_up_on(self, f"{self.name}: {why}")

    async def ask_over_tcp(self, message: bytes) -> bytes:
        """Return the answer to one message over a connection of its own."""
        reader, writer = await asyncio.open_connection(*self.address)
        try:
            writer.write(struct.pack(">H", len(message)) + message)
            size = int.from_bytes(await reader.readexactly(2), "big")
            return await reader.readexactly(size)
        finally:
            writer.close()

    def forget(self, ident: int) -> None:
        self._waiting.pop(ident, None)

    def close(self) -> None:
        self._closed = True
        self._disconnect()

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
