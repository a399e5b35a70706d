"""A resolver of its own for a test."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import TYPE_CHECKING

from webcrawl.net.dns.query import NameServers
from webcrawl.net.dns.resolver import Resolver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def asked(
    *servers: tuple[str, int], timeout: float, tries: int = 1, rng: random.Random | None = None
) -> NameServers:
    """Those *servers*, as a resolver asks them."""
    return NameServers(
        servers=lambda: servers, timeout=timeout, tries=tries, rng=rng or random.Random()
    )


@contextlib.asynccontextmanager
async def resolver_on(
    *servers: tuple[str, int], secs: float = 60.0, tries: int = 3, size: int = 10_000, **options
) -> AsyncIterator[Resolver]:
    """A resolver that asks *servers* and waits *secs* for the first answer."""
    rng = options.pop("rng", None)
    resolver = Resolver(
        servers=asked(*servers, timeout=secs, tries=tries, rng=rng), cache_size=size, **options
    )
    try:
        async with asyncio.timeout(30):
            yield resolver
    finally:
        await resolver.close()
