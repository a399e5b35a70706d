"""A line on the crawl's progress every ten seconds (Mercator, section 3: the background thread)."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.asyncio import create_looping_call

from webcrawl.scheduler import scheduler_of
from webcrawl.setting_values import number

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)


class Statistics:
    """Logs one INFO line per interval; counts pages by ``response_received``, robots.txt too."""

    def __init__(self, *, crawler: Crawler, every: float) -> None:
        self._crawler = crawler
        self._every = every
        self._loop = create_looping_call(self._log)
        self._pages = 0
        self._at = 0.0

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        every = number(crawler.settings, "STATISTICS_INTERVAL_SECS", at_least=0)
        if not every:
            raise NotConfigured("STATISTICS_INTERVAL_SECS is 0")
        extension = cls(crawler=crawler, every=every)
        crawler.signals.connect(extension.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(extension.spider_closed, signal=signals.spider_closed)
        return extension

    def spider_opened(self) -> None:
        self._at = time.monotonic()
        self._loop.start(self._every, now=False)

    def spider_closed(self) -> None:
        if self._loop.running:
            self._loop.stop()

    def _log(self) -> None:
        scheduler = scheduler_of(self._crawler)
        if scheduler is None:
            return
        now = time.monotonic()
        if now - self._at < self._every / 2:
            return  # the loop was late, and this call is its next one
        pages = self._crawler.stats.get_value("response_received_count", 0)
        rate = (pages - self._pages) / max(now - self._at, 0.001)
        self._pages, self._at = pages, now
        logger.info(
            "%d pages (%.0f/s), %s",
            pages,
            rate,
            scheduler.progress(),
            extra={"spider": self._crawler.spider},
        )
