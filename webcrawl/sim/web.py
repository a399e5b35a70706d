"""Servers of a simulated network: simweb in the same process as the crawler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from webcrawl.sim.loop import BEGAN
from webcrawl.sim.network import Route
from webcrawl.simweb import World, chance
from webcrawl.simweb.nameserver import reply
from webcrawl.simweb.server import protocols
from webcrawl.simweb.server_state import ServerState

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection

    from webcrawl.clock import TimeSource
    from webcrawl.simweb.host_spec import HostSpec
    from webcrawl.simweb.replies import HostReply

#: The only name server.
DNS = ("192.0.2.53", 53)
# Lowest and highest values of the routes to servers: one-way seconds, and bytes per second.
_LATENCY = (0.005, 0.15)
_BANDWIDTH = (100_000, 10_000_000)


class SimulatedWeb:
    """Servers of *world*, which log their requests in *log*.

    *roots* are pairs of a host name and a target; these targets serve the page of the host's root.
    """

    _time: TimeSource

    def __init__(
        self,
        world: World,
        *,
        log: BinaryIO | None,
        roots: Collection[tuple[str, str]] = (),
    ) -> None:
        self.world = world
        state = ServerState(world=world, log=log, clock=lambda: BEGAN + self._time())
        self._state = state
        original = state.reply_to

        def reply_to(host: HostSpec, target: str, **options: Any) -> HostReply:
            return original(host, "/" if (host.name, target) in roots else target, **options)

        state.reply_to = reply_to  # type: ignore[method-assign]
        factories = protocols(state)
        self._listening = {
            (address, getattr(world, f"{scheme}_port")): factories[scheme]
            for scheme, addresses in world.addresses_by_scheme().items()
            for address in addresses
        }

    def begin(self, time: TimeSource) -> None:
        """Set the clock of the simulation, in seconds. Called once, before anything else."""
        self._time = time

    def route(self, address: str) -> Route:
        """Return the current route to *address*."""
        value = chance.draw(self.world.seed, chance.FAULT, int(address.replace(".", "")))
        min_latency, max_latency = _LATENCY
        min_bandwidth, max_bandwidth = _BANDWIDTH
        return Route(
            latency=min_latency * (max_latency / min_latency) ** chance.unit(value),
            bandwidth=min_bandwidth
            * (max_bandwidth / min_bandwidth) ** chance.unit(value * 2654435761 % 2**64),
        )

    def protocol(self, address: str, port: int) -> asyncio.Protocol:
        """Return a new protocol for a connection to *address* and *port*.

        Raises an OSError if connecting fails: ConnectionRefusedError, for example, or TimeoutError
        if the connection is never established.
        """
        factory = self._listening.get((address, port))
        if factory is None:
            raise ConnectionRefusedError(111, "Connection refused")
        return factory()

    def answer(self, address: str, port: int, question: bytes) -> bytes | None:
        """Return the answer to the datagram *question*, or None if there is no answer."""
        return reply(self.world.find, question) if (address, port) == DNS else None
