"""The scheduler over many shards in one process, for the bench: what they cost beside one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from webcrawl.crawl.builder import AgentBuilder
from webcrawl.scheduler import MercatorScheduler

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class ManyShardsScheduler(MercatorScheduler):
    """Holds all BENCH_SHARDS shards of its crawl."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        number = crawler.settings.getint("BENCH_SHARDS")
        return cls(AgentBuilder(crawler, number=number, held=range(number)).agent())
