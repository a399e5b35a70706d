"""The floor line of the bench: the crawler's HTTP client in a bare loop, and nothing else.

    PYTHONPATH=. python benchmarks/floor_once.py --urls FILE --names FILE

aiohttp on uvloop with the options that webcrawl/net/http/handler.py gives it, the same request
headers, as many requests at once as the crawl has workers. Names come from a table. The body is
read to its end and dropped: not unzipped, not looked at. Prints one JSON line as crawl_once.py
does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import socket
import sys
import time
from pathlib import Path

import aiohttp
import uvloop
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult
from scrapy.settings import Settings
from scrapy.utils.ssl import _make_ssl_context

from webcrawl.net.limits import FetchLimits


class Table(AbstractResolver):
    """Names and their addresses."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        found = {"hostname": host, "host": self._names[host], "port": port, "flags": flags}
        return [ResolveResult(**found, family=family or socket.AF_INET, proto=0)]

    async def close(self) -> None:
        """Do nothing."""


async def fetch_all(urls: list[str], names: dict[str, str], settings: Settings) -> dict[str, float]:
    """Fetch *urls*, and return what was measured."""
    limits = FetchLimits.from_settings(settings)
    context = _make_ssl_context(settings)
    context.set_alpn_protocols(["http/1.1"])
    headers = [(name, str(value)) for name, value in settings["DEFAULT_REQUEST_HEADERS"].items()]
    headers += [("User-Agent", settings["USER_AGENT"]), ("Accept-Encoding", "gzip, deflate")]
    timeout = aiohttp.ClientTimeout(total=limits.total_timeout, sock_connect=limits.connect_timeout)
    waiting = iter(urls)
    pages = 0
    connector = aiohttp.TCPConnector(
        resolver=Table(names),
        keepalive_timeout=limits.keepalive,
        use_dns_cache=False,
        happy_eyeballs_delay=None,
        limit=0,
    )
    async with aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        read_bufsize=256 * 1024,
        timeout=timeout,
    ) as session:

        async def work() -> None:
            nonlocal pages
            for url in waiting:
                target = yarl.URL(url, encoded=True)
                async with session.get(
                    target, headers=headers, ssl=context, allow_redirects=False
                ) as answer:
                    await answer.read()
                    pages += answer.status == 200

        cpu, wall = time.process_time(), time.perf_counter()
        await asyncio.gather(*(work() for _ in range(settings.getint("CONCURRENT_REQUESTS"))))
        return {
            "pages": pages,
            "cpu": time.process_time() - cpu,
            "wall": time.perf_counter() - wall,
            "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


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
