"""The scheduler over four shards: ``SCHEDULER`` of crawls that are begun with this directory in
PYTHONPATH."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from webcrawl.crawl.agent import AgentHooks
from webcrawl.crawl.builder import AgentBuilder, keeps_open
from webcrawl.scheduler import MercatorScheduler

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

NAMES: Final = ("00", "01", "02", "03")


class FourShardScheduler(MercatorScheduler):
    """One process, one resolver, one pool of connections."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        hooks = AgentHooks(may_end=lambda: not keeps_open(crawler))
        return cls(AgentBuilder(crawler, number=len(NAMES), held=range(len(NAMES))).agent(hooks))
