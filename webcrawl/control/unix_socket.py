"""The unix socket of a running crawl, for ``scrapy control`` on the same machine.

    request := Request in JSON, a line      reply := Reply in JSON, a line

One request a connection. The socket is not in the job's directory, as its path must be short and
network file systems refuse it, but in one with a drawn name, which nobody can take in advance:
``JOBDIR/control`` has its path. It is for the crawl's own user and root: by the mode of its
directory, by its own, and by the user that connects, as the system says.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace
from xxhash import xxh3_64_hexdigest

from webcrawl.configuration.decoding import UndecodableError, json_decoder
from webcrawl.control.control import CommandAnswer, Control  # noqa: TC001  # msgspec reads the annotation
from webcrawl.control.table import CommandError
from webcrawl.crawl.job.control_journal import Request, decode_request
from webcrawl.errors import FatalError
from webcrawl.storage.atomic import write_atomic

FILE = "control"
#: Bytes of a request.
MOST_BYTES = 1 << 20
_MOST_CLIENTS = 8
_PATIENCE_SECS = 5.0
# For an answer: the longest commands take some seconds.
_ANSWER_SECS = 60.0
# Of all systems the least, without the zero at its end.
_MOST_PATH_BYTES = 103
_CREDENTIALS = struct.Struct("3i")


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """Either of the two."""

    answer: CommandAnswer | None = None
    error: str = ""


_decode_reply = json_decoder(Reply)


class ControlSocket:
    """The socket of the crawl in *jobdir*, whose requests *control* carries out."""

    def __init__(self, *, jobdir: Path, control: Control) -> None:
        self._jobdir = jobdir
        self._control = control
        self._server: asyncio.Server | None = None
        self._path = Path()
        self._clients = 0

    async def open(self) -> None:
        """Listen, in place of a process that was killed. OSError."""
        self._forget(_told(self._jobdir))
        directory = tempfile.mkdtemp(prefix="webcrawl-", dir=_above())
        self._path = path = Path(directory) / _name(self._jobdir)
        if len(os.fsencode(path)) > _MOST_PATH_BYTES:
            raise OSError(f"{path} is too long a path for a socket")
        self._server = await asyncio.start_unix_server(self._serve, path, limit=MOST_BYTES)
        path.chmod(0o600)
        write_atomic(self._jobdir / FILE, f"{path}\n".encode())

    def close(self) -> None:
        """Listen no more. The next process of the job may listen already."""
        if self._server is not None:
            self._server.close()
        self._forget(self._path)

    def _forget(self, path: Path) -> None:
        """Remove the socket *path*, of this process or of one that was killed, and its directory.
        The job is locked by this process."""
        if path.name == _name(self._jobdir):
            with suppress(OSError):
                path.unlink(missing_ok=True)
                path.parent.rmdir()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients += 1
        try:
            reply = Reply(await self._answer(reader, writer.get_extra_info("socket")))
        except ValueError as error:  # CommandError, UndecodableError, of a long line
            reply = Reply(error=str(error))
        except TimeoutError:
            reply = Reply(error=f"No request came in {_PATIENCE_SECS:g} s.")
        finally:
            self._clients -= 1
        with suppress(OSError):  # the other side has gone
            writer.write(msgspec.json.encode(reply) + b"\n")
            await writer.drain()
        writer.close()

    async def _answer(
        self, reader: asyncio.StreamReader, connection: socket.socket
    ) -> CommandAnswer:
        if self._clients > _MOST_CLIENTS:
            raise CommandError("Too many commands at once: try again.")
        size = _CREDENTIALS.size
        found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        process, user, _ = _CREDENTIALS.unpack(found)
        if user not in {0, os.geteuid()}:
            raise CommandError("Only the user of the crawl may send it commands.")
        async with asyncio.timeout(_PATIENCE_SECS):
            line = await reader.readline()
        request = decode_request(line)
        origin = f"{request.origin or 'scrapy control'}, user {user}, process {process}"
        return await self._control.run(replace(request, origin=origin))


def _above() -> Path:
    """Where the directories of sockets are."""
    own = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    return own if own.is_dir() else Path(tempfile.gettempdir())


def _told(jobdir: Path) -> Path:
    """The path that the job has of its socket; Path() if none."""
    try:
        return Path((jobdir / FILE).read_text(encoding="utf-8").strip())
    except (OSError, ValueError):
        return Path()


def _name(jobdir: Path) -> str:
    return f"{xxh3_64_hexdigest(os.fsencode(jobdir.resolve()))}.sock"


def send(jobdir: Path, request: Request) -> CommandAnswer:
    """The answer of the crawl that runs in *jobdir*. Blocks for a minute at most. FatalError with
    one sentence if none does, or it refuses the *request*, or does not answer."""
    try:
        path = (jobdir / FILE).read_text(encoding="utf-8").strip()
        path = str(Path(path).with_name(_name(jobdir)))  # of a copy there is none
        with socket.socket(socket.AF_UNIX) as connection, connection.makefile("rb") as stream:
            connection.settimeout(_ANSWER_SECS)
            connection.connect(path)
            connection.sendall(msgspec.json.encode(request) + b"\n")
            reply = _decode_reply(stream.readline())
    except TimeoutError as error:
        raise FatalError(
            f"The crawl in JOBDIR {jobdir} has not answered in {_ANSWER_SECS:g} s: it hangs, or "
            "was stopped (SIGSTOP). It may carry the command out later."
        ) from error
    except (OSError, UndecodableError) as error:
        raise FatalError(
            f"No crawl in JOBDIR {jobdir} takes commands ({error}): it does not run, or with "
            "CONTROL_ENABLED=0."
        ) from error
    if reply.answer is None:
        raise FatalError(reply.error)
    return reply.answer
