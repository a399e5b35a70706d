"""The scheduler over four shards that leave the process and come back: ``SCHEDULER`` of crawls
that are begun with this directory in PYTHONPATH.

A shard is handed over (its leases end, a checkpoint is made), or lost at any moment, as after
``kill -9``. While it is away, what belongs to it waits in memory. In between no host may be
contacted for a while.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, Final, Self, cast

from scrapy import Request

from webcrawl.crawl.agent import AgentHooks
from webcrawl.crawl.builder import AgentBuilder
from webcrawl.scheduler import MercatorScheduler
from webcrawl.urls import Link

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler

    from webcrawl.crawl.agent import Agent
    from webcrawl.crawl.links.link_intake import LinkBatch
    from webcrawl.crawl.shard.shard import Shard
    from webcrawl.crawl.shard.shards import Shards
    from webcrawl.frontier import Entry

NUMBER: Final = 4
MOVES: Final = 12


class Post:
    """``RemoteShards``: what is for shards that are away. The first link of each page that leads to
    one is asked for by an ordinary Request."""

    is_full = False
    agent: Agent

    def __init__(self, shards: Shards) -> None:
        self.shards = shards
        self.batches: list[tuple[int, LinkBatch]] = []
        self.entries: list[tuple[Entry, int | None]] = []
        self.knows_all_seeds = False

    def submit(self, batch: LinkBatch) -> None:
        for number, part in batch.split(self.shards.number_of):
            shard = self.shards.held(number)
            if shard is None:
                if part.seeds is None and part.links[0].kind == Link("").kind:
                    self.agent.enqueue(Request(part.links[0].url, callback=self.agent.spider.parse))
                    part = part.only(range(1, len(part.links)))  # noqa: PLW2901  # the others
                self.batches.append((number, part))
            else:
                shard.submit(part)

    def enqueue(self, entry: Entry, name: int | None) -> None:
        self.agent.stats.inc_value("moves/requests")
        self.entries.append((entry, name))

    def seeds_are_read(self) -> None:
        self.knows_all_seeds = True
        for shard in self.shards:
            shard.seeds_are_known()

    def deliver(self, shard: Shard) -> None:
        """*shard* is back."""
        for number, batch in self.batches:
            if number == shard.number:
                shard.submit(batch)
        self.batches = [one for one in self.batches if one[0] != shard.number]
        entries, self.entries = self.entries, []
        for entry, name in entries:
            if self.shards.find(entry.url) is None:
                self.entries.append((entry, name))
            else:
                self.shards.of(entry.url).enqueue(entry, name)
        if self.knows_all_seeds:
            shard.seeds_are_known()


class MovingShardsScheduler(MercatorScheduler):
    """One process; shards leave it and come back, MOVES times."""

    def __init__(self, agent: Agent, builder: AgentBuilder, post: Post) -> None:
        super().__init__(agent)
        self._builder = builder
        self._post = post
        post.agent = agent
        self.moves = 0
        self.may_contact = True

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        builder = AgentBuilder(crawler, number=NUMBER, held=(), remote=Post)
        hooks = AgentHooks(
            may_contact=lambda: scheduler.may_contact,
            may_end=lambda: scheduler.moves == MOVES,
            published=lambda: scheduler.published(),  # noqa: PLW0108  # it is made later
        )
        scheduler = cls(builder.agent(hooks), builder, cast("Post", builder.shards.remote))
        return scheduler

    def open(self, spider: Spider) -> None:
        super().open(spider)
        for number in range(NUMBER):
            self._adopt(number)
        self._task = asyncio.ensure_future(self._move())

    def _adopt(self, number: int) -> None:
        shard = self._builder.shard(number)
        self.agent.lifecycle.adopt(shard)
        self._post.deliver(shard)

    async def published(self) -> None:
        self.agent.stats.inc_value("moves/published")

    async def _move(self) -> None:
        """In three ways in turn."""
        try:
            rng = random.Random(3)
            for way in range(MOVES):
                await asyncio.sleep(0.1)
                self.may_contact = False
                await asyncio.sleep(0.05)
                self.may_contact = True
                number = rng.randrange(NUMBER)
                await self._send_away(self.agent.shards.held(number), way % 3)
                await asyncio.sleep(0.15)
                await self.agent.lifecycle.until_gone(number)
                self._adopt(number)
                self.moves += 1
        except Exception as error:  # noqa: BLE001  # or the crawl would not end
            self.agent.stop.fail(error)

    async def _send_away(self, shard: Any, way: int) -> None:
        agent = self.agent
        if way == 0:
            agent.lifecycle.abandon(shard)
            return
        shard.is_leaving = True
        while not shard.is_idle:  # noqa: ASYNC110  # as a drone does
            await asyncio.sleep(0.01)
        assert await agent.checkpoint()
        agent.lifecycle.abandon(shard)
        if way == 2:
            agent.start_checkpoint()
