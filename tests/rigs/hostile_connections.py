"""Servers that are hostile from the first byte on, and those of FTP and Gopher: one attack for
each name, on the connection itself."""

from __future__ import annotations

from urllib.parse import urlsplit

from hostile_answers import answer, drips, floods, holds, resets, says


async def _ftp_dialogue(talk, *replies):
    """A greeting, and a reply to each line that comes."""
    for reply in replies:
        await talk.send(reply + b"\r\n")
        await talk.reader.readuntil(b"\r\n")


async def ftp_low_port(talk):
    """The file is to be had from the mail server of the same machine."""
    await _ftp_dialogue(
        talk, b"220 hi", b"331 who?", b"230 you", b"200 I", b"229 ok (|||25|)", b"221 bye"
    )


async def ftp_bounce(talk):
    """The file is to be had from somebody else, at a port where nobody listens here."""
    port = urlsplit(talk.there("closed-port", "/")).port
    where = b"227 (127,0,0,66,%d,%d)" % divmod(port, 256)
    await _ftp_dialogue(talk, b"220 hi", b"331 who?", b"230 you", b"200 I", b"502 no", where)


def _behind_a_line(attack):
    """Attack when a line has come: hanging up before it is read would be a reset."""

    async def wait_and_attack(talk):
        await talk.reader.readuntil(b"\n")
        await attack(talk)

    return wait_and_attack


ATTACKS = {
    "reset-on-connect": resets(b""),
    "speaks-first": holds(b"220 smtp.sim.test ESMTP\r\n"),
    "ftp-silence": holds(b""),
    "ftp-garbage": holds(b"\xff" * 500 + b"\r\n"),
    "ftp-endless-greeting": floods(b"", b"220-and welcome\r\n" * 100),
    "ftp-endless-line": floods(b"220 ", b"welcome " * 500),
    "ftp-greeting-drip": drips(b"220-", b"welcome\r\n", every=0.1),
    "ftp-busy": holds(b"421 too many users\r\n"),
    "ftp-low-port": ftp_low_port,
    "ftp-bounce": ftp_bounce,
    "gopher-silence": holds(b""),
    "gopher-nothing": _behind_a_line(says(b"")),
    "gopher-http": _behind_a_line(says(answer(b"<p>gopher?"))),
    "gopher-endless": floods(b"", b"iand so on\tx\tx\t70\r\n" * 500),
}
