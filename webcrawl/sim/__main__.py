"""Simulated process of a rehearsal, started as ``python -m webcrawl.sim ORDERS``.

*ORDERS* is a file with an encoded ``Orders``. A Scrapy command runs in virtual time until it ends,
or until it has made the requested number of contacts.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from scrapy.cmdline import execute
from scrapy.utils.project import get_project_settings

from webcrawl.clock import now
from webcrawl.configuration.decoding import json_decoder
from webcrawl.crawl.figures.counts import format_elapsed
from webcrawl.sim.loop import BEGAN
from webcrawl.sim.process import SETTINGS, simulate
from webcrawl.sim.web import SimulatedWeb
from webcrawl.simweb import preset

# Higher than the priority of the command line's settings.
_PRIORITY = 50
# Share of hosts that speak FTP, and of those that speak Gopher.
_OTHER_PROTOCOLS = 0.01
# Number of progress lines on a terminal.
_PARTS = 20


class Orders(msgspec.Struct, frozen=True):
    """Instructions for a rehearsal: run *command* with *settings* that nothing overrides.

    The crawl sees the simulated web generated from *seed*. Its *hosts* include those of *urls*, and
    each of these URLs is a page. The crawl is stopped after a number of *contacts*, which are
    logged in *access_log*.
    """

    seed: int
    contacts: int
    hosts: int
    urls: list[str]
    settings: dict[str, Any]
    command: list[str]
    access_log: Path


class _AccessLog(io.RawIOBase):
    """Access log that prints the progress, and stops the crawl after *total* lines."""

    def __init__(self, path: Path, total: int) -> None:
        self._file = path.open("wb", buffering=0)
        self._done = 0
        self._total = total

    def write(self, line: Any) -> int:
        """Write a line of the log; print the progress, or stop the crawl after the last line."""
        self._done += 1
        if sys.stderr.isatty() and self._done * _PARTS % self._total < _PARTS:
            took = format_elapsed(now() - BEGAN)
            done = f"{self._done:,} of {self._total:,} requests in {took} of simulated time\n"
            sys.stderr.write(done)
        if self._done == self._total:
            os.kill(os.getpid(), signal.SIGINT)  # as if a user pressed Ctrl-C
        return self._file.write(line)


def main(orders: Orders) -> None:
    """Run the rehearsal that *orders* describe, then exit."""
    seed_urls = [urlsplit(url) for url in orders.urls]
    world = preset(
        "mercator",
        seed=orders.seed,
        hosts=orders.hosts,
        names=tuple(dict.fromkeys(url.hostname or "" for url in seed_urls)),
        network=44,
        http_port=80,
        https_port=443,
        ftp_port=21,
        gopher_port=70,
        ftp=_OTHER_PROTOCOLS,
        gopher=_OTHER_PROTOCOLS,
    )
    root_targets = (url._replace(scheme="", netloc="", fragment="").geturl() for url in seed_urls)
    web = SimulatedWeb(
        world,
        log=_AccessLog(orders.access_log, orders.contacts),  # type: ignore[arg-type]
        roots={
            (url.hostname or "", target)
            for url, target in zip(seed_urls, root_targets, strict=True)
        },
    )
    simulate(orders.seed, web)
    settings = get_project_settings()
    for name, value in {**SETTINGS, **orders.settings}.items():
        settings.set(name, value, priority=_PRIORITY)
    execute(["scrapy", *orders.command], settings=settings)


if __name__ == "__main__":
    decode = json_decoder(Orders, dec_hook=lambda kind, value: kind(value))
    main(decode(Path(sys.argv[1]).read_bytes()))
