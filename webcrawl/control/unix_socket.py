"""Unix socket of a running crawl, for ``scrapy control`` on the same machine.

    request := Request in JSON, a line      answer := CommandAnswer in JSON, a line

Each connection carries one request. The socket is not in the job directory, because its path must
be short and network file systems do not support sockets. It is in a directory with a random name,
so that other users cannot create it in advance; ``JOBDIR/control`` contains its path. The modes of
the directory and of the socket let only the crawl's own user and root use it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec
from xxhash import xxh3_64_hexdigest

from webcrawl.configuration.decoding import UndecodableError, json_decoder
from webcrawl.control.control import CommandAnswer, Control
from webcrawl.crawl.job.control_journal import Request, decode_request
from webcrawl.errors import FatalError
from webcrawl.storage.atomic import write_atomic

FILE = "control"
#: Largest size of a request.
MAX_BYTES = 1 << 20
_REQUEST_SECS = 5.0
# How long a client waits for an answer; the slowest commands take some seconds.
_ANSWER_SECS = 60.0
_decode_answer = json_decoder(CommandAnswer)


class ControlSocket:
    """Socket of the crawl in *jobdir*; *control* carries out the requests that arrive there."""

    def __init__(self, *, jobdir: Path, control: Control) -> None:
        self._jobdir = jobdir
        self._control = control
        # Both are set by ``open``.
        self._server: asyncio.Server | None = None
        self._path = Path()

    async def open(self) -> None:
        """Create the socket and listen, and delete that of a killed process. Raises OSError."""
        self._remove(_saved_path(self._jobdir))
        directory = tempfile.mkdtemp(prefix="webcrawl-", dir=_parent_directory())
        path = Path(directory) / _socket_name(self._jobdir)
        self._path = path
        self._server = await asyncio.start_unix_server(self._serve, path, limit=MAX_BYTES)
        path.chmod(0o600)
        write_atomic(self._jobdir / FILE, f"{path}\n".encode())

    def close(self) -> None:
        """Stop listening. The next process of the job may already be listening."""
        if self._server is not None:
            self._server.close()
        self._remove(self._path)

    def _remove(self, path: Path) -> None:
        """Remove the socket *path* and its directory, which may belong to a killed process.

        This process must hold the lock of the job.
        """
        if path.name == _socket_name(self._jobdir):
            with suppress(OSError):
                path.unlink(missing_ok=True)
                path.parent.rmdir()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the request of one client."""
        try:
            async with asyncio.timeout(_REQUEST_SECS):
                line = await reader.readline()
            answer = await self._control.run(decode_request(line))
        except ValueError as error:  # CommandError, UndecodableError, a line that is too long
            answer = CommandAnswer(str(error), refused=True)
        except TimeoutError:
            said = f"No request arrived within {_REQUEST_SECS:g} s."
            answer = CommandAnswer(said, refused=True)

        with suppress(OSError):  # the client has disconnected
            writer.write(msgspec.json.encode(answer) + b"\n")
            await writer.drain()
        writer.close()


def _parent_directory() -> Path:
    """Return the directory in which directories for sockets are created."""
    runtime_directory = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    return runtime_directory if runtime_directory.is_dir() else Path(tempfile.gettempdir())


def _saved_path(jobdir: Path) -> Path:
    """Return the path of the socket that the job has recorded; Path() if there is none."""
    try:
        return Path((jobdir / FILE).read_text(encoding="utf-8").strip())
    except (OSError, ValueError):
        return Path()


def _socket_name(jobdir: Path) -> str:
    """Return the file name of the socket, which depends on the path of *jobdir*."""
    return f"{xxh3_64_hexdigest(os.fsencode(jobdir.resolve()))}.sock"


def send(jobdir: Path, request: Request) -> CommandAnswer:
    """Send *request* to the crawl in *jobdir* and return its answer. Blocks at most a minute.

    Raises FatalError if no crawl runs there, or if it refuses the request or does not answer.
    """
    try:
        # The name is that for this directory, not the recorded one: a copy of a job directory must
        # not send commands to the crawl in the original.
        path = str(_saved_path(jobdir).parent / _socket_name(jobdir))
        with socket.socket(socket.AF_UNIX) as connection, connection.makefile("rb") as stream:
            connection.settimeout(_ANSWER_SECS)
            connection.connect(path)
            connection.sendall(msgspec.json.encode(request) + b"\n")
            answer = _decode_answer(stream.readline())
    except TimeoutError as error:
        raise FatalError(
            f"The crawl in JOBDIR {jobdir} has not answered within {_ANSWER_SECS:g} s: it hangs or "
            "is suspended (SIGSTOP). It may still carry out the command later."
        ) from error
    except (OSError, UndecodableError) as error:
        raise FatalError(
            f"No crawl in JOBDIR {jobdir} accepts commands ({error}): it is not running, or runs "
            "with CONTROL_ENABLED=0."
        ) from error
    if answer.refused:
        raise FatalError(answer.said)
    return answer
