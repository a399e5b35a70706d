"""A line on the crawl's progress every ten seconds (Mercator, section 3: the background thread)."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.asyncio import create_looping_call

from webcrawl.configuration.values import number
from webcrawl.crawl.counts import Counts
from webcrawl.crawl.progress import Rates, progress_line
from webcrawl.scheduler import scheduler_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

# A short name: the line is read on a terminal.
logger = logging.getLogger("webcrawl")


class Statistics:
    """Logs one INFO line per interval."""

    def __init__(self, *, crawler: Crawler, every: float) -> None:
        self._crawler = crawler
        self._every = every
        self._loop = create_looping_call(self._log)
        self._pages = self._contacts = 0
        self._at = self._began = 0.0

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
        self._at = self._began = time.monotonic()
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
        counts = Counts.of(self._crawler.stats.get_stats())
        contacts = self._crawler.stats.get_value("contacts", 0)
        secs = max(now - self._at, 0.001)
        rates = Rates((counts.pages - self._pages) / secs, (contacts - self._contacts) / secs)
        self._pages, self._contacts, self._at = counts.pages, contacts, now
        line = progress_line(
            scheduler.state(),
            rates,
            secs=now - self._began,
            pages=counts.pages,
            given_up=sum(counts.given_up.values()),
        )
        logger.info("%s", line, extra={"spider": self._crawler.spider})
