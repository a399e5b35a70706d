"""One crawl of the bench by crawlee for Python: needs an interpreter with crawlee, nothing of ours.

    python benchmarks/crawlee_once.py --seeds FILE --pages N

The ways of its documentation that cost least: ParselCrawler, whose ``enqueue_links`` takes the
links from the page that was parsed already, its default HTTP client, storages in memory, and as
many requests at once as stock Scrapy has. No robots.txt, no retries, certificates not verified.
Every page is pushed to the data set as stock Scrapy's items are: its URL and its body.

Prints one JSON line as crawl_once.py does: from the start of the crawler, so that importing is not
counted, to the end of the last page.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import time
from pathlib import Path

from crawlee import ConcurrencySettings
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.http_clients import ImpitHttpClient
from crawlee.storage_clients import MemoryStorageClient

# Scrapy's guide for broad crawls begins with as many.
_AT_ONCE = 100


async def crawl(seeds: list[str], pages: int) -> dict[str, float]:
    """Crawl from *seeds* until so many *pages* were handled; returns what it measured."""
    crawler = ParselCrawler(
        http_client=ImpitHttpClient(verify=False),
        storage_client=MemoryStorageClient(),
        concurrency_settings=ConcurrencySettings(
            desired_concurrency=_AT_ONCE, max_concurrency=_AT_ONCE
        ),
        max_requests_per_crawl=pages,
        max_request_retries=0,
        configure_logging=False,
    )
    handled = 0

    @crawler.router.default_handler  # type: ignore[untyped-decorator]  # of a package elsewhere
    async def handle(context: ParselCrawlingContext) -> None:
        nonlocal handled
        await context.enqueue_links(strategy="all")
        body = await context.http_response.read()
        await context.push_data({"url": context.request.url, "body": body})
        handled += 1

    cpu, wall = time.process_time(), time.perf_counter()
    await crawler.run(seeds)
    return {
        "pages": handled,
        "cpu": time.process_time() - cpu,
        "wall": time.perf_counter() - wall,
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=Path, required=True)
    parser.add_argument("--pages", type=int, required=True)
    options = parser.parse_args()
    seeds = options.seeds.read_text(encoding="utf-8").split()
    sys.stdout.write(json.dumps(asyncio.run(crawl(seeds, options.pages))) + "\n")


if __name__ == "__main__":
    main()
