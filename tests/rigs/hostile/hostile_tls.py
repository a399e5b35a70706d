"""Certificates nobody should trust, and attacks by a TLS that does badly what libraries do well."""

import contextlib
import datetime as dt
import ssl
import warnings
from functools import partial

import trustme
from hostile_bodies import HEAD

_DAY = dt.timedelta(days=1)


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
