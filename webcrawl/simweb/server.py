"""Servers of the simulated web: HTTP, HTTPS, FTP, Gopher and DNS, on loopback only.

Use ``serve`` inside an event loop, or ``webcrawl.simweb.process`` from other processes. Invariant:
every socket is bound to one address of 127.0.0.0/8.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import functools
import os
import resource
import socket
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import trustme

from webcrawl.simweb.connection import HttpConnection
from webcrawl.simweb.ftp_server import talk_ftp
from webcrawl.simweb.gopher_server import talk_gopher
from webcrawl.simweb.nameserver import DNS_ADDRESS, start_name_server
from webcrawl.simweb.server_state import ServerState, Verify
from webcrawl.simweb.talks import talk_protocol
from webcrawl.simweb.text_stock import stock
from webcrawl.simweb.world import ZONE, SimWebError, World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


_FLUSH_SECS = 0.1
_BACKLOG = 1024
_PORT_TRIES = 50


class Served(NamedTuple):
    """A World that is being served, with its actual ports."""

    world: World
    dns: str  # the name server as address:port
    ca_path: Path | None  # the certificate of the certificate authority, if HTTPS is served


@contextlib.asynccontextmanager
async def serve(
    world: World,
    *,
    log_path: Path | None,
    dns_port: int = 0,
    dns_latency: float = 0.0,
    pool_bytes: int = 0,
    verify: Verify | None = None,
) -> AsyncIterator[Served]:
    """Serve *world* until the context ends, then abort all connections and complete the log.

    If *log_path* is None, there is no access log; an existing log is appended to. A port of 0 (in
    the world, or *dns_port*) means any free port. *dns_latency* is the delay of DNS answers in
    seconds. Up to *pool_bytes* of bodies are kept for later requests. With *verify*, https hosts
    answer 401 to requests for whose fields it returns false. If a port is in use, closes
    everything and raises SimWebError.
    """
    async with contextlib.AsyncExitStack() as stack:
        _raise_file_limit()
        loop = asyncio.get_running_loop()
        listening: dict[str, list[socket.socket]] = {}
        ports: dict[str, Any] = {}
        for scheme, addresses in world.addresses_by_scheme().items():
            name = f"{scheme}_port"
            listening[scheme], ports[name] = _listen(stack, addresses, getattr(world, name))
        dns = await start_name_server(world, dns_port, latency=dns_latency)
        # The DNS socket closes in the next turn of the loop.
        stack.push_async_callback(asyncio.sleep, 0)
        stack.callback(dns.close)
        world = dataclasses.replace(world, **ports)

        context = None
        ca_path = None
        if listening["https"]:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="simweb-"))
            authority = trustme.CA(organization_name="webcrawl simulated web")
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            authority.issue_cert(f"*.{ZONE}", ZONE).configure_cert(context)
            ca_path = Path(directory, "ca.pem")
            authority.cert_pem.write_to_path(ca_path)

        log = _open_log(stack, log_path) if log_path else None
        stock(world.seed)  # made now, so that the first request does not wait for it
        shared = ServerState(world=world, log=log, pool_bytes=pool_bytes, verify=verify)
        stack.push_async_callback(shared.abort_all)
        factories = protocols(shared)
        for scheme, sockets in listening.items():
            tls = context if scheme == "https" else None
            for sock in sockets:
                server = await loop.create_server(
                    factories[scheme], sock=sock, ssl=tls, backlog=_BACKLOG
                )
                stack.callback(server.close)
        port = dns.get_extra_info("sockname")[1]
        yield Served(world, f"{DNS_ADDRESS}:{port}", ca_path)


def protocols(shared: ServerState) -> dict[str, Callable[[], asyncio.Protocol]]:
    """Return, for each scheme, a function that makes the protocol of a new connection.

    The connection must be to an address of that scheme.
    """
    return {
        "http": functools.partial(HttpConnection, shared, "http"),
        "https": functools.partial(HttpConnection, shared, "https"),
        "ftp": functools.partial(talk_protocol, shared, talk_ftp),
        "gopher": functools.partial(talk_protocol, shared, talk_gopher),
    }


def _open_log(stack: contextlib.AsyncExitStack, path: Path) -> BinaryIO:
    """Open the access log *path* and flush it regularly, until *stack* is closed."""
    try:
        log = stack.enter_context(path.open("ab", buffering=1 << 16))
    except OSError as error:
        raise SimWebError(f"cannot write the access log {path}: {error.strerror}") from error
    flusher = asyncio.create_task(_flush_regularly(log))
    stack.callback(flusher.cancel)
    return log


def _listen(
    stack: contextlib.AsyncExitStack, addresses: list[str], port: int
) -> tuple[list[socket.socket], int]:
    """Listen on the same port of all *addresses*; return the sockets and the port.

    Port 0 means a port that is free on all addresses. *stack* closes the sockets.
    """
    for _ in range(_PORT_TRIES):
        chosen = port
        with contextlib.ExitStack() as opened_sockets:
            try:
                sockets = []
                for address in addresses:
                    sock = socket.create_server((address, chosen), backlog=_BACKLOG)
                    sockets.append(opened_sockets.enter_context(sock))
                    chosen = sock.getsockname()[1]
            except OSError as error:
                hint = ""
                if error.errno == errno.EADDRINUSE:
                    if port == 0:
                        continue
                    hint = " (is another simweb running? Port 0 takes any free one)"
                raise SimWebError(
                    f"cannot listen on port {chosen} of {address}: {os.strerror(error.errno or 0)}"
                    f"{hint}"
                ) from error
            stack.push(opened_sockets.pop_all())
            return sockets, chosen
    raise SimWebError(f"found no port that is free on all {len(addresses)} addresses")


def _raise_file_limit() -> None:
    """Raise the limit on open files, because the usual 1,024 is too low for the sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 1 << 16 if hard == resource.RLIM_INFINITY else min(hard, 1 << 16)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _flush_regularly(log: BinaryIO) -> None:
    """Flush *log* every _FLUSH_SECS."""
    while True:
        await asyncio.sleep(_FLUSH_SECS)
        log.flush()
