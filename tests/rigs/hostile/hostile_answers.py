"""What hostile servers do once they have been asked, or before.

An attack is a coroutine function that gets a `Talk` and says what it likes; when it returns the
connection is closed. A client that hangs up ends it with a ConnectionError, which is as it should
be. Most are made by `scripted` of what the table of kinds says; the others are SPECIAL.
"""

import asyncio
import contextlib
import itertools
import socket
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

import hostile_bodies
import hostile_tls
from hostile_bodies import answer
from wire_text import wire


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


def scripted(
    *,
    after="",
    replies=(),
    says="",
    answers=None,
    fields=(),
    status="200 OK",
    redirects=None,
    later=None,
    floods="",
    drips="",
    every=0.0,
    at_once=1,
    end="",
):
    """The attack of a line of the table.

    Wait for a "byte" or a "line" (after). Send each of the replies and wait for a line. Send the
    bytes that it says, or a sound answer (with these fields and status), or a redirect. Send more
    later, when the connection is idle. Then send the floods again and again until the client has
    had enough, or drips, so many bytes at once every so many seconds. In the end "hold" the
    connection, "reset" it, or close it.
    """
    if redirects is not None:
        answers, fields, status = "", [f"Location: {redirects}"], "302 Found"
    first, later, floods, drips = (
        text if text is None else _bytes(text) for text in (says, later, floods, drips)
    )
    if answers is not None:
        first = answer(*map(_bytes, (answers, *fields)), status=_bytes(status))

    async def attack(talk):
        if after:
            await talk.reader.readuntil(b"\n") if after == "line" else await talk.reader.read(1)
        for reply in replies:
            await talk.send(reply.encode() + b"\r\n")
            await talk.reader.readuntil(b"\r\n")
        await talk.send(first)
        if later is not None:
            talk.contact.is_over = True
            await asyncio.sleep(0.05)
            await talk.send(later)
        while floods:
            await talk.send(floods)
            await asyncio.sleep(0)
        if drips:
            await talk.drip(drips, every=every, at_once=at_once)
        if end == "hold":
            await talk.hold()
        if end == "reset":
            await asyncio.sleep(0.05)  # until it has been read
            talk.reset()

    return attack


def _bytes(text):
    return wire(text, vars(hostile_bodies))


def _redirect(url, status=b"302 Found"):
    return answer(b"", b"Location: " + url.encode(), status=status)


async def _loop(talk):
    """Redirect from each of two pages to the other one."""
    await talk.send(_redirect("/hostile" if talk.path == "/hostile-2" else "/hostile-2"))


async def _endless_redirects(talk):
    """Redirect to a URL nobody has seen yet."""
    number = int(talk.path.rpartition("-")[2]) if "-" in talk.path else 0
    await talk.send(_redirect(f"/hostile-{number + 1}", b"301 Moved Permanently"))


async def _storm(talk):
    """Link to pages that all redirect to one host, each to another URL."""
    number = talk.path.rpartition("-")[2]
    if number.isdigit():
        there = talk.there("redirect-victim", f"/v/{number}")
        await talk.send(_redirect(there, b"307 Temporary Redirect"))
    else:
        await talk.send(answer(b"".join(b"<a href=/hostile-%d>x</a>" % n for n in range(100))))


async def _elsewhere(talk):
    await talk.send(_redirect(talk.there("robots-rules", "/robots.txt")))


async def _in_packets_of_a_byte(talk):
    """A sound answer in the smallest packets there are."""
    talk.writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in answer(b"<p>piecemeal"):
        await talk.send(bytes((byte,)))
        await asyncio.sleep(0)


async def _ftp_bounce(talk):
    """The file is to be had from somebody else, at a port where nobody listens here."""
    port = urlsplit(talk.there("closed-port", "/")).port
    where = f"227 (127,0,0,66,{port // 256},{port % 256})"
    replies = ["220 hi", "331 who?", "230 you", "200 I", "502 no", where]
    await scripted(replies=replies)(talk)


SPECIAL = {
    "packets-of-a-byte": _in_packets_of_a_byte,
    "redirect-pair": _loop,
    "redirect-endless": _endless_redirects,
    "redirect-storm": _storm,
    "robots-elsewhere": _elsewhere,
    "tls-1.0": hostile_tls.handshake_only,
    "tls-client-certificate": hostile_tls.handshake_only,
    "tls-garbage-after": hostile_tls.breaks_off(behind=b"\xff" * 500),
    "tls-truncated": hostile_tls.breaks_off(behind=b""),
    "ftp-bounce": _ftp_bounce,
}


def attack_of(kind):
    """The attack of *kind*; None if it is not in what the server says."""
    if kind.place in ("tls", "name", "closed", "deaf"):
        return None
    return SPECIAL.get(kind.name) or scripted(**kind.acts)
