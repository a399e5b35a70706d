"""An extension that keeps the page of metrics as it is when all URLs are finished."""

import asyncio
import urllib.request
from pathlib import Path

from scrapy import signals


class LastScrape:
    """At the end of the crawl another thread asks METRICS_PORT, and writes JOBDIR/metrics.txt."""

    def __init__(self, crawler):
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler):
        scrape = cls(crawler)
        crawler.signals.connect(scrape.end, signal=signals.spider_closed)
        return scrape

    async def end(self):
        await asyncio.to_thread(self._scrape)

    def _scrape(self):
        url = f"http://{self._crawler.stats.get_value('metrics/address')}/metrics"
        accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
        with urllib.request.urlopen(urllib.request.Request(url, headers=accept)) as answer:
            (Path(self._crawler.settings["JOBDIR"]) / "metrics.txt").write_bytes(answer.read())
