"""The pool of idle connections, each waiting for another request to its endpoint.

Invariants: at most *most* wait, one for each scheme, host and port, and none longer than
*keepalive* seconds; none is handed out that was closed, or to which something came meanwhile.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from webcrawl.clock import now

if TYPE_CHECKING:
    import asyncio

    from webcrawl.net.http.exchange import Exchange
    from webcrawl.net.http.request import Endpoint


class IdleConnections:
    """The pool for one scheme."""

    def __init__(self, *, most: int, keepalive: float, loop: asyncio.AbstractEventLoop) -> None:
        self._most = most
        self._keepalive = keepalive
        self._loop = loop
        # With the time since when each waits, the longest first.
        self._waiting: OrderedDict[Endpoint, tuple[Exchange, float]] = OrderedDict()
        self._sweep: asyncio.TimerHandle | None = None

    def take(self, endpoint: Endpoint, address: str) -> Exchange | None:
        """The connection to *endpoint*, if one waits that can be used, and to *address*, if that
        is not empty. One that cannot is closed."""
        exchange, since = self._waiting.pop(endpoint, (None, 0.0))
        if exchange is None:
            return None
        fresh = now() - since < self._keepalive
        if fresh and exchange.is_connected() and (not address or exchange.is_to(address)):
            return exchange
        exchange.abort()
        return None

    def put(self, endpoint: Endpoint, exchange: Exchange) -> bool:
        """Whether *exchange* waits from now on.

        Not when the pool is full: which of them will be used again first is unknown, and all expire
        within seconds.
        """
        if len(self._waiting) >= self._most or endpoint in self._waiting:
            return False
        self._waiting[endpoint] = exchange, now()
        if self._sweep is None:
            self._sweep = self._loop.call_later(self._keepalive, self._close_expired)
        return True

    def close(self) -> None:
        """Close all of them."""
        if self._sweep is not None:
            self._sweep.cancel()
        for exchange, _ in self._waiting.values():
            exchange.abort()
        self._waiting.clear()

    def _close_expired(self) -> None:
        self._sweep = None
        latest = now() - self._keepalive
        while self._waiting:
            endpoint, (exchange, since) = next(iter(self._waiting.items()))
            if since > latest:
                self._sweep = self._loop.call_later(since - latest, self._close_expired)
                return
            del self._waiting[endpoint]
            exchange.abort()
