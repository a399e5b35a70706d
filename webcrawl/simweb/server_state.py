"""Server state: what all connections of one server share."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from email.utils import formatdate
from typing import TYPE_CHECKING, Final

from webcrawl.simweb.accesslog import AccessLog, epoch_clock
from webcrawl.simweb.replies import ReplyPool

if TYPE_CHECKING:
    from webcrawl.simweb.host_spec import HostSpec
    from webcrawl.simweb.world import World

_KNOWN_NAMES: Final = 16_384
_THROTTLE_TABLE: Final = 65_536


class ServerState:
    """The shared state of one server, made inside its event loop. All of its tables are bounded."""

    def __init__(self, *, world: World, log: AccessLog | None, pool_bytes: int = 0) -> None:
        self.world = world
        self.pool = ReplyPool(world, max_bytes=pool_bytes)
        self.log = log
        self.clock = epoch_clock()
        self.connections: set[asyncio.Transport] = set()
        self.idle = asyncio.Event()  # set while there are no connections
        self.idle.set()
        self._names: dict[str, HostSpec | None] = {}
        self._answered_at: OrderedDict[int, float] = OrderedDict()
        self._date = (0, b"")

    def opened(self, transport: asyncio.Transport) -> None:
        """Note a new connection."""
        self.connections.add(transport)
        self.idle.clear()

    def closed(self, transport: asyncio.Transport) -> None:
        """Note the end of a connection."""
        self.connections.discard(transport)
        if not self.connections:
            self.idle.set()

    async def abort_all(self) -> None:
        """End all connections, and wait until they have ended and are logged."""
        for transport in list(self.connections):
            transport.abort()
        await self.idle.wait()

    def find(self, header: str) -> HostSpec | None:
        """The host that a Host header names."""
        try:
            return self._names[header]
        except KeyError:
            pass
        if len(self._names) >= _KNOWN_NAMES:
            self._names.clear()
        found = self._names[header] = self.world.find(header.partition(":")[0])
        return found

    def too_soon(self, host: HostSpec) -> float:
        """Seconds until a throttling host accepts a request; 0 if it does now."""
        now = time.monotonic()
        left = self._answered_at.get(host.index, -1e9) + self.world.throttle_secs - now
        if left > 0:
            return left
        self._answered_at[host.index] = now
        self._answered_at.move_to_end(host.index)
        if len(self._answered_at) > _THROTTLE_TABLE:
            self._answered_at.popitem(last=False)
        return 0.0

    def date(self) -> bytes:
        """The Date and Server header lines."""
        now = int(time.time())
        if self._date[0] != now:
            text = f"Server: simweb\r\nDate: {formatdate(now, usegmt=True)}\r\n"
            self._date = (now, text.encode())
        return self._date[1]
