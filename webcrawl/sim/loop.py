"""Event loop in virtual time: waiting for a timer takes no real time.

It is the selector loop of asyncio with a selector that never waits. When nothing is ready to be
read or written, the loop's time jumps to its next timer. uvloop has no selector and cannot do that.
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
    """Event loop of a simulated process; *network* opens all of its connections.

    Its time begins at *began*, in seconds since the simulated boot. In each turn of the loop,
    ``on_turn`` is called with the number of earlier turns.
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
        """Connect to *host* and *port* over the simulated network."""
        if host is None or port is None:
            return await super().create_connection(protocol_factory, **options)
        sock = await self._network.connect(host, port)
        transport, protocol = await super().create_connection(protocol_factory, sock=sock)
        # The socket is one end of a socket pair, which has no peer address.
        transport._extra["peername"] = (host, port)  # type: ignore[attr-defined]
        return transport, protocol

    async def create_server(  # type: ignore[override]  # the arguments of asyncio.start_server
        self, protocol_factory: Callable[[], Any], host: str, port: int
    ) -> Listening:
        """Listen on *host* in the simulated network, on a port that the network chooses."""
        assert port == 0
        return self._network.listen(host, protocol_factory)

    def pass_time(self, secs: float) -> None:
        """Advance the time by *secs*, because nothing is ready before then."""
        self._time = math.ceil((self._time + secs) * _STEPS) / _STEPS

    def begin_turn(self) -> None:
        """Begin the next turn of the loop.

        It takes one step of time, so that code that polls for a short time does not hang.
        """
        self.on_turn(self.turns)
        self.turns += 1
        self._time += 1 / _STEPS


class _Selector(selectors.DefaultSelector):
    """Selector that advances the loop's time instead of waiting."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready now. If nothing is, advance the time by *timeout*."""
        self._loop.begin_turn()
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:  # only a signal can end this wait
            return super().select(_SIGNAL_POLL_SECS)
        self._loop.pass_time(timeout)
        return ready
