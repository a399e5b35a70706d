"""A session with an FTP server (RFC 959, 1123, 2428), over one control connection.

Used by the download handler for ftp, once per contact.

Invariants. The data connection is opened only to the address of the control connection, even if the
server names another one. Otherwise an answer to PASV could make the crawler connect there (the
reverse of the bounce attack of RFC 2577). A command is one line: no argument can end it. A server
can send at most `_MAX_LINES` lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import NamedTuple

from scrapy.exceptions import DownloadTimeoutError

from webcrawl.net import outcomes
from webcrawl.net.contact import Connection, open_streams
from webcrawl.net.dialer import Dialer
from webcrawl.net.limits import FetchLimits

# Maximum number of lines in all replies of a session; a greeting may be a page long.
_MAX_LINES = 500
# Seconds in which the server may answer QUIT.
_QUIT_SECS = 1.0
# No server has a reason to use a lower port.
_MIN_DATA_PORT = 1024

_REPLY = re.compile(rb"([1-5]\d\d)(?:([ -])(.*))?", re.DOTALL)
_EXTENDED_PORT = re.compile(rb"\(([!-~])\1\1(\d{1,5})\1\)")
_PASSIVE_PORT = re.compile(rb"\d{1,3},\d{1,3},\d{1,3},\d{1,3},(\d{1,3}),(\d{1,3})")
_BREAKS = re.compile(rb"[\r\n\0]")


class FtpReply(NamedTuple):
    """A server's reply: its *code*, and the *text* of its last line."""

    code: int
    text: bytes

    @property
    def is_preliminary(self) -> bool:
        """Return whether another reply to the same command follows (1xx)."""
        return self.code < 200

    @property
    def is_good(self) -> bool:
        """Return whether the command succeeded (2xx)."""
        return 200 <= self.code < 300

    @property
    def is_unknown_command(self) -> bool:
        """Return whether the server rejected the command as unknown or not valid.

        It may be valid in another form or in another state of the session.
        """
        return self.code in (500, 501, 502, 503, 504, 522)


class Session:
    """A session over one control connection. Its methods raise the exceptions of `outcomes`."""

    def __init__(self, control: Connection, dialer: Dialer, limits: FetchLimits) -> None:
        self._control = control
        self._dialer = dialer
        self._limits = limits
        self._lines = 0

    async def read_reply(self) -> FtpReply:
        """Receive and return the next reply; raise BadAnswerError if it is not valid."""
        line = await self._line()
        match = _REPLY.fullmatch(line)
        if match is None:
            raise outcomes.BadAnswerError(f"not an FTP reply: {line[:80]!r}")

        code = match[1]
        text = match[3] or b""
        # More lines follow until one begins with the same code and a space (RFC 959, 4.2).
        has_more_lines = match[2] == b"-"
        while has_more_lines:
            line = await self._line()
            if line[:3] == code and line[3:4] in (b" ", b""):
                text = line[4:]
                has_more_lines = False
        return FtpReply(int(code), text)

    async def ask(self, command: bytes, argument: bytes | None = None) -> FtpReply:
        """Send *command*, with an *argument* if it takes one, and return the reply.

        Raises BadUrlError for an *argument* with a line break.
        """
        if argument is not None:
            if _BREAKS.search(argument):
                raise outcomes.BadUrlError("a line break in a path, user name or password")
            command = command + b" " + argument
        self._control.send(command + b"\r\n")
        return await self.read_reply()

    async def log_in(self, user: bytes, password: bytes) -> FtpReply:
        """Log in, and return the last reply; it is good if the login succeeded."""
        reply = await self.ask(b"USER", user)
        if reply.code == 331:  # the server asks for the password
            reply = await self.ask(b"PASS", password)
        return reply

    async def data_connection(self) -> Connection | FtpReply:
        """Open and return a passive data connection, or return the reply if the server refuses."""
        # EPSV also works with IPv6; servers without it know PASV. The codes 229 and 227 mean that
        # the server has opened a port, whose number is in the reply. Port 0 is rejected below.
        reply = await self.ask(b"EPSV")
        if reply.code == 229:
            match = _EXTENDED_PORT.search(reply.text)
            port = int(match[2]) if match else 0
        else:
            if not reply.is_unknown_command:
                return reply
            reply = await self.ask(b"PASV")
            if reply.code != 227:
                return reply
            match = _PASSIVE_PORT.search(reply.text)
            port = int(match[1]) << 8 | int(match[2]) if match else 0

        if not _MIN_DATA_PORT <= port < 65536:
            raise outcomes.BadAnswerError(f"not a data port: {reply.text[:80]!r}")
        streams = await self._dialer.dial_address(self._control.address, port, open_streams)
        return Connection(streams, self._limits)

    async def end(self) -> None:
        """Send QUIT, as the standard requires, and wait only a moment for an answer."""
        with contextlib.suppress(
            TimeoutError,
            DownloadTimeoutError,
            outcomes.ConnectionLostError,
            outcomes.BadAnswerError,
        ):
            async with asyncio.timeout(_QUIT_SECS):
                await self.ask(b"QUIT")

    async def _line(self) -> bytes:
        """Return the next line of a reply; raise BadAnswerError after too many lines."""
        self._lines += 1
        if self._lines > _MAX_LINES:
            raise outcomes.BadAnswerError(
                f"the server sent more than {_MAX_LINES} lines of replies"
            )
        return await self._control.read_line()
