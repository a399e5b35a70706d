"""``JOBDIR/stats.json``: the final Scrapy stats of the last run, for people and scripts.

Written once more at ``engine_stopped``, the first signal after all handlers of ``spider_closed``
have run: CoreStats sets ``finish_time`` and ``finish_reason`` there, and so do extensions that are
still busy then. The write at ``spider_closed`` is for a crawl that ends before its engine runs.

Only a crawl that was opened writes: one that was refused its job directory must leave the file to
the process that holds it.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec
from scrapy import signals
from scrapy.exceptions import NotConfigured

from webcrawl.storage.atomic import write_atomic

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)


class StatsFile:
    """Extension. The file has the stats of the last run or of this one, never half of them."""

    def __init__(self, *, crawler: Crawler, path: Path) -> None:
        self._crawler = crawler
        self._path = path
        self._failed = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        jobdir = crawler.settings["JOBDIR"]
        if not jobdir:
            raise NotConfigured("stats.json needs a JOBDIR")
        extension = cls(crawler=crawler, path=Path(jobdir) / "stats.json")
        crawler.signals.connect(extension.spider_opened, signal=signals.spider_opened)
        return extension

    def spider_opened(self) -> None:
        self._crawler.signals.connect(self.write, signal=signals.spider_closed)
        self._crawler.signals.connect(self.write, signal=signals.engine_stopped)

    def write(self) -> None:
        """Write the file. Blocks for a few milliseconds. A disk that refuses is logged, once."""
        stats = self._crawler.stats.get_stats()
        data = msgspec.json.encode(stats, enc_hook=str, order="sorted")
        try:
            write_atomic(self._path, msgspec.json.format(data, indent=2) + b"\n")
        except OSError as error:
            if not self._failed:
                logger.error(  # noqa: TRY400  # a traceback says no more than the sentence
                    "The stats were not written to %s: %s",
                    self._path,
                    error.strerror,
                    extra={"spider": self._crawler.spider},
                )
            self._failed = True
