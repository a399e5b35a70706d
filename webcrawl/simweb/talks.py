"""Conversations over FTP and Gopher: one coroutine for each connection.

Used by the servers of FTP and Gopher. Invariants: a conversation is ended with its connection
closed, whatever happens in it, and leaves at most one line in the log; `abort_all` returns when all
have ended.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from webcrawl.simweb import chance
from webcrawl.simweb.accesslog import escaped

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from webcrawl.simweb.accesslog import AnswerEnd
    from webcrawl.simweb.host_spec import HostSpec
    from webcrawl.simweb.server_state import ServerState

# Of a line that a client says.
_MAX_LINE: Final = 8192


class Talk:
    """One connection of a client to one host."""

    def __init__(
        self,
        *,
        shared: ServerState,
        host: HostSpec,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.shared = shared
        self.world = shared.world
        self.host = host
        self.start = shared.clock()
        self.last_write = 0.0
        self.client: str = writer.get_extra_info("peername")[0]
        self._reader = reader
        self._writer = writer

    async def line(self) -> str | None:
        """The next line of the client, None at the end."""
        try:
            line = await self._reader.readuntil(b"\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            return None
        return line.rstrip(b"\r\n").decode("latin-1")

    async def say(self, data: bytes) -> None:
        """Send *data*. Raises OSError if the client is gone."""
        # Noted before: when the call returns, the client may have had it for a while.
        self.last_write = self.shared.clock()
        self._writer.write(data)
        await self._writer.drain()

    async def hold(self) -> None:
        """Keep the connection silent for stall_secs, or until the client goes."""
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(self.world.stall_secs):
                await self._reader.read()

    def noise(self) -> bytes:
        """The bytes that a host with garbage sends."""
        noise = chance.draws(self.world.seed, chance.FAULT, self.host.index, 1, 40)
        return b"".join(number.to_bytes(8, "little") for number in noise)

    def reset(self) -> None:
        """End the connection at once."""
        self._writer.transport.abort()

    def log(
        self, *, method: str, target: str, status: int, size: int, end: float, outcome: AnswerEnd
    ) -> None:
        """Write the one line of this contact; see accesslog.py."""
        if self.shared.log is not None:
            protocol = self.host.scheme.upper()
            self.shared.log.add(
                f"{self.client} - - [{self.start:.6f} {end:.6f}] "
                f'"{method} {escaped(target)} {protocol}/-" {status} {size} "-" "-" '
                f"{self.host.origin} {self.host.address} {outcome.value}\n"
            )


class Talks:
    """All conversations of one server. *talk* leads one, and closes nothing."""

    def __init__(
        self,
        *,
        shared: ServerState,
        hosts: dict[str, HostSpec],
        talk: Callable[[Talk], Awaitable[None]],
    ) -> None:
        """*hosts* by their addresses."""
        self._shared = shared
        self._hosts = hosts
        self._talk = talk
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, sock: socket.socket) -> asyncio.Server:
        """Serve connections to *sock*, a bound socket."""
        return await asyncio.start_server(self._connected, sock=sock, limit=_MAX_LINE)

    async def abort_all(self) -> None:
        """End all conversations, and wait until they have ended and are logged."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            host = self._hosts[writer.get_extra_info("sockname")[0]]
            with contextlib.suppress(OSError):
                await self._talk(Talk(shared=self._shared, host=host, reader=reader, writer=writer))
        finally:
            writer.close()
