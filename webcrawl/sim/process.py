"""Simulated process: this one, from now on, with time, chance and network of a simulation."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, Any

from scrapy.utils.reactor import install_reactor

from webcrawl import clock, randomness
from webcrawl.net.dns import query
from webcrawl.net.http.tls import TlsContext
from webcrawl.sim.executors import replace_threads
from webcrawl.sim.loop import BEGAN, VirtualLoop
from webcrawl.sim.network import Network, Servers, refuse_other_sockets
from webcrawl.spiders import web

if TYPE_CHECKING:
    from collections.abc import Callable

_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
_LOOP = "webcrawl.sim.loop.VirtualLoop"
# The longest piece of work of a thread.
_WORK_SECS = 0.02


def simulate(
    seed: int,
    servers: Servers,
    *,
    began: float = 0.0,
    booted: float = 0.0,
    wall: Callable[[float], float] = lambda _: 0.0,
) -> VirtualLoop:
    """Make this process a simulated one, until it ends: what Scrapy runs in it from now on meets
    *servers*, all that is random follows from *seed*. It begins at *began* seconds of the
    simulation, of a machine that was started at *booted*; *wall* is by how many seconds its clock
    is set wrongly at a second. Its settings have to have ``SETTINGS``."""
    randomness.draw_from(seed)
    network = Network(servers, rng=randomness.generator("network"))
    loop = VirtualLoop(network, began=began)
    asyncio.set_event_loop(loop)
    clock.take_from(
        boot=lambda: loop.time() - booted, wall=lambda: BEGAN + loop.time() + wall(loop.time())
    )
    install_reactor(_REACTOR, _LOOP)
    from twisted.internet import reactor  # noqa: PLC0415  # it has to be installed first

    replace_threads(loop, randomness.generator("threads"), most_secs=_WORK_SECS)
    for owner, name, value in (
        (reactor, "seconds", loop.time),
        (query, "connected_socket", network.datagrams),
        (TlsContext, "over", _in_the_clear),
        (web, "_in_daemon_thread", _at_once),
        (signal, "setitimer", lambda *_: (0.0, 0.0)),  # it would come by the time of the CPU
        (time, "time", clock.wall_time),  # for Scrapy, logging and other people's code
        (time, "time_ns", lambda: int(clock.wall_time() * 1e9)),
        (time, "monotonic", loop.time),
        (time, "perf_counter", loop.time),
    ):
        setattr(owner, name, value)
    refuse_other_sockets()
    return loop


#: Settings of a simulated process.
SETTINGS: dict[str, Any] = {
    "TWISTED_REACTOR": _REACTOR,
    "ASYNCIO_EVENT_LOOP": _LOOP,
    "DNS_SERVERS": "192.0.2.53",
    "CONTROL_ENABLED": False,  # the loop has no sockets of this machine
    "LIVE_DISPLAY": False,  # its seconds are short
}


async def _at_once(call: Callable[[], None]) -> None:
    call()


def _in_the_clear(_: TlsContext, protocol: asyncio.Protocol, host: str) -> Any:  # noqa: ARG001  # as TlsContext.over
    return _Clear(protocol)


class _Clear(asyncio.Protocol):
    """In place of TLS: what is sent is sent as it is."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.set_protocol(self._protocol)
        self._protocol.connection_made(transport)

    async def opened(self) -> None:
        """There is no handshake."""
