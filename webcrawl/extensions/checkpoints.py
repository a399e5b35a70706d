"""Periodic checkpoints of the crawl's state (Mercator, section 3: the background thread).

The last checkpoint, on SIGTERM, SIGINT and at the end, is made by ``scheduler.close()``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.asyncio import create_looping_call

from webcrawl.configuration.values import number
from webcrawl.scheduler import agent_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class Checkpoints:
    """Extension: calls ``start_checkpoint()`` of the agent every *every* seconds."""

    def __init__(self, *, crawler: Crawler, every: float) -> None:
        self._crawler = crawler
        self._loop = create_looping_call(self._checkpoint)
        self._every = every

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        every = number(crawler.settings, "CHECKPOINT_INTERVAL_SECS", at_least=0)
        if not every:
            raise NotConfigured("CHECKPOINT_INTERVAL_SECS is 0")
        extension = cls(crawler=crawler, every=every)
        crawler.signals.connect(extension.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(extension.spider_closed, signal=signals.spider_closed)
        return extension

    def spider_opened(self) -> None:
        self._loop.start(self._every, now=False)

    def spider_closed(self) -> None:
        if self._loop.running:
            self._loop.stop()

    def _checkpoint(self) -> None:
        agent = agent_of(self._crawler)
        if agent is not None:
            agent.start_checkpoint()
