"""What hostile servers do once they have been asked, or before.

An attack is a coroutine function that gets a `Talk` and says what it likes; when it returns the
connection is closed. A client that hangs up ends it with a ConnectionError, which is as it should
be.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@dataclass
class Contact:
    """One contact of a host, by the server's clock: from the connection, or from a further request
    on it, to the last byte of the answer, and then it *is_over*; or, if the client hung up before,
    to when the server noticed that, which may be a little later than it was."""

    began: float
    path: str = ""
    ended: float = 0.0
    is_over: bool = False

    def touch(self):
        """It is still going on."""
        if not self.is_over:
            self.ended = time.monotonic()


@dataclass
class Talk:
    """One request, or none yet, on one connection.

    path: what was asked for, "" for an attack on the connection itself.
    there: makes a URL of the name of a kind and a path on its host.
    contact: the server's record of it.
    tls: the certificate of this host, for attacks that do their own handshake.
    """

    reader: object
    writer: object
    path: str
    there: object
    contact: Contact
    tls: object

    async def send(self, data):
        # Before it is handed over, so that the client never has it earlier.
        self.contact.touch()
        self.writer.write(data)
        await self.writer.drain()

    async def flood(self, data):
        """Send *data* again and again until the client has had enough."""
        while True:
            await self.send(data)
            await asyncio.sleep(0)

    async def drip(self, data, *, every, at_once):
        """Send *data* in pieces of so many bytes, again and again until the client has gone."""
        for at in itertools.cycle(range(0, len(data), at_once)):
            await self.send(data[at : at + at_once])
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.hold(), every)

    async def hold(self):
        """Say nothing more until the client hangs up."""
        try:
            while await self.reader.read(65536):
                pass
        finally:
            self.contact.touch()
        raise ConnectionResetError("the client has gone")

    def reset(self):
        """End the connection by a reset instead of an orderly close."""
        # Linger for no time: what is unsent is thrown away, and the peer is told so.
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.writer.transport.abort()


Attack = Callable[[Talk], Awaitable[None]]


def answer(body, *fields, status=b"200 OK"):
    """A sound answer; *fields* are further lines of its header."""
    lines = [b"HTTP/1.1 " + status, b"Content-Type: text/html", *fields]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", body])


def says(data):
    """Say *data* and hang up."""

    async def attack(talk):
        await talk.send(data)

    return attack


def answers(make, *fields):
    """Answer well, with a body that does not mean well."""

    async def attack(talk):
        await talk.send(answer(make(), *fields))

    return attack


def holds(data):
    """Say *data* and then nothing, with the connection open."""

    async def attack(talk):
        await talk.send(data)
        await talk.hold()

    return attack


def resets(data):
    """Say *data*, wait until it has been read, and break the connection."""

    async def attack(talk):
        await talk.send(data)
        await asyncio.sleep(0.05)
        talk.reset()

    return attack


def floods(head, data):
    """Say *head* once and *data* without end."""

    async def attack(talk):
        await talk.send(head)
        await talk.flood(data)

    return attack


def drips(head, data, *, every, at_once=1):
    """Say *head*, and *data* without end, so many bytes every so many seconds."""

    async def attack(talk):
        await talk.send(head)
        await talk.drip(data, every=every, at_once=at_once)

    return attack


def redirects(location):
    return says(answer(b"", b"Location: " + location, status=b"302 Found"))


def redirects_there(kind, path):
    """Redirect to *path* on the host of another *kind*."""

    async def attack(talk):
        where = b"Location: " + talk.there(kind, path).encode()
        await talk.send(answer(b"", where, status=b"302 Found"))

    return attack


def loop_of(paths):
    """Redirect from each of *paths* to the next, and from the last to the first."""

    async def attack(talk):
        following = paths[(paths.index(talk.path) + 1) % len(paths)].encode()
        await talk.send(answer(b"", b"Location: " + following, status=b"302 Found"))

    return attack


async def endless_redirects(talk):
    """Each answer redirects to a URL nobody has seen yet."""
    number = int(talk.path.rpartition("-")[2]) if "-" in talk.path else 0
    location = b"Location: /hostile-%d" % (number + 1)
    await talk.send(answer(b"", location, status=b"301 Moved Permanently"))


def storm_at(kind):
    """Link to pages that all redirect to the host of *kind*, each to another URL."""

    async def attack(talk):
        number = talk.path.rpartition("-")[2]
        if number.isdigit():
            where = b"Location: " + talk.there(kind, f"/v/{number}").encode()
            await talk.send(answer(b"", where, status=b"307 Temporary Redirect"))
        else:
            await talk.send(answer(b"".join(b"<a href=/hostile-%d>x</a>" % n for n in range(100))))

    return attack


async def header_of_10_mb(talk):
    """One field that is as long as a thousand books, in pieces, as a network brings it."""
    await talk.send(HEAD + b"X-Long: ")
    for _ in range(160):
        await talk.send(b"x" * 65536)
        await asyncio.sleep(0)
    await talk.send(b"\r\nContent-Length: 5\r\n\r\nhello")


async def second_answer_at_once(talk):
    """Two answers to one request, and the connection stays open for the next one."""
    await talk.send(answer(b"<p>asked for") + answer(b"<p>smuggled"))
    talk.contact.is_over = True
    await talk.hold()


async def second_answer_later(talk):
    """An answer that nobody asked for, while the connection waits for its next use."""
    await talk.send(answer(b"<p>asked for, once"))
    talk.contact.is_over = True
    await asyncio.sleep(0.05)
    await talk.send(answer(b"<p>smuggled, later"))
    await talk.hold()


async def idle_flood(talk):
    """A sound answer, and then megabytes of anything into the idle connection."""
    await talk.send(answer(b"<p>sound so far"))
    talk.contact.is_over = True
    await asyncio.sleep(0.05)
    await talk.flood(b"\0" * 65536)


async def in_packets_of_a_byte(talk):
    """A sound answer in the smallest packets there are."""
    talk.writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in answer(b"<p>piecemeal"):
        await talk.send(bytes((byte,)))
        await asyncio.sleep(0)
