"""Permits for bodies of more than 1 MiB, which only a few requests may have at a time.

A page may have 5 MiB, a sitemap 50: with 200 workers that could take 10 GB. So a body that grows
beyond ``FREE_BYTES``, on the wire or decoded, waits for its permit. The permit is in the request's
meta as ``large_body``. The download handlers and the decoding middleware acquire it, and its
creator gives it back when the body is no longer needed.

Invariant: at most *at_once* permits are held at any time. Small bodies need none.
"""

from __future__ import annotations

import asyncio

from scrapy import Request

#: The key in ``request.meta``.
LARGE_BODY = "large_body"
#: A body of at most this size needs no permit.
FREE_BYTES = 1 << 20


class LargeBodies:
    """All permits for large bodies, of which at most *at_once* are held at a time.

    *max_bytes* is the limit of a large body. *patience* is how many seconds a request waits for its
    permit; after that its body is limited to ``FREE_BYTES``.
    """

    def __init__(self, *, max_bytes: int, at_once: int, patience: float) -> None:
        self.max_bytes = max_bytes
        self.patience = patience
        self.free = asyncio.Semaphore(at_once)

    def permit(self) -> Permit:
        """Return a new permit, not held yet."""
        return Permit(self)


class Permit:
    """The permit for the large body of one request."""

    __slots__ = ("_bodies", "_held", "_over")

    def __init__(self, bodies: LargeBodies) -> None:
        self._bodies = bodies
        self._held = False
        self._over = False  # whether it was given back, which is final

    @property
    def max_bytes(self) -> int:
        """The limit of a body with this permit."""
        return self._bodies.max_bytes

    async def acquire(self) -> bool:
        """Wait for the permit; return False if it is not available in time or no longer needed."""
        # In variables of their own, as the attributes may change during the wait.
        is_held = self._held
        is_over = self._over
        if is_held or is_over:
            return is_held

        try:
            async with asyncio.timeout(self._bodies.patience):
                await self._bodies.free.acquire()
        except TimeoutError:
            return False

        self._held = True
        if self._over:  # it was given back during the wait
            self.give_back()
        return self._held

    def give_back(self) -> None:
        """Give the permit back, as the body is no longer needed. Can be called several times."""
        self._over = True
        if self._held:
            self._held = False
            self._bodies.free.release()


def limit_without_permit(request: Request, max_bytes: int) -> int:
    """Return how many bytes of the body of *request* may be received without a permit.

    *max_bytes* is the general limit of bodies.
    """
    limit: int = request.meta.get("download_maxsize") or max_bytes
    return min(limit, FREE_BYTES) if LARGE_BODY in request.meta else limit


async def limit_with_permit(request: Request, limit: int) -> int:
    """Return the new limit for the body of *request*, which has reached *limit*.

    The new limit is higher if the permit is available in time. The server waits until then.
    """
    permit: Permit | None = request.meta.get(LARGE_BODY)
    if permit is not None and permit.max_bytes > limit and await permit.acquire():
        return permit.max_bytes
    return limit
