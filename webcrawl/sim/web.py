"""Simulated web, as the servers of a simulated network: simweb in the process of its crawler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from webcrawl.sim.network import Route
from webcrawl.simweb import chance
from webcrawl.simweb.nameserver import reply
from webcrawl.simweb.server import protocols
from webcrawl.simweb.server_state import ServerState

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from typing import BinaryIO

    from webcrawl.simweb import World

#: The only name server.
DNS: Final = ("192.0.2.53", 53)
# The fastest and the slowest way to a server: seconds one way, bytes a second.
_LATENCY: Final = (0.005, 0.15)
_BANDWIDTH: Final = (100_000, 10_000_000)


class SimulatedWeb:
    """The servers of *world*, whose requests are written to *log*, by *clock*."""

    def __init__(
        self, world: World, *, log: BinaryIO | None, clock: Callable[[], float], loss: float = 0.0
    ) -> None:
        self.world = world
        self.state = ServerState(world=world, log=log, clock=clock)
        self._loss = loss
        made = protocols(self.state)
        web = world.address_list()
        by_scheme = {
            "http": web,
            "https": web if world.https_share else [],
            "ftp": world.hosts_by_address("ftp"),
            "gopher": world.hosts_by_address("gopher"),
        }
        self._listening = {
            (address, getattr(world, f"{scheme}_port")): made[scheme]
            for scheme, addresses in by_scheme.items()
            for address in addresses
        }

    def route(self, address: str) -> Route:
        at = chance.draw(self.world.seed, chance.FAULT, int(address.replace(".", "")))
        near, far = _LATENCY
        slow, fast = _BANDWIDTH
        return Route(
            latency=near * (far / near) ** chance.unit(at),
            bandwidth=slow * (fast / slow) ** chance.unit(at * 2654435761 % 2**64),
            loss=self._loss,
        )

    def protocol(self, address: str, port: int) -> asyncio.Protocol:
        made = self._listening.get((address, port))
        if made is None:
            raise ConnectionRefusedError(111, "Connection refused")
        return made()

    def answer(self, address: str, port: int, question: bytes) -> bytes | None:
        if (address, port) != DNS:
            return None
        return reply(self.world, question)
