"""FTP hosts of the simulated web (RFC 959, 1123, 2428, 3659), for anonymous clients.

The server calls it for each control connection. The content is that of pages.py, as for the web:
trunk pages are directories, other pages files in them. Hosts differ in what they speak: listings
for machines, of unix or of DOS; EPSV, or PASV only; and PASV may answer with an address that cannot
be reached from outside.

A contact is logged from its connection to its goodbye, with the last file or directory that was
requested; without such a request it is not logged.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from webcrawl.simweb import chance
from webcrawl.simweb.accesslog import AnswerEnd
from webcrawl.simweb.bodies import body_of
from webcrawl.simweb.host_spec import Behaviour
from webcrawl.simweb.leaves import PageKind
from webcrawl.simweb.pages import find_page, links_of, page, size_of
from webcrawl.simweb.robots import PATH, robots_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from webcrawl.simweb.pages import PageSpec
    from webcrawl.simweb.talks import Talk

# Seconds that a client may take to connect for data.
_DATA_SECS: Final = 5.0
# Bytes written at once; more than a socket takes, so that a slow client is waited for.
_PIECE_BYTES: Final = 1 << 18
# Replies and the statuses that they have in the log, which are those of HTTP.
_STATUSES: Final = {"226": 200, "550": 404, "450": 503}


class _File(NamedTuple):
    """A file or a listing; it has no parts if the reply is an error."""

    parts: list[bytes]
    reply: str


async def talk_ftp(talk: Talk) -> None:
    """Serve one control connection and log it."""
    await _Visit(talk).run()


class _Visit:
    """One control connection."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._host = talk.host
        # Bits that say how this server is different from others.
        self._traits = chance.draw(talk.world.seed, chance.FAULT, talk.host.index, 2)
        self._directory = "/"
        self._user = False
        self._welcome = False
        self._data_server: asyncio.Server | None = None
        self._data: asyncio.Future[asyncio.StreamWriter] | None = None
        # What the log will say.
        self._method = ""
        self._target = ""
        self._status = 0
        self._size = 0
        self._outcome = AnswerEnd.CLOSED
        self._parted = False
        self._verbs: dict[str, Callable[[str], Awaitable[bool]]] = {
            "USER": self._take_user,
            "PASS": self._take_password,
            "EPSV": self._listen,
            "PASV": self._listen_as_of_old,
            "CWD": self._change_directory,
            "RETR": self._retrieve,
            "LIST": self._list,
            "MLSD": self._list_for_programs,
            "QUIT": self._end,
        }

    async def run(self) -> None:
        """Greet, and obey commands until the end."""
        try:
            if self._host.behaviour is Behaviour.SERVER_ERROR:
                await self._say("421 Out of order")
                return
            await self._say("220-This is the simulated web.\r\n220 Welcome")
            while (line := await self._talk.line()) is not None:
                verb, _, argument = line.partition(" ")
                if not await self._answer(verb.upper(), argument):
                    break
        finally:
            self._close_data()
            if self._method:
                self._talk.log(
                    method=self._method,
                    target=self._target,
                    status=self._status,
                    size=self._size,
                    end=self._talk.last_write if self._parted else self._talk.shared.clock(),
                    outcome=self._outcome,
                )

    async def _answer(self, verb: str, argument: str) -> bool:
        """Obey one command; returns whether the conversation goes on."""
        if verb == "TYPE":
            return await self._say("200 All the same")
        answer = self._verbs.get(verb)
        if answer is None:
            return await self._say("502 Unknown")
        if not self._welcome and verb not in {"USER", "PASS", "QUIT"}:
            return await self._say("530 Who are you?")
        return await answer(argument)

    async def _say(self, reply: str) -> bool:
        await self._talk.say(f"{reply}\r\n".encode("latin-1"))
        return True

    async def _take_user(self, name: str) -> bool:
        self._user = name in {"anonymous", "ftp"}
        return await self._say("331 And your address?")

    async def _take_password(self, _password: str) -> bool:
        self._welcome = self._user
        return await self._say("230 Come in" if self._welcome else "530 Guests only")

    async def _end(self, _argument: str) -> bool:
        self._parted = await self._say("221 Goodbye")
        return False

    async def _listen(self, _argument: str) -> bool:
        if self._traits & 3 == 3:
            return await self._say("500 That is too new")
        return await self._say(f"229 Here (|||{await self._open_data()}|)")

    async def _listen_as_of_old(self, _argument: str) -> bool:
        port = await self._open_data()
        address = "10,0,0,1" if self._traits & 4 else self._host.address.replace(".", ",")
        return await self._say(f"227 Here ({address},{port >> 8},{port & 255})")

    async def _open_data(self) -> int:
        self._close_data()
        data = self._data = asyncio.get_running_loop().create_future()

        def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if data.done():
                writer.close()  # one is enough
            else:
                data.set_result(writer)

        self._data_server = await asyncio.start_server(connected, self._host.address, 0)
        port: int = self._data_server.sockets[0].getsockname()[1]
        return port

    def _close_data(self) -> None:
        if self._data_server is not None:
            self._data_server.close()
            self._data_server = None
        if self._data is not None:
            if self._data.done() and not self._data.cancelled():
                self._data.result().close()
            self._data.cancel()
            self._data = None

    async def _change_directory(self, argument: str) -> bool:
        target = self._path(argument)
        target += "" if target.endswith("/") else "/"
        if self._find_listing(target) is None:
            return await self._say("550 No such directory")
        self._directory = target
        return await self._say("250 There you are")

    async def _retrieve(self, argument: str) -> bool:
        return await self._transfer("RETR", self._path(argument), self._file)

    async def _list(self, argument: str) -> bool:
        if argument.startswith("-"):
            return await self._say("501 No options")
        style = _dos_line if self._traits & 3 == 2 else _unix_line
        return await self._transfer("LIST", self._directory, lambda at: self._listing(at, style))

    async def _list_for_programs(self, _argument: str) -> bool:
        if self._traits & 3 in {1, 2}:
            return await self._say("500 That is too new")
        return await self._transfer(
            "MLSD", self._directory, lambda at: self._listing(at, _machine_line)
        )

    async def _transfer(self, method: str, target: str, get: Callable[[str], _File]) -> bool:
        """Send the content that *get* has for *target* over the data connection."""
        self._method, self._target, self._status, self._size = method, target, 0, 0
        self._outcome = AnswerEnd.CLOSED
        behaviour = self._host.behaviour
        if behaviour is Behaviour.RESET:
            self._outcome = AnswerEnd.RESET
            self._talk.reset()
            return False
        if behaviour is Behaviour.STALL:
            self._outcome = AnswerEnd.STALL
            await self._talk.hold()
            return False
        if behaviour is Behaviour.GARBAGE:
            self._outcome = AnswerEnd.GARBAGE
            await self._talk.say(self._talk.noise())
            return False
        if behaviour is Behaviour.SLOW:
            await asyncio.sleep(self._talk.world.slow_secs)
        found = get(target)
        code = found.reply[:3]
        if code == "226":
            if self._data is None:
                return await self._say("425 Say EPSV first")
            await self._say("150 Here it comes")
            if not await self._send(found.parts):
                return await self._say("426 The data connection failed")
        self._status = _STATUSES[code]
        await self._say(found.reply)
        self._outcome = AnswerEnd.OK
        return True

    async def _send(self, parts: list[bytes]) -> bool:
        assert self._data is not None
        try:
            async with asyncio.timeout(_DATA_SECS):
                writer = await asyncio.shield(self._data)
            data = b"".join(parts)
            for at in range(0, len(data), _PIECE_BYTES):
                piece = data[at : at + _PIECE_BYTES]
                writer.write(piece)
                await writer.drain()
                self._size += len(piece)
            writer.close()
            await writer.wait_closed()
        except (TimeoutError, OSError):
            return False
        finally:
            self._close_data()
        return True

    def _path(self, argument: str) -> str:
        """The path of the URL for a path relative to the current directory."""
        quoted = quote(argument.encode("latin-1"), safe="/")
        return quoted if quoted.startswith("/") else self._directory + quoted

    def _find_listing(self, target: str) -> PageSpec | None:
        found = find_page(self._talk.world, self._host, target)
        return found if found is not None and found.kind is PageKind.LISTING else None

    def _file(self, target: str) -> _File:
        world, host = self._talk.world, self._host
        if target == PATH:
            robots = robots_of(world, host)
            return _File([robots.body], _reply_of(robots.status))
        found = find_page(world, host, target)
        if found is None or found.kind is PageKind.LISTING:
            return _File([], "550 No such file")
        return _File(
            body_of(world, found) if found.leaf.status == 200 else [],
            _reply_of(found.leaf.status),
        )

    def _listing(self, target: str, line: Callable[[str, int, bool], str]) -> _File:
        """The names in a directory; some hosts name the directory itself as well."""
        world, host = self._talk.world, self._host
        found = self._find_listing(target)
        assert found is not None  # CWD has looked
        lines = []
        if self._traits & 8 and line is not _dos_line:
            lines += [line(".", 4096, True), line("..", 4096, True)]
        for key in links_of(world, found):
            entry = page(world, host, key >> 8 & 0xFFFFFF)
            is_directory = entry.kind is PageKind.LISTING
            name = entry.path.removesuffix("/").rpartition("/")[2]
            size = 4096 if is_directory else size_of(world, entry)
            lines.append(line(unquote_to_bytes(name).decode("latin-1"), size, is_directory))
        return _File([f"{one}\r\n".encode("latin-1") for one in lines], "226 That was all")


def _reply_of(status: int) -> str:
    """The FTP reply for a status of HTTP."""
    if status == 200:
        return "226 That was all"
    return "450 Not just now" if status >= 500 else "550 No such file, or not for you"


def _unix_line(name: str, size: int, is_directory: bool) -> str:
    kind = "drwxr-xr-x    2" if is_directory else "-rw-r--r--    1"
    return f"{kind} ftp      ftp      {size:>12} Nov 20  2025 {name}"


def _dos_line(name: str, size: int, is_directory: bool) -> str:
    return f"11-20-25  11:02AM {'<DIR>' if is_directory else size:>20} {name}"


def _machine_line(name: str, size: int, is_directory: bool) -> str:
    kind = {".": "cdir", "..": "pdir"}.get(name, "dir" if is_directory else "file")
    return f"Type={kind};Size={size};Modify=20251120110200; {name}"
