"""Fetches with the handlers for ftp and gopher, from servers that say what they are told."""

import asyncio
import contextlib

from fetching import fetch_url
from loopback import raw_server

from webcrawl.net.ftp.handler import FtpDownloadHandler
from webcrawl.net.gopher.handler import GopherDownloadHandler
from webcrawl.net.outcomes import outcome_of

HANDLERS = {"ftp": FtpDownloadHandler, "gopher": GopherDownloadHandler}


async def fetch(url, **options):
    """Fetch once with a handler of its own; *options* in capitals are settings, others meta."""
    scheme = url.partition(":")[0]
    port = url.partition("://")[2].partition("/")[0].rpartition(":")[2]
    options = {"GOPHER_PORTS": port if port.isdigit() else 70, "verbatim_url": True, **options}
    return await fetch_url(url, options, HANDLERS[scheme])


async def outcome(url, **options):
    """How fetching *url* ends, in one word."""
    try:
        return outcome_of(await fetch(url, **options))
    except Exception as error:  # noqa: BLE001  the outcome is what is asked for
        return outcome_of(error)


class FtpTalk:
    """An FTP server of few words, some of which can be others than they should be.

    *says* are replies by command ("" is the greeting; None hangs up); *data* goes over the data
    connection at a command that is answered with 150, and is followed by *after*.
    """

    def __init__(
        self,
        says=None,
        *,
        data=b"",
        address="127.0.0.1",
    ):
        self._says = {
            "": b"220 ready\r\n",
            "USER": b"331 password\r\n",
            "PASS": b"230 welcome\r\n",
            "TYPE": b"200 ok\r\n",
            "CWD": b"250 ok\r\n",
            "EPSV": b"229 port (|||PORT|)\r\n",
            "PASV": b"227 port (HOST,HIGH,LOW)\r\n",
            "RETR": b"150 here it comes\r\n",
            "MLSD": b"150 here it comes\r\n",
            "LIST": b"150 here it comes\r\n",
            "QUIT": b"221 goodbye\r\n",
            "after": b"226 that was all\r\n",
        } | (says or {})
        self._data = data
        self._address = address
        self.commands = []
        self.data_connections = 0
        self.data_port = 0
        self._data_open = None

    @contextlib.asynccontextmanager
    async def served(self):
        """Serve; gives the URL of the root."""
        async with (
            raw_server(self._serve_data, address=self._address) as data,
            raw_server(self._serve, address=self._address) as control,
        ):
            self.data_port = data.port
            host = f"[{self._address}]" if ":" in self._address else self._address
            yield f"ftp://{host}:{control.port}/"

    async def _serve_data(self, reader, writer):
        self.data_connections += 1
        self._data_open.set_result(writer)
        await reader.read()

    async def _serve(self, reader, writer):
        self._data_open = asyncio.get_running_loop().create_future()
        if not await self._say(writer, ""):
            return
        while line := await reader.readline():
            self.commands.append(line.decode("latin-1").removesuffix("\r\n"))
            verb = self.commands[-1].partition(" ")[0]
            if not await self._say(writer, verb) or verb == "QUIT":
                return
            if (self._says.get(verb) or b"").startswith(b"150"):
                data = await self._data_open
                data.write(self._data)
                with contextlib.suppress(ConnectionError):
                    await data.drain()
                data.close()
                if not await self._say(writer, "after"):
                    return

    async def _say(self, writer, verb):
        reply = self._says.get(verb, b"502 unknown\r\n")
        if reply is None:
            return False
        port = self.data_port
        for word, value in (
            (b"PORT", str(port)),
            (b"HOST", "127,0,0,1"),
            (b"HIGH", str(port >> 8)),
            (b"LOW", str(port & 255)),
        ):
            reply = reply.replace(word, value.encode())
        writer.write(reply)
        await writer.drain()
        return True


@contextlib.asynccontextmanager
async def gopher_server(says):
    """Answers every selector with *says*; gives the origin, and the lines it was asked with."""
    async with raw_server([line, says]) as server:
        yield origin_of(server), server.heads


async def line(raw, reader, writer):
    """Read a line."""
    raw.heads.append(await reader.readline())


def origin_of(server):
    return f"gopher://{server.address}:{server.port}"
