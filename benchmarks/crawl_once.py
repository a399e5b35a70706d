"""One crawl of the bench by Scrapy, in a process of its own.

    PYTHONPATH=. python benchmarks/crawl_once.py KIND --seeds FILE --names FILE
        --dns ADDRESS --pages N --jobdir DIR [--redis URL] [--set NAME=VALUE]

KIND is ``stock``, ``stock1`` (the same with CONCURRENT_ITEMS = 1), ``redis`` (that with the
scheduler and the dupefilter of scrapy-redis) or ``webcrawl``.

Prints one JSON line: pages, CPU-seconds (user and system, all threads) and wall seconds between
``spider_opened`` and ``engine_stopped``, so that neither pays for importing Python modules.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import TextResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response

# Scrapy 2.19's own guide to broad crawls (docs/topics/broad-crawls.rst); 100 requests at once is
# what the guide begins with, and more made it slower here.
STOCK: dict[str, Any] = {
    "CONCURRENT_REQUESTS": 100,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
    "REACTOR_THREADPOOL_MAXSIZE": 20,
    "LOG_LEVEL": "INFO",
    "COOKIES_ENABLED": False,
    "RETRY_ENABLED": False,
    "REDIRECT_ENABLED": False,
    "DOWNLOAD_TIMEOUT": 15,
    "ROBOTSTXT_OBEY": False,
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
}

# As its README has it.
REDIS: dict[str, Any] = {
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
}

# Everything on, at its default, but the pause between two contacts: the bench measures the
# crawler, and the simulated web has nobody to spare.
OURS: dict[str, Any] = {
    "POLITENESS_DELAY_FACTOR": 0,
    "POLITENESS_MIN_DELAY": 0,
    "ALLOW_PRIVATE_ADDRESSES": True,
    "CHECKPOINT_INTERVAL_SECS": 10,
    "SUMMARY_ENABLED": False,
}


class StockSpider(Spider):
    """A broad crawl as Scrapy's documentation has it: a Request for every link."""

    name = "stock"
    urls: list[str]
    extractor = LinkExtractor()

    async def start(self) -> AsyncIterator[Request]:
        for url in self.urls:
            yield Request(url)

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        assert isinstance(response, TextResponse)
        for link in self.extractor.extract_links(response):
            yield Request(link.url)
        yield {"url": response.url, "body": response.body}


class Meter:
    """Takes the CPU time between the opening and the end of the crawl."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        crawler.signals.connect(self.opened, signal=signals.spider_opened)
        crawler.signals.connect(self.stopped, signal=signals.engine_stopped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def opened(self) -> None:
        self.cpu, self.wall = time.process_time(), time.perf_counter()

    def stopped(self) -> None:
        stats = self.crawler.stats
        pages = stats.get_value("item_scraped_count", 0)
        result = {
            "pages": pages,
            "cpu": time.process_time() - self.cpu,
            "wall": time.perf_counter() - self.wall,
            "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        sys.stdout.write(json.dumps(result) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["stock", "stock1", "redis", "webcrawl"])
    parser.add_argument("--seeds", required=True)
    parser.add_argument("--names", required=True, help="JSON: host name to address")
    parser.add_argument("--dns", required=True)
    parser.add_argument("--pages", type=int, required=True)
    parser.add_argument("--jobdir", required=True)
    parser.add_argument("--redis", help="the server's URL, for that kind")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    settings = Settings()
    spider: type[Spider] | str
    arguments: dict[str, Any]
    if options.kind == "webcrawl":
        settings.setmodule("webcrawl.settings", priority="project")
        settings.setdict(OURS, priority="cmdline")
        settings.set("DNS_SERVERS", options.dns, priority="cmdline")
        settings.set("JOBDIR", options.jobdir, priority="cmdline")
        spider, arguments = "web", {"seeds": options.seeds}
    else:
        settings.setdict(STOCK, priority="cmdline")
        if options.kind != "stock":
            settings.set("CONCURRENT_ITEMS", 1, priority="cmdline")
        if options.kind == "redis":
            settings.setdict({**REDIS, "REDIS_URL": options.redis}, priority="cmdline")
        # The stock resolver cannot be told a name server; it is spared the look-ups instead.
        from scrapy.resolver import dnscache

        dnscache.limit = None
        dnscache.update(json.loads(Path(options.names).read_text(encoding="utf-8")))
        urls = Path(options.seeds).read_text(encoding="utf-8").split()
        spider, arguments = StockSpider, {"urls": urls}
    for name, _, value in (one.partition("=") for one in options.set):
        settings.set(name, value.replace("JOBDIR", options.jobdir), priority="cmdline")
    settings.set("CLOSESPIDER_ITEMCOUNT", options.pages, priority="cmdline")
    settings.set("EXTENSIONS", {**settings.getdict("EXTENSIONS"), Meter: 2000}, priority="cmdline")
    process = AsyncCrawlerProcess(settings)
    process.crawl(spider, **arguments)
    process.start()


if __name__ == "__main__":
    main()
