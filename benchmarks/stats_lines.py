"""An extension that keeps the numeric stats of a crawl over time, for benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from scrapy import signals

from webcrawl.clock import wall_time
from webcrawl.extensions.periodic import while_crawling

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

#: The file in JOBDIR: lines of JSON, each with the time ``at`` in epoch seconds.
NAME = "stats_lines.jsonl"
EXTENSION = "benchmarks.stats_lines.StatsLines"


class StatsLines:
    """Adds a line every STATS_FILE_INTERVAL_SECS, and one at the end."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> StatsLines:
        lines = cls(crawler)
        while_crawling(
            crawler, lines.add, every=crawler.settings.getfloat("STATS_FILE_INTERVAL_SECS")
        )
        crawler.signals.connect(lines.add, signal=signals.spider_closed)
        return lines

    def add(self) -> None:
        stats = self._crawler.stats.get_stats()
        numbers = {name: value for name, value in stats.items() if type(value) in (int, float)}
        with (Path(self._crawler.settings["JOBDIR"]) / NAME).open("ab") as file:
            file.write(msgspec.json.encode({"at": wall_time(), **numbers}) + b"\n")
