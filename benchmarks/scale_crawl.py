"""One crawl of ``bench_scale.py``, in a process of its own, that tells how it grows.

    PYTHONPATH=. python benchmarks/scale_crawl.py --seeds FILE --dns ADDRESS --jobdir DIR
        --every SECS [--discovered N] [--pages N] [--cpu N] [-s NAME=VALUE ...]

Prints a JSON line every so many seconds and at the end: pages, URLs discovered (new ones that the
eliminator has decided, and those it has yet to decide), hosts, CPU-seconds of the process (user and
system, all threads) since the spider was opened, resident memory in bytes, the longest pause of a
checkpoint in milliseconds. Ends by itself at so many discovered URLs or pages.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from crawl_once import OURS
from scrapy import signals
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.settings import Settings
from scrapy.utils.asyncio import create_looping_call

from webcrawl.scheduler import process_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class Growth:
    """An extension: prints the lines, and ends the crawl."""

    def __init__(self, crawler: Crawler, *, every: float, discovered: int, pages: int) -> None:
        self.crawler = crawler
        self.discovered = discovered
        self.pages = pages
        self.every = every
        self.loop = create_looping_call(self.look)
        crawler.signals.connect(self.opened, signal=signals.spider_opened)
        crawler.signals.connect(self.closed, signal=signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        get = crawler.settings.get
        return cls(
            crawler,
            every=get("SCALE_EVERY"),
            discovered=get("SCALE_DISCOVERED"),
            pages=get("SCALE_PAGES"),
        )

    def opened(self) -> None:
        self.cpu = time.process_time()
        self.loop.start(self.every, now=False)

    def closed(self) -> None:
        self.loop.stop()
        self.tell()

    def look(self) -> None:
        process = process_of(self.crawler)
        assert process is not None
        process.health.publish()
        told = self.tell()
        if told["urls"] >= self.discovered or told["pages"] >= self.pages:
            self.loop.stop()
            self.closing = asyncio.ensure_future(
                self.crawler.engine.close_spider_async(reason="measured")
            )

    def tell(self) -> dict[str, float]:
        get = self.crawler.stats.get_value
        told = {
            "pages": get("item_scraped_count", 0),
            "urls": get("seen/new", 0) + get("seen/waiting", 0),
            "hosts": get("robots/http_200", 0) + get("robots/http_404", 0),
            "cpu": time.process_time() - self.cpu,
            "rss": resident_bytes(),
            "pause_ms": get("checkpoint/pause_ms_max", 0),
        }
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
        return told


def resident_bytes() -> int:
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * resource.getpagesize()


def main() -> None:
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--seeds", required=True)
    add("--dns", required=True)
    add("--jobdir", required=True)
    add("--every", type=float, required=True)
    add("--discovered", type=int, default=1 << 62)
    add("--pages", type=int, default=1 << 62)
    add("--cpu", type=int)
    add("-s", dest="set", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    if options.cpu is not None:
        os.sched_setaffinity(0, {options.cpu})
    settings = Settings()
    settings.setmodule("webcrawl.settings", priority="project")
    settings.setdict(OURS, priority="cmdline")
    settings.setdict(
        {
            "DNS_SERVERS": options.dns,
            "JOBDIR": options.jobdir,
            "SCALE_EVERY": options.every,
            "SCALE_DISCOVERED": options.discovered,
            "SCALE_PAGES": options.pages,
            "EXTENSIONS": {**settings.getdict("EXTENSIONS"), Growth: 2000},
        }
        | dict(setting.split("=", 1) for setting in options.set),
        priority="cmdline",
    )
    process = AsyncCrawlerProcess(settings)
    process.crawl("web", seeds=options.seeds)
    process.start()


if __name__ == "__main__":
    main()
