"""A real Redis server for a test: the one that a hive has, in a directory of its own.

`RedisServer` is a context manager. It listens on a unix socket, with *port* on a loopback port, too
(always the same one), and within `by_tls` by TLS on another one. It can be killed, paused and
started again, with its data (*appendonly*) or without. `Sentinel` watches one and its replicas.
`Cluster` is several of them, among them the master of a hive and its replica.
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
from redis.crc import key_slot

from webcrawl.hive.membership.embedded_redis import server_program

_START_SECS = 20 * SLOWNESS
_SOCKET_PATH_BYTES = 107  # Linux' limit
_SLOTS = 16384
#: For a client that says at once what is wrong; by itself it tries for seconds.
ONCE = redis.retry.Retry(redis.backoff.NoBackoff(), 0)


def free_port():
    """A loopback port that nothing listens on, nor on the one 10,000 above, a cluster's bus."""
    while True:
        port = random.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 10_000))
            return port


class RedisServer:
    """A Redis server in *directory*, which is made. *more*: arguments of ``redis-server``.

    It listens on *host*, an address of the machine on which the words *within* run a command. In a
    *cluster*, it has *slots* for its own.
    """

    def __init__(
        self,
        directory,
        *,
        port=False,
        password="",
        appendonly=False,
        cluster=False,
        slots=range(_SLOTS),
        replica_of=None,
        host="127.0.0.1",
        within=(),
        more=(),
    ):
        self.directory = directory
        self.socket = directory / "redis.sock"
        assert len(os.fsencode(self.socket)) <= _SOCKET_PATH_BYTES, self.socket
        self.port = free_port() if port or cluster or replica_of else 0
        self.password = password
        self.host = host
        self._within = within
        self._cluster = cluster
        self._slots = slots
        self._options = ["--bind", host, "--port", str(self.port), "--save", ""]
        self._options += ["--unixsocket", str(self.socket), "--protected-mode", "no"]
        self._options += ["--appendonly", "yes" if appendonly else "no"]
        self._options += ["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"]
        if password:
            self._options += ["--requirepass", password, "--masterauth", password]
        if cluster:
            self._options += ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"]
        if replica_of is not None:
            self._options += ["--replicaof", replica_of.host, str(replica_of.port)]
        self._options += more
        self._process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()

    @property
    def url(self):
        """For REDIS_URL, by the unix socket; of a cluster by its port."""
        login = f":{self.password}@" if self.password else ""
        if self._cluster:
            return f"redis+cluster://{login}{self.host}:{self.port}"
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
        command = [*self._within, str(server_program()), *self._options]
        self._process = _started(command, self.directory)
        self.wait_for(self._is_ready)

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

    def _is_ready(self, client):
        client.ping()
        if not self._cluster:
            return True
        if self._slots and client.cluster("INFO")["cluster_slots_assigned"] == "0":
            client.execute_command("CLUSTER ADDSLOTS", *self._slots)
        return len(self._slots) < _SLOTS or client.cluster("INFO")["cluster_state"] == "ok"


class Cluster:
    """Three masters, of which *master* has the keys of *hive*, and the *replica* of that.

    *places* are options of the four servers; *url* names one of the others.
    """

    def __init__(self, directory, hive, *, places=({}, {}, {}, {})):
        size = -(-_SLOTS // 3)
        parts = [range(_SLOTS)[size * number : size * (number + 1)] for number in range(3)]
        parts.sort(key=lambda slots: key_slot(hive.encode()) not in slots)
        self.servers = [
            RedisServer(directory / f"{number}", cluster=True, slots=slots, **place)
            for number, (slots, place) in enumerate(zip((*parts, ()), places, strict=True))
        ]
        self.master, other, _, self.replica = self.servers
        self.url = other.url
        self._ends = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as ends:
            for server in self.servers:
                ends.enter_context(server)
                with server.client() as client:
                    client.cluster("MEET", self.master.host, self.master.port)
            for server in self.servers:
                server.wait_for(lambda client: client.cluster("INFO")["cluster_known_nodes"] == "4")
            with self.master.client() as master, self.replica.client() as replica:
                replica.cluster("REPLICATE", master.cluster("MYID"))
            self.replica.wait_for(lambda client: client.info()["master_link_status"] == "up")
            for server in self.servers:
                server.wait_for(lambda client: client.cluster("INFO")["cluster_state"] == "ok")
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *_):
        self._ends.close()


class Sentinel:
    """A sentinel that watches *server* (started with *port*) and its replicas as "hive".

    It takes a server for down after half a second of silence, and a replica's part is to go on, as
    soon as *quorum* sentinels agree. It listens on *host*, as `RedisServer` does.
    """

    def __init__(self, directory, server, *, host="127.0.0.1", within=(), quorum=1):
        self._directory = directory
        self._within = within
        self.host = host
        self.port = free_port()
        self.url = f"redis+sentinel://{host}:{self.port}/hive/0"
        self._config = (
            f"port {self.port}\nbind {host}\nprotected-mode no\n"
            f"sentinel monitor hive {server.host} {server.port} {quorum}\n"
            + f"sentinel auth-pass hive {server.password}\n" * bool(server.password)
            + f"sentinel down-after-milliseconds hive {500 * SLOWNESS:.0f}\n"
            + f"sentinel failover-timeout hive {2000 * SLOWNESS:.0f}\n"
        )
        self._process = None

    def __enter__(self):
        self._directory.mkdir(parents=True, exist_ok=True)
        config = self._directory / "sentinel.conf"
        config.write_text(self._config)
        command = [*self._within, str(server_program()), str(config), "--sentinel"]
        self._process = _started(command, self._directory)
        self._client = redis.Redis(self.host, self.port, decode_responses=True, retry=ONCE)
        self._wait(self._client.ping)
        return self

    def __exit__(self, *_):
        self._client.close()
        self._process.kill()
        self._process.wait()

    def wait_for_replicas(self, count):
        """Until it watches so many, and they are up to date."""
        self._wait(lambda: self._count_of_replicas() == count)

    def wait_for_sentinels(self, count):
        """Until it knows so many others."""
        self._wait(lambda: len(self._client.sentinel_sentinels("hive")) == count)

    def watch(self, server):
        """From now on *server*, as if it had taken the place of the one before."""
        self._client.sentinel_remove("hive")
        self._client.sentinel_monitor("hive", server.host, server.port, 1)

    def wait_for_master(self, server):
        """Until it says that *server* is the one to write to."""
        self._wait(lambda: self._client.sentinel_master("hive")["port"] == server.port)

    def _count_of_replicas(self):
        replicas = self._client.sentinel_slaves("hive")
        return sum(replica["master-link-status"] == "ok" for replica in replicas)

    def _wait(self, is_ready):
        _wait(self._process, self._directory, is_ready)


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
