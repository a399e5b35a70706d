"""The simulated network: connections that end while something is on its way."""

import asyncio
from types import SimpleNamespace

from webcrawl.sim.loop import VirtualLoop
from webcrawl.sim.network import Network, Route


class Talker(asyncio.Protocol):
    def connection_made(self, transport):
        for _ in range(20):
            transport.write(b"a line\n")


def test_a_server_that_talks_to_a_client_that_is_gone_warns_nobody(caplog):
    servers = SimpleNamespace(
        begin=lambda _: None,
        route=lambda _: Route(latency=1.0),
        protocol=lambda *_: Talker(),
    )

    async def come_and_go():
        transport, _ = await loop.create_connection(asyncio.Protocol, "192.0.2.7", 80)
        transport.close()
        await asyncio.sleep(10)

    loop = VirtualLoop(Network(servers))
    try:
        loop.run_until_complete(come_and_go())
    finally:
        loop.close()
    assert caplog.messages == []
