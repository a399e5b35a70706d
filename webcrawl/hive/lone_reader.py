"""Lone reader: a crawl of one process that takes live seeds."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from webcrawl.hive.membership.connection import check, close

if TYPE_CHECKING:
    from redis.asyncio import Redis, RedisCluster

    from webcrawl.crawl.agent import Agent
    from webcrawl.hive.bus.live_seeds import LiveSeeds


class LoneReader:
    """Has *seeds* read for *agent*, by *client*: for the scheduler what a drone is in a hive."""

    def __init__(self, *, agent: Agent, client: Redis | RedisCluster, seeds: LiveSeeds) -> None:
        self.agent = agent
        self._client = client
        self._seeds = seeds
        self._reading: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """The agent is open. If no Redis answers the crawl ends with a sentence."""
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        try:
            await check(self._client)
            await self._seeds.run()
        except Exception as error:  # noqa: BLE001  # the crawl would wait for seeds for ever
            self.agent.fail(error)

    async def close(self) -> None:
        """The agent is closed."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await close(self._client)
