"""The servers of the simulated web: HTTP, HTTPS, FTP, Gopher and DNS, on loopback only.

Used as an async context manager inside an event loop, or from other processes by
`webcrawl.simweb.process`. Invariant: every socket is bound to one address of 127.0.0.0/8.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import functools
import ipaddress
import resource
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from webcrawl.simweb.accesslog import AccessLog
from webcrawl.simweb.certificates import server_context
from webcrawl.simweb.connection import HttpConnection
from webcrawl.simweb.ftp_server import talk_ftp
from webcrawl.simweb.gopher_server import talk_gopher
from webcrawl.simweb.nameserver import NameServer, bind_udp
from webcrawl.simweb.server_state import ServerState
from webcrawl.simweb.talks import Talks
from webcrawl.simweb.text_stock import stock
from webcrawl.simweb.world import SimWebError

if TYPE_CHECKING:
    import ssl

    from webcrawl.simweb.world import World

DNS_ADDRESS: Final = "127.0.0.1"
_FLUSH_SECS: Final = 0.1
_BACKLOG: Final = 1024
_PORT_TRIES: Final = 50
# The protocols in which no request names its host, by scheme.
_TALKS: Final = {"ftp": talk_ftp, "gopher": talk_gopher}


class SimWeb:
    """A World that is served. `world` and `dns` have the real ports once it is entered.

    *log_path* None means no access log; an existing log is appended to. Ports of 0 (in the world,
    or *dns_port*) mean any free port. *dns_latency* in seconds. *pool_bytes* of bodies are kept for
    later requests.
    """

    def __init__(
        self,
        world: World,
        *,
        log_path: Path | None,
        dns_port: int = 0,
        dns_latency: float = 0.0,
        pool_bytes: int = 0,
    ) -> None:
        self.world = world
        self.ca_path: Path | None = None
        self._log_path = log_path
        self._dns_port = dns_port
        self._dns_latency = dns_latency
        self._pool_bytes = pool_bytes
        self._exits = contextlib.AsyncExitStack()

    @property
    def dns(self) -> str:
        """The name server as address:port."""
        return f"{DNS_ADDRESS}:{self._dns_port}"

    async def __aenter__(self) -> Self:
        """Open all sockets. Raises SimWebError, having closed everything, if one is taken."""
        async with contextlib.AsyncExitStack() as stack:
            await self._open(stack)
            self._exits = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Abort all connections, close all sockets, flush the log."""
        await self._exits.aclose()

    async def _open(self, stack: contextlib.AsyncExitStack) -> None:
        _raise_file_limit()
        loop = asyncio.get_running_loop()
        addresses = self.world.address_list()
        plain, http_port = _listen(stack, addresses, self.world.http_port)
        secure: list[socket.socket] = []
        https_port = self.world.https_port
        context: ssl.SSLContext | None = None
        if self.world.https_share:
            secure, https_port = _listen(stack, addresses, https_port)
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="simweb-"))
            context, self.ca_path = server_context(Path(directory))
        others = {scheme: self.world.hosts_by_address(scheme) for scheme in _TALKS}
        ports = {"ftp": self.world.ftp_port, "gopher": self.world.gopher_port}
        sockets_of: dict[str, list[socket.socket]] = {}
        for scheme, hosts in others.items():
            sockets_of[scheme] = []
            if hosts:
                sockets_of[scheme], ports[scheme] = _listen(stack, list(hosts), ports[scheme])
        dns_socket = bind_udp(DNS_ADDRESS, self._dns_port)
        stack.callback(dns_socket.close)
        self._dns_port = dns_socket.getsockname()[1]
        self.world = dataclasses.replace(
            self.world,
            http_port=http_port,
            https_port=https_port,
            ftp_port=ports["ftp"],
            gopher_port=ports["gopher"],
        )

        log = None
        if self._log_path is not None:
            try:
                log = AccessLog(path=self._log_path)
            except OSError as error:
                raise SimWebError(
                    f"cannot write the access log {self._log_path}: {error.strerror}"
                ) from error
            stack.callback(log.close)
            flusher = asyncio.create_task(_flush_regularly(log))
            stack.push_async_callback(_cancel, flusher)
        stock(self.world.seed)  # made before the first request instead of during it
        shared = ServerState(world=self.world, log=log, pool_bytes=self._pool_bytes)
        stack.push_async_callback(shared.abort_all)

        dns_transport, _ = await loop.create_datagram_endpoint(
            lambda: NameServer(world=self.world, latency=self._dns_latency), sock=dns_socket
        )
        stack.callback(dns_transport.close)
        for sockets, tls in ((plain, None), (secure, context)):
            factory = functools.partial(HttpConnection, shared=shared, secure=tls is not None)
            for sock in sockets:
                server = await loop.create_server(factory, sock=sock, ssl=tls, backlog=_BACKLOG)
                stack.callback(server.close)
        for scheme, talk in _TALKS.items():
            # With the real ports.
            hosts = self.world.hosts_by_address(scheme)
            talks = Talks(shared=shared, hosts=hosts, talk=talk)
            stack.push_async_callback(talks.abort_all)
            for sock in sockets_of[scheme]:
                stack.callback((await talks.listen(sock)).close)


def _listen(
    stack: contextlib.AsyncExitStack, addresses: list[str], port: int
) -> tuple[list[socket.socket], int]:
    """Sockets on the same port of all *addresses*; for port 0 one that is free on all."""
    for _ in range(_PORT_TRIES):
        chosen = port
        sockets: list[socket.socket] = []
        try:
            for address in addresses:
                sockets.append(_bind(address, chosen))
                chosen = sockets[0].getsockname()[1]
        except OSError as error:
            for sock in sockets:
                sock.close()
            if port == 0 and error.errno == errno.EADDRINUSE:
                continue
            hint = ""
            if error.errno == errno.EADDRINUSE:
                hint = " (is another simweb running? Port 0 takes any free one)"
            raise SimWebError(
                f"cannot listen on port {chosen} of {address}: {error.strerror}{hint}"
            ) from error
        for sock in sockets:
            stack.callback(sock.close)
        return sockets, chosen
    raise SimWebError(f"found no port that is free on all {len(addresses)} addresses")


def _bind(address: str, port: int) -> socket.socket:
    if not ipaddress.ip_address(address).is_loopback:
        raise SimWebError(f"{address} is not a loopback address")
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setblocking(False)
        sock.bind((address, port))
        sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _raise_file_limit() -> None:
    """Raise the limit of open files: the usual 1,024 are too few for the sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 1 << 16 if hard == resource.RLIM_INFINITY else min(hard, 1 << 16)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _flush_regularly(log: AccessLog) -> None:
    while True:
        await asyncio.sleep(_FLUSH_SECS)
        log.flush()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
