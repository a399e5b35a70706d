"""The resolver against a name server that takes 200 ms for each answer, as far ones do."""

import asyncio
import time

import uvloop
from resolving import asked

from webcrawl.net.dns.resolver import Resolver
from webcrawl.net.dns.servers import server_address
from webcrawl.simweb import Faults, World, start_in_process

NAMES = 2_000
LATENCY = 2.0  # a tenth of what it may take, so that a busy machine does not matter
# What Scrapy's resolver has: each of its threads waits for one answer at a time.
THREADS = 10
BEST_OF_THREADS = THREADS / LATENCY  # look-ups a second, if all else took no time


def test_two_thousand_names_are_resolved_ten_times_as_fast_as_ten_threads_ever_could():
    world = World(hosts=NAMES, http_port=0, https_share=0.0, faults=Faults.none())

    async def resolve():
        resolver = Resolver(
            servers=asked(server_address(web.dns), timeout=30.0, tries=3), cache_size=NAMES
        )
        hosts = [world.host(number) for number in range(NAMES)]
        try:
            began = time.perf_counter()
            found = await asyncio.gather(*(resolver.resolve(host.name) for host in hosts))
            took = time.perf_counter() - began
        finally:
            await resolver.close()
        assert found == [[host.address] for host in hosts]
        assert took >= LATENCY  # or the answers came from somewhere else
        return took

    with start_in_process(world, log_path=None, dns_latency=LATENCY) as web:
        assert NAMES / uvloop.run(resolve()) >= 10 * BEST_OF_THREADS
