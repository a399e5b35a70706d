"""Simulated web, as the servers of a simulated network: simweb in the process of its crawler."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from webcrawl.sim.loop import BEGAN
from webcrawl.sim.network import Route
from webcrawl.simweb import chance
from webcrawl.simweb.nameserver import reply
from webcrawl.simweb.server import protocols
from webcrawl.simweb.server_state import ServerState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any, BinaryIO

    from webcrawl.sim.faults import ProcessFaults
    from webcrawl.simweb import World
    from webcrawl.simweb.host_spec import HostSpec
    from webcrawl.simweb.replies import HostReply

#: The only name server.
DNS: Final = ("192.0.2.53", 53)
# The fastest and the slowest way to a server: seconds one way, bytes a second.
_LATENCY: Final = (0.005, 0.15)
_BANDWIDTH: Final = (100_000, 10_000_000)
_UNANSWERED: Final = frozenset({"refused", "dropped", "mute"})


class SimulatedWeb:
    """The servers of *world*, with *faults*; their requests are written to *log*.

    The targets in *roots*, by names of hosts, have the page of the host's root.
    """

    _time: Callable[[], float]

    def __init__(
        self,
        world: World,
        *,
        log: BinaryIO | None,
        faults: ProcessFaults,
        roots: Collection[tuple[str, str]] = (),
    ) -> None:
        self.world = world
        self._faults = faults
        self._state = state = ServerState(world=world, log=log, clock=lambda: BEGAN + self._time())
        state.find = lambda header: self._as_now(header.partition(":")[0], faults.host)
        at, usual = state.find_at, state.reply_to
        state.find_at = lambda address: faults.host(at(address), self._time())

        def reply_to(host: HostSpec, target: str, **asked: Any) -> HostReply:
            return usual(host, "/" if (host.name, target) in roots else target, **asked)

        state.reply_to = reply_to  # type: ignore[method-assign]  # there are no pages of such names
        if faults.end:  # who throttles by a fault does so from its first request on
            secs = world.throttle_secs
            state.too_soon = lambda _: secs  # type: ignore[method-assign,assignment]  # the seam
        made = protocols(state)
        self._listening = {
            (address, getattr(world, f"{scheme}_port")): made[scheme]
            for scheme, addresses in world.addresses_by_scheme().items()
            for address in addresses
        }

    def begin(self, time: Callable[[], float]) -> None:
        """Told once, before all: the *time* of the simulation, in seconds."""
        self._time = time

    def hang_up(self) -> None:
        """The process that was served is no more: what was being answered is logged."""
        for transport in [*self._state.connections]:
            transport.get_protocol().connection_lost(None)
        for task in [*self._state.tasks]:  # conversations
            task.get_coro().close()

    def route(self, address: str) -> Route:
        """The way to *address*, at this moment."""
        at = chance.draw(self.world.seed, chance.FAULT, int(address.replace(".", "")))
        near, far = _LATENCY
        slow, fast = _BANDWIDTH
        usual = Route(
            latency=near * (far / near) ** chance.unit(at),
            bandwidth=slow * (fast / slow) ** chance.unit(at * 2654435761 % 2**64),
        )
        return self._faults.route(address, usual, self._time())

    def protocol(self, address: str, port: int) -> asyncio.Protocol:
        """A new protocol for a connection to there. Raises the OSError of one that fails, such as
        ConnectionRefusedError; TimeoutError for one that is never made."""
        made = self._listening.get((address, port))
        fault = self._faults.address(address, self._time())
        if made is None or fault == "refused":
            raise ConnectionRefusedError(111, "Connection refused")
        if fault == "mute":
            raise TimeoutError
        if fault == "dropped" or self._faults.is_banned(self._time()):
            return _Dropping()
        return made()

    def answer(self, address: str, port: int, question: bytes) -> bytes | None:
        """The answer to a datagram, None for silence."""
        if (address, port) != DNS or self._faults.address(address, self._time()) in _UNANSWERED:
            return None
        return reply(lambda name: self._as_now(name, self._faults.named), question)

    def _as_now(self, name: str, change: Callable[[HostSpec, float], HostSpec]) -> HostSpec | None:
        """The host called *name* with what *change* makes of it now."""
        host = self.world.find(name)
        return host and change(host, self._time())


class _Dropping(asyncio.Protocol):
    """A connection that is accepted and dropped."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
