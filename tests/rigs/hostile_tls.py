"""Certificates nobody should trust (CERTIFICATES), and handshakes that lead nowhere (ATTACKS)."""

from __future__ import annotations

import contextlib
import datetime as dt
import ssl
import struct
import warnings
from functools import partial

import trustme
from hostile_answers import HEAD, answer

_DAY = dt.timedelta(days=1)
_ALERT, _HANDSHAKE = 21, 22


def context(*, name, days=(-1, 1)):
    """The server side of TLS with a certificate that nobody trusts for *name*, valid from the
    first to the second of *days*, counted from today."""
    begin, end = (dt.datetime.now(dt.UTC) + day * _DAY for day in days)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert(name, not_before=begin, not_after=end).configure_cert(made)
    return made


def for_somebody_else(*, name):
    return context(name=f"not-{name}")


def for_friends_only(*, name):
    """A server that lets in only who has a certificate."""
    made = context(name=name)
    made.verify_mode = ssl.CERT_REQUIRED
    return made


def version_of_1999(*, name):
    """A server that knows nothing newer than TLS 1.0."""
    made = context(name=name)
    made.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # which is the point of it
        made.minimum_version = made.maximum_version = ssl.TLSVersion.TLSv1
    return made


def _record(kind, data):
    return struct.pack(">BHH", kind, 0x0303, len(data)) + data


async def alert(talk):
    """Refuse the handshake, properly: fatal, handshake_failure."""
    await talk.reader.read(1)
    await talk.send(_record(_ALERT, b"\2\x28"))


async def warnings_without_end(talk):
    """Nothing but warnings, each of which is legal."""
    await talk.reader.read(1)
    await talk.flood(_record(_ALERT, b"\1\x5a") * 100)


async def stall(talk):
    """Take the ClientHello and never answer it."""
    await talk.hold()


async def garbage(talk):
    await talk.reader.read(1)
    await talk.send(b"\xff" * 2000)
    await talk.hold()


async def plain_http(talk):
    """A web server without TLS on that port, as many are found on 443."""
    await talk.reader.read(1)
    await talk.send(answer(b"<p>no TLS here", status=b"400 Bad Request"))


async def close_in_handshake(talk):
    await talk.reader.read(1)


async def reset_in_handshake(talk):
    await talk.reader.read(1)
    talk.reset()


async def huge_server_hello(talk):
    """A handshake message that says it is 16 MB long, and goes on and on."""
    await talk.reader.read(1)
    await talk.send(_record(_HANDSHAKE, b"\2\xff\xff\xff" + bytes(1000)))
    await talk.flood(_record(_HANDSHAKE, bytes(16_000)))


class _Session:
    """TLS by hand, so that one can do badly what a library does well."""

    def __init__(self, talk):
        self._talk = talk
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = talk.tls.wrap_bio(self._incoming, self._outgoing, server_side=True)

    async def do(self, step, *, behind=b""):
        """Take *step* as soon as what it needs has come, and send what it leaves, also if that
        is the alert of its failure, with *behind* it what TLS knows nothing of."""
        while True:
            try:
                step()
            except ssl.SSLWantReadError:
                done = False
            else:
                done = True
            finally:
                await self._talk.send(self._outgoing.read() + behind)
            if done:
                return
            data = await self._talk.reader.read(65536)
            if not data:
                raise ConnectionResetError
            self._incoming.write(data)


async def handshake_only(talk):
    """As far as it goes, with the alert in which it ends."""
    session = _Session(talk)
    with contextlib.suppress(ssl.SSLError):
        await session.do(session.tls.do_handshake)
    await talk.hold()


def breaks_off(behind):
    """A sound handshake, half an answer, and *behind* it in the same packet what is no TLS, and an
    end without the closing alert, as somebody on the way would do it."""

    async def attack(talk):
        session = _Session(talk)
        await session.do(session.tls.do_handshake)
        await session.do(lambda: session.tls.read(65536))
        half = HEAD + b"\r\n<p>half of it"
        await session.do(lambda: session.tls.write(half), behind=behind)

    return attack


ATTACKS = {
    "tls-1.0": handshake_only,
    "tls-client-certificate": handshake_only,
    "tls-plain-http": plain_http,
    "tls-alert": alert,
    "tls-warnings": warnings_without_end,
    "tls-garbage": garbage,
    "tls-huge-hello": huge_server_hello,
    "tls-stall": stall,
    "tls-close": close_in_handshake,
    "tls-reset": reset_in_handshake,
    "tls-garbage-after": breaks_off(behind=b"\xff" * 500),
    "tls-truncated": breaks_off(behind=b""),
}

#: Makes the server's side of TLS, from a directory and a name.
CERTIFICATES = {
    "tls-untrusted": context,
    "tls-expired": partial(context, days=(-30, -10)),
    "tls-not-yet": partial(context, days=(10, 30)),
    "tls-wrong-name": for_somebody_else,
    "tls-client-certificate": for_friends_only,
    "tls-1.0": version_of_1999,
    "tls-garbage-after": context,
    "tls-truncated": context,
}
