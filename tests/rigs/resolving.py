"""A resolver of its own for a test."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from webcrawl.net.dns.resolver import Resolver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@contextlib.asynccontextmanager
async def resolver_on(
    *servers: tuple[str, int], secs: float = 60.0, tries: int = 3, size: int = 10_000, **options
) -> AsyncIterator[Resolver]:
    """A resolver that asks *servers* and waits *secs* for the first answer."""
    resolver = Resolver(
        servers=lambda: servers, timeout=secs, tries=tries, cache_size=size, **options
    )
    try:
        async with asyncio.timeout(30):
            yield resolver
    finally:
        await resolver.close()
