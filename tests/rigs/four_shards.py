"""The scheduler over four shards: ``SCHEDULER`` of crawls that are begun with this directory in
PYTHONPATH."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from webcrawl.crawl.builder import AgentBuilder
from webcrawl.scheduler import MercatorScheduler

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

NAMES: Final = ("00", "01", "02", "03")


class FourShardScheduler(MercatorScheduler):
    """One process, one resolver, one pool of connections."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(AgentBuilder(crawler, number=len(NAMES), held=range(len(NAMES))).agent())
