"""One crawl of the bench by silkworm-rs: needs an interpreter with silkworm, nothing of ours.

    python benchmarks/silkworm_once.py --seeds FILE --pages N

The ways of its documentation that cost least: uvloop, connections that are kept alive, links by one
CSS selector and ``follow_all``, as many requests at once as stock Scrapy has. No robots.txt, no
retries, certificates not verified; a page is emitted as stock Scrapy's items are: its URL and its
body. It bounds a crawl by its requests, of which each has one page here.

Prints one JSON line as crawl_once.py does: from the start of the engine, so that importing is not
counted, to the end of the last page.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path

from silkworm import HTMLResponse, Response, Spider
from silkworm.http import HttpClient
from silkworm.runner import run_spider_uvloop

# Scrapy's guide for broad crawls begins with as many.
_AT_ONCE = 100


class BroadSpider(Spider):  # type: ignore[misc]  # of a package elsewhere
    """A broad crawl as silkworm's documentation has it: all links are followed."""

    name = "broad"
    handled = 0

    async def parse(self, response: Response) -> None:
        if not isinstance(response, HTMLResponse):
            return
        self.handled += 1
        await self.emit({"url": response.url, "body": response.body})
        anchors = await response.select("a[href]")
        await response.follow_all([anchor.attr("href") for anchor in anchors], callback=self.parse)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=Path, required=True)
    parser.add_argument("--pages", type=int, required=True)
    options = parser.parse_args()
    spider = BroadSpider(start_urls=options.seeds.read_text(encoding="utf-8").split())
    cpu, wall = time.process_time(), time.perf_counter()
    client = HttpClient(
        concurrency=_AT_ONCE,
        emulation=None,
        keep_alive=True,
        tls_verify=False,
        tls_verify_hostname=False,
    )
    run_spider_uvloop(spider, http_client=client, max_requests=options.pages)
    result = {
        "pages": spider.handled,
        "cpu": time.process_time() - cpu,
        "wall": time.perf_counter() - wall,
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
