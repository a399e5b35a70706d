"""FTP hosts of the simulated web (RFC 959, 1123, 2428, 3659); any login is accepted.

The server calls ``talk_ftp`` for each control connection. The content comes from pages.py, as for
the web: trunk pages are directories, and other pages are files in them. Every second host is old:
it supports only PASV and Unix listings, not EPSV and MLSD.

A connection is logged with the last file or directory that was requested, and with the times from
its start to the goodbye. A connection without such a request is not logged.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_to_bytes

from webcrawl.simweb import chance
from webcrawl.simweb.accesslog import AnswerEnd
from webcrawl.simweb.bodies import body_of
from webcrawl.simweb.host_spec import Behaviour
from webcrawl.simweb.leaves import PageKind
from webcrawl.simweb.pages import PageSpec, find_page, links_of, page, size_of
from webcrawl.simweb.robots import PATH, robots_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from webcrawl.simweb.talks import Talk

# Replies to commands that have no effect here.
_REPLIES = {
    "USER": "331 And your address?",
    "PASS": "230 Come in",
    "TYPE": "200 All the same",
}
# Seconds within which a client must open the data connection.
_DATA_SECS = 5.0
# Bytes per write: more than a socket buffers, so that the server waits for a slow client.
_WRITE_BYTES = 1 << 18


async def talk_ftp(talk: Talk) -> None:
    """Serve the control connection *talk* and log it."""
    await _Session(talk).run()


class _Session:
    """Control connection of one client."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._world = talk.world
        self._host = talk.host
        self._is_old = talk.host.index & 1
        self._directory = "/"
        self._data_server: asyncio.Server | None = None
        self._data: asyncio.Future[asyncio.StreamWriter] | None = None
        # Values for the log line.
        self._method = ""
        self._target = ""
        self._status = 0
        self._size = 0
        self._outcome = AnswerEnd.CLOSED
        self._said_goodbye = False

    async def run(self) -> None:
        """Greet the client, carry out its commands until the connection ends, and log it."""
        try:
            if self._host.behaviour is Behaviour.SERVER_ERROR:
                await self._say("421 Out of order")
                return
            await self._say("220-This is the simulated web.\r\n220 Welcome")
            while (line := await self._talk.line()) is not None:
                verb, _, argument = line.partition(" ")
                if not await self._carry_out(verb.upper(), argument):
                    break
        finally:
            self._close_data()
            if self._method:
                self._talk.log(
                    *(self._method, self._target, self._status, self._size, self._outcome),
                    is_over=self._said_goodbye,
                )

    async def _carry_out(self, verb: str, argument: str) -> bool:
        """Carry out one command and return whether the connection continues."""
        match verb:
            case "EPSV" if not self._is_old:
                await self._say(f"229 Here (|||{await self._open_data()}|)")
            case "PASV":
                port = await self._open_data()
                address = self._host.address.replace(".", ",")
                await self._say(f"227 Here ({address},{port >> 8},{port & 255})")
            case "CWD":
                target = self._path(argument).rstrip("/") + "/"
                if self._find_page(target, is_listing=True) is None:
                    await self._say("550 No such directory")
                else:
                    self._directory = target
                    await self._say("250 There you are")
            case "RETR":
                target = self._path(argument)
                return await self._transfer(verb, target, *self._file_content(target))
            case "MLSD" if not self._is_old:
                return await self._transfer(verb, self._directory, 200, self._list(_machine_line))
            case "LIST":
                return await self._transfer(verb, self._directory, 200, self._list(_unix_line))
            case "QUIT":
                await self._say("221 Goodbye")
                self._said_goodbye = True
                return False
            case _:
                await self._say(_REPLIES.get(verb, "502 Unknown"))
        return True

    async def _say(self, reply: str) -> None:
        """Send the line *reply* over the control connection."""
        await self._talk.say(f"{reply}\r\n".encode("latin-1"))

    async def _open_data(self) -> int:
        """Listen for a data connection; return the port."""
        self._close_data()
        data = asyncio.get_running_loop().create_future()
        self._data = data

        def on_connection(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            """Use the first connection as the data connection; close any other."""
            if data.done():
                writer.close()  # only one data connection is needed
            else:
                data.set_result(writer)

        self._data_server = await asyncio.start_server(on_connection, self._host.address, 0)
        port: int = self._data_server.sockets[0].getsockname()[1]
        return port

    def _close_data(self) -> None:
        """Close the data connection, or stop listening for it."""
        if self._data_server is not None and self._data is not None:
            self._data_server.close()
            if not self._data.cancel() and not self._data.cancelled():
                self._data.result().close()
            self._data_server = None
            self._data = None

    async def _transfer(self, verb: str, target: str, status: int, parts: list[bytes]) -> bool:
        """Send *parts* over the data connection; return whether the control connection continues.

        If *status*, an HTTP status, is not 200, only sends an error. *verb* and *target* are
        logged.
        """
        self._method = verb
        self._target = target
        self._status = 0
        self._size = 0
        self._outcome = AnswerEnd.CLOSED
        behaviour = self._host.behaviour
        if behaviour in {Behaviour.RESET, Behaviour.STALL, Behaviour.GARBAGE}:
            self._outcome = AnswerEnd(behaviour.value)
            if behaviour is Behaviour.RESET:
                self._talk.writer.transport.abort()
            elif behaviour is Behaviour.STALL:
                await self._talk.hold()
            else:
                await self._talk.say(chance.noise(self._world.seed, self._host.index))
            return False

        if behaviour is Behaviour.SLOW:
            await asyncio.sleep(self._world.slow_secs)
        if status == 200:
            if self._data is None:
                await self._say("425 Say EPSV first")
                return True
            await self._say("150 Here it comes")
            if not await self._send(self._data, b"".join(parts)):
                await self._say("426 The data connection failed")
                return True
            reply = "226 That was all"
        else:
            reply = "450 Not just now" if status >= 500 else "550 No such file, or not for you"
        self._status = status
        await self._say(reply)
        self._outcome = AnswerEnd.OK
        return True

    async def _send(self, connection: asyncio.Future[asyncio.StreamWriter], data: bytes) -> bool:
        """Send *data* over the data connection; return False if it fails."""
        try:
            async with asyncio.timeout(_DATA_SECS):
                writer = await asyncio.shield(connection)
            for offset in range(0, len(data), _WRITE_BYTES):
                writer.write(data[offset : offset + _WRITE_BYTES])
                await writer.drain()
                self._size = min(offset + _WRITE_BYTES, len(data))
            writer.close()
            await writer.wait_closed()
        except (TimeoutError, OSError):
            return False
        finally:
            self._close_data()
        return True

    def _path(self, argument: str) -> str:
        """Return the path of the URL for *argument*, a path that may be relative."""
        quoted = quote(argument.encode("latin-1"), safe="/")
        return quoted if quoted.startswith("/") else self._directory + quoted

    def _find_page(self, target: str, *, is_listing: bool) -> PageSpec | None:
        """Return the page at *target* if it is a directory (*is_listing*) or a file, else None."""
        found = find_page(self._world, self._host, target)
        return found if found and (found.kind is PageKind.LISTING) == is_listing else None

    def _file_content(self, target: str) -> tuple[int, list[bytes]]:
        """Return the HTTP status and the content of the file *target*."""
        if target == PATH:
            robots = robots_of(self._world, self._host)
            return robots.status, [robots.body]
        file_page = self._find_page(target, is_listing=False)
        if file_page is None or file_page.leaf.status != 200:
            return file_page.leaf.status if file_page else 404, []
        return 200, body_of(self._world, file_page)

    def _list(self, format_line: Callable[[str, int, bool], str]) -> list[bytes]:
        """Return the listing of the current directory, each entry formatted by *format_line*."""
        directory = self._find_page(self._directory, is_listing=True)
        assert directory is not None  # CWD has checked it
        lines = []
        for key in links_of(self._world, directory):
            entry = page(self._world, self._host, key >> 8 & 0xFFFFFF)
            is_directory = entry.kind is PageKind.LISTING
            name = entry.path.removesuffix("/").rpartition("/")[2]
            size = 4096 if is_directory else size_of(self._world, entry)
            lines.append(format_line(unquote_to_bytes(name).decode("latin-1"), size, is_directory))
        return [f"{text}\r\n".encode("latin-1") for text in lines]


def _unix_line(name: str, size: int, is_directory: bool) -> str:
    """Return a line of LIST, as the Unix program ls prints it."""
    kind = "drwxr-xr-x    2" if is_directory else "-rw-r--r--    1"
    return f"{kind} ftp      ftp      {size:>12} Nov 20  2025 {name}"


def _machine_line(name: str, size: int, is_directory: bool) -> str:
    """Return a line of MLSD (RFC 3659)."""
    kind = "dir" if is_directory else "file"
    return f"Type={kind};Size={size};Modify=20251120110200; {name}"
