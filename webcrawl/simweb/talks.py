"""Conversations over FTP and Gopher, one coroutine for each connection.

Used by the FTP and Gopher servers. Invariant: at the end of a conversation its connection is always
closed, and there is at most one line in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from webcrawl.simweb.accesslog import AnswerEnd, Hit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from webcrawl.simweb.server_state import ServerState

# Maximum length of a line that a client sends.
_MAX_LINE = 8192


class Talk:
    """Connection of a client to an FTP or Gopher host."""

    def __init__(
        self, shared: ServerState, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.world = shared.world
        self.host = shared.find_at(writer.get_extra_info("sockname")[0])
        self.writer = writer
        self._shared = shared
        self._reader = reader
        self._start = shared.clock()
        self._last_write = 0.0

    async def line(self) -> str | None:
        """Return the client's next line, or None at the end."""
        try:
            line = await self._reader.readuntil(b"\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            return None
        return line.rstrip(b"\r\n").decode("latin-1")

    async def say(self, data: bytes) -> None:
        """Send *data*. Raises OSError if the client has disconnected."""
        # The time is taken before the call. When the call returns, the client may have had the data
        # for a while.
        self._last_write = self._shared.clock()
        self.writer.write(data)
        await self.writer.drain()

    async def hold(self) -> None:
        """Keep the connection open and silent for stall_secs, or until the client leaves."""
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(self.world.stall_secs):
                await self._reader.read()

    def log(
        self, method: str, target: str, status: int, size: int, outcome: AnswerEnd, *, is_over: bool
    ) -> None:
        """Log this connection. It ended with the last write if *is_over*, otherwise it ends now."""
        self._shared.record(
            Hit(
                start=self._start,
                end=self._last_write if is_over else self._shared.clock(),
                client=(self.writer.get_extra_info("peername") or [""])[0],
                method=method,
                target=target,
                version="-",
                status=status,
                size=size,
                referer="",
                agent="",
                origin=self.host.origin,
                address=self.host.address,
                outcome=outcome,
            )
        )


def talk_protocol(
    shared: ServerState, talk: Callable[[Talk], Awaitable[None]]
) -> asyncio.StreamReaderProtocol:
    """Return the protocol for a new connection; *talk* runs the conversation.

    The connection is closed when *talk* has ended.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError):
            await talk(Talk(shared, reader, writer))

    def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        shared.start(serve(reader, writer))

    return asyncio.StreamReaderProtocol(asyncio.StreamReader(limit=_MAX_LINE), on_connection)
