"""A real Redis server for a test: the one that a hive has, in a directory of its own.

`RedisServer` is a context manager. It listens on a unix socket, with *port* on a loopback port, too
(always the same one), and within `by_tls` by TLS on another one. It can be killed, paused and
started again, with its data (*appendonly*) or without.
"""

import asyncio
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time

import redis.backoff
import redis.retry
import trustme
from loopback import raw_server, untrusted
from patience import SLOWNESS

from webcrawl.hive.membership.embedded_redis import server_program

_START_SECS = 20 * SLOWNESS
# A sentinel writes its state to it.
_SENTINEL_FILE = "sentinel.conf"
_SOCKET_PATH_BYTES = 107  # Linux' limit
#: For a client that says at once what is wrong; by itself it tries for seconds.
ONCE = redis.retry.Retry(redis.backoff.NoBackoff(), 0)


def free_port():
    """A loopback port that nothing listens on."""
    while True:
        port = random.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


class RedisServer:
    """A Redis server in *directory*, which is made. *more*: arguments of ``redis-server``. In
    another *mode* it is a node of a cluster, or a sentinel."""

    def __init__(
        self,
        directory,
        *,
        port=False,
        password="",
        appendonly=False,
        mode="standalone",
        more=(),
    ):
        self.directory = directory
        self.socket = directory / "redis.sock"
        assert len(os.fsencode(self.socket)) <= _SOCKET_PATH_BYTES, self.socket
        self.port = free_port() if port else 0
        self.password = password
        self._options = ["--bind", "127.0.0.1", "--port", str(self.port)]
        self._options += ["--unixsocket", str(self.socket), "--protected-mode", "no"]
        if mode == "sentinel":
            self._options = [_SENTINEL_FILE, "--sentinel", *self._options]
        else:
            self._options += ["--save", "", "--appendonly", "yes" if appendonly else "no"]
        if mode == "cluster":
            self._options += ["--cluster-enabled", "yes"]
        if password:
            self._options += ["--requirepass", password]
        self._options += more
        self._process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()

    @property
    def url(self):
        """For REDIS_URL, by the unix socket."""
        login = f":{self.password}@" if self.password else ""
        return f"unix://{login}{self.socket}"

    @property
    def tcp_url(self):
        """The same by the loopback port, with *port*."""
        login = f":{self.password}@" if self.password else ""
        return f"redis://{login}127.0.0.1:{self.port}/0"

    @property
    def pid(self):
        return self._process.pid

    @property
    def is_running(self):
        return self._process is not None

    def client(self):
        """A new blocking client, for the test's own questions; to be closed (``with``)."""
        return redis.Redis(
            unix_socket_path=str(self.socket),
            password=self.password or None,
            decode_responses=True,
            retry=ONCE,
        )

    def start(self):
        """Start it, with the data that is there, and wait until it answers."""
        assert self._process is None, "it runs"
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / _SENTINEL_FILE).touch()
        command = [str(server_program()), *self._options]
        self._process = _started(command, self.directory)
        self.wait_for(lambda client: client.ping())

    def wait_for(self, happened):
        """Until *happened*, called with a client, says so; while it runs, and at most 20 s."""
        with self.client() as client:
            _wait(self._process, self.directory, lambda: happened(client))

    def kill(self):
        """``kill -9``, as often as one likes."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self, *, empty=False):
        """Kill it and start it again, with what *appendonly* has kept, or *empty*."""
        self.kill()
        if empty:
            shutil.rmtree(self.directory)
        self.start()

    def pause(self):
        """SIGSTOP: connections stay and nothing is answered, as if a cable were pulled."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self):
        os.kill(self.pid, signal.SIGCONT)


def _started(command, directory):
    with (directory / "redis.log").open("ab") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=directory
        )


def _wait(process, directory, is_ready):
    deadline = time.monotonic() + _START_SECS
    while True:
        with contextlib.suppress(redis.RedisError):
            if is_ready():
                return
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise RuntimeError((directory / "redis.log").read_text()[-2000:])
        time.sleep(0.01)


@contextlib.asynccontextmanager
async def by_tls(server):
    """TLS on a loopback port, for *server* behind it: the URL, which names the authority's file.

    The wheel's server cannot, so the test's own loop stands before it as stunnel would.
    """
    authority, file = trustme.CA(), server.directory / "authority.pem"
    authority.cert_pem.write_to_path(str(file))

    async def talk(reader, writer):
        to_read, to_write = await asyncio.open_unix_connection(server.socket)
        await asyncio.gather(_pipe(reader, to_write), _pipe(to_read, writer))

    async with raw_server(talk, tls=untrusted("127.0.0.1", authority=authority)) as front:
        yield f"rediss://127.0.0.1:{front.port}?ssl_ca_certs={file}"


async def _pipe(reader, writer):
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()
