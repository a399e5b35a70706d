"""Permits for bodies of more than 1 MiB, for a few requests at a time.

A page may have 5 MiB, a sitemap 50: with 200 workers that would be 10 GB. So a body that outgrows
``FREE_BYTES``, on the wire or decoded, waits for its permit. It is in the request's meta as
``large_body``; the download handlers and the decoding middleware acquire it, and its maker gives it
back when the body is not needed any more.

Invariant: no more than *at_once* permits are held at any moment; small bodies need none.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy import Request

#: The key in ``request.meta``.
LARGE_BODY = "large_body"
#: Of a body that needs no permit.
FREE_BYTES = 1 << 20


class LargeBodies:
    """All permits for large bodies.

    *max_bytes* is the bound of a large body, *patience* how many seconds a request waits for its
    permit; after that it gets along with ``FREE_BYTES``.
    """

    def __init__(self, *, max_bytes: int, at_once: int, patience: float) -> None:
        self.max_bytes = max_bytes
        self.patience = patience
        self.free = asyncio.Semaphore(at_once)

    def permit(self) -> Permit:
        """A new permit, not held yet."""
        return Permit(self)


class Permit:
    """Permit for the large body of one request."""

    __slots__ = ("_bodies", "_held", "_over")

    def __init__(self, bodies: LargeBodies) -> None:
        self._bodies = bodies
        self._held = False
        self._over = False

    @property
    def max_bytes(self) -> int:
        """Bound of the body with this permit."""
        return self._bodies.max_bytes

    async def acquire(self) -> bool:
        """Wait for the permit; False if it did not come in time, or is not needed any more."""
        is_held, is_over = self._held, self._over
        if is_held or is_over:
            return is_held
        try:
            async with asyncio.timeout(self._bodies.patience):
                await self._bodies.free.acquire()
        except TimeoutError:
            return False
        self._held = True
        if self._over:  # since it was waited for
            self.give_back()
        return self._held

    def give_back(self) -> None:
        """The body is not needed any more. Calling it again does nothing."""
        self._over = True
        if self._held:
            self._held = False
            self._bodies.free.release()


def free_bytes(request: Request, max_bytes: int) -> int:
    """Bound of *request*'s body without a permit, where *max_bytes* is for all."""
    limit: int = request.meta.get("download_maxsize") or max_bytes
    return min(limit, FREE_BYTES) if LARGE_BODY in request.meta else limit


async def larger_bound(request: Request, limit: int) -> int:
    """Bound of *request*'s body, which has outgrown *limit*: more if its permit comes in time.

    While it is waited for, the server waits, too.
    """
    permit: Permit | None = request.meta.get(LARGE_BODY)
    if permit is not None and permit.max_bytes > limit and await permit.acquire():
        return permit.max_bytes
    return limit
