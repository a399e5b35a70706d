"""A resolver of its own for a test."""

import asyncio
import contextlib
import random

from loopback import name_server
from patience import LIMIT_SECS

from webcrawl.net.dns.query import NameServers
from webcrawl.net.dns.resolver import Resolver


def asked(*servers, timeout, tries=1, rng=None):
    """Those *servers*, as a resolver asks them."""
    return NameServers(
        servers=lambda: servers, timeout=timeout, tries=tries, rng=rng or random.Random()
    )


@contextlib.asynccontextmanager
async def resolver_on(*servers, secs=60.0, tries=3, size=10_000, **options):
    """A resolver that asks *servers* and waits *secs* for the first answer."""
    rng = options.pop("rng", None)
    resolver = Resolver(
        servers=asked(*servers, timeout=secs, tries=tries, rng=rng), cache_size=size, **options
    )
    try:
        async with asyncio.timeout(LIMIT_SECS):
            yield resolver
    finally:
        await resolver.close()


@contextlib.asynccontextmanager
async def asking(*answers, **options):
    """A resolver that asks name servers which give these *answers*, and the servers."""
    async with contextlib.AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(name_server(answer)) for answer in answers]
        addresses = (server.address for server in servers)
        resolver = await stack.enter_async_context(resolver_on(*addresses, **options))
        yield resolver, *servers
