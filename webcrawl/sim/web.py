"""Simulated web, as the servers of a simulated network: simweb in the process of its crawler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.sim.loop import BEGAN
from webcrawl.sim.network import Route
from webcrawl.simweb import chance
from webcrawl.simweb.nameserver import reply
from webcrawl.simweb.server import protocols
from webcrawl.simweb.server_state import ServerState

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection
    from typing import Any, BinaryIO

    from webcrawl.clock import TimeSource
    from webcrawl.simweb import World
    from webcrawl.simweb.host_spec import HostSpec
    from webcrawl.simweb.replies import HostReply

#: The only name server.
DNS = ("192.0.2.53", 53)
# Limits of the routes to servers: seconds one way, and bytes a second.
_LATENCY = (0.005, 0.15)
_BANDWIDTH = (100_000, 10_000_000)


class SimulatedWeb:
    """The servers of *world*; their requests are written to *log*.

    The targets in *roots*, by host name, serve the page of the host's root.
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
        self._state = state = ServerState(world=world, log=log, clock=lambda: BEGAN + self._time())
        usual = state.reply_to

        def reply_to(host: HostSpec, target: str, **asked: Any) -> HostReply:
            return usual(host, "/" if (host.name, target) in roots else target, **asked)

        state.reply_to = reply_to  # type: ignore[method-assign]  # there are no pages of such names
        made = protocols(state)
        self._listening = {
            (address, getattr(world, f"{scheme}_port")): made[scheme]
            for scheme, addresses in world.addresses_by_scheme().items()
            for address in addresses
        }

    def begin(self, time: TimeSource) -> None:
        """Set the clock of the simulation, in seconds. Called once, before everything else."""
        self._time = time

    def route(self, address: str) -> Route:
        """Return the route to *address* at this moment."""
        at = chance.draw(self.world.seed, chance.FAULT, int(address.replace(".", "")))
        near, far = _LATENCY
        slow, fast = _BANDWIDTH
        return Route(
            latency=near * (far / near) ** chance.unit(at),
            bandwidth=slow * (fast / slow) ** chance.unit(at * 2654435761 % 2**64),
        )

    def protocol(self, address: str, port: int) -> asyncio.Protocol:
        """Return a new protocol for a connection to *address* and *port*.

        Raises the OSError of one that fails, such as ConnectionRefusedError, or TimeoutError for
        one that is never established.
        """
        made = self._listening.get((address, port))
        if made is None:
            raise ConnectionRefusedError(111, "Connection refused")
        return made()

    def answer(self, address: str, port: int, question: bytes) -> bytes | None:
        """Return the answer to a datagram, None for silence."""
        return reply(self.world.find, question) if (address, port) == DNS else None
