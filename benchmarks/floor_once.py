"""The floor line of the bench: the crawler's HTTP client in a bare loop, and nothing else.

    PYTHONPATH=. python benchmarks/floor_once.py --urls FILE --names FILE

The connections of webcrawl/net/http/ on uvloop, without Scrapy: the same request headers, as many
requests at once as the crawl has workers. Names come from a table. The body is read to its end and
dropped: not unzipped, not looked at. Prints one JSON line as crawl_once.py does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import time
from pathlib import Path

import uvloop
from scrapy import Request
from scrapy.settings import Settings

from webcrawl.net.dialer import Dialer
from webcrawl.net.guard import AddressGuard
from webcrawl.net.http.connections import HttpConnections
from webcrawl.net.http.request import wire_request
from webcrawl.net.http.tls import TlsContext
from webcrawl.net.limits import FetchLimits


class Table:
    """Names and their addresses."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    async def resolve(self, host: str) -> list[str]:
        return [self._names[host]]


async def fetch_all(urls: list[str], names: dict[str, str], settings: Settings) -> dict[str, float]:
    """Fetch *urls*, and return what was measured."""
    limits = FetchLimits.from_settings(settings)
    tls = TlsContext(settings)
    headers = {name: str(value) for name, value in settings["DEFAULT_REQUEST_HEADERS"].items()}
    headers |= {"User-Agent": settings["USER_AGENT"], "Accept-Encoding": "gzip, deflate"}
    waiting = iter(urls)
    pages = 0
    dialer = Dialer(
        resolver=Table(names),  # type: ignore[arg-type]  # as much as the dialer asks
        guard=AddressGuard(allow_private=True),
        connect_timeout=limits.connect_timeout,
        local_address=None,
    )
    connections = HttpConnections(limits=limits, dialer=dialer, tls=tls)

    async def work() -> None:
        nonlocal pages
        for url in waiting:
            request = wire_request(Request(url, headers=headers, meta={"verbatim_url": True}))
            exchange = await connections.send(request, limits.total_timeout)
            while await exchange.read():
                pass
            pages += exchange.answer.status == 200
            connections.give_back(exchange)

    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(work() for _ in range(settings.getint("CONCURRENT_REQUESTS"))))
    measured = {
        "pages": pages,
        "cpu": time.process_time() - cpu,
        "wall": time.perf_counter() - wall,
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    connections.close()
    return measured


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--urls", type=Path, required=True)
    parser.add_argument("--names", type=Path, required=True, help="JSON: host name to address")
    options = parser.parse_args()
    settings = Settings()
    settings.setmodule("webcrawl.settings", priority="project")
    urls = options.urls.read_text(encoding="utf-8").split()
    names = json.loads(options.names.read_text(encoding="utf-8"))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(fetch_all(urls, names, settings))
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
