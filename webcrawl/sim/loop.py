"""Event loop in virtual time: waiting for a timer takes no real time.

It is asyncio's own selector loop with a selector that never waits. When nothing is ready to be read
or written, the loop's time jumps to its next timer. uvloop has no selector and cannot do that.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from webcrawl.sim.network import Listening, Network

#: Epoch seconds at which every simulation begins: the same seed gives the same dates.
BEGAN = 1_800_000_000.0
# Time advances in steps of 1/_STEPS seconds, so that sums with epoch seconds are exact.
_STEPS = 1 << 20
# Real seconds between two checks for a signal when no timer is left.
_SIGNAL_POLL_SECS = 0.1


class VirtualLoop(asyncio.SelectorEventLoop):
    """Loop of one simulated process. *network* opens all of its connections.

    Its time begins at *began*, in seconds since a simulated boot. ``on_turn`` is called in each
    turn of the loop with the number of turns before it.
    """

    def __init__(self, network: Network, *, began: float = 0.0) -> None:
        self._time = began
        self.turns = 0
        self._network = network
        self.on_turn: Callable[[int], object] = lambda _: None
        super().__init__(_Selector(self))
        network.bind(self)

    def time(self) -> float:
        return self._time

    async def create_connection(
        self,
        protocol_factory: Callable[[], Any],
        host: str | None = None,
        port: int | None = None,
        **options: Any,
    ) -> tuple[asyncio.Transport, Any]:
        """Connect over the simulated network, as asyncio's method does."""
        if host is None or port is None:
            return await super().create_connection(protocol_factory, **options)
        sock = await self._network.connect(host, port)
        transport, protocol = await super().create_connection(protocol_factory, sock=sock)
        transport._extra["peername"] = (host, port)  # type: ignore[attr-defined]  # a pair's has none
        return transport, protocol

    async def create_server(  # type: ignore[override]  # no more than asyncio.start_server asks for
        self, protocol_factory: Callable[[], Any], host: str, port: int
    ) -> Listening:
        """Serve on the simulated network, on a port that it chooses."""
        assert port == 0
        return self._network.listen(host, protocol_factory)

    def pass_time(self, secs: float) -> None:
        """Jump *secs* ahead, because nothing is ready before."""
        self._time = math.ceil((self._time + secs) * _STEPS) / _STEPS

    def begin_turn(self) -> None:
        """Begin the next turn.

        It takes one step, so that code polling for a short time does not hang.
        """
        self.on_turn(self.turns)
        self.turns += 1
        self._time += 1 / _STEPS


class _Selector(selectors.DefaultSelector):
    """Selector that lets time jump instead of waiting."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._loop.begin_turn()
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:  # a signal, if anything
            return super().select(_SIGNAL_POLL_SECS)
        self._loop.pass_time(timeout)
        return ready
