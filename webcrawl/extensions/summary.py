"""Summary printed at the end of a crawl (crawl/figures/summary.py)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured

from webcrawl.configuration.values import flag
from webcrawl.crawl.engine.user_messages import tell
from webcrawl.crawl.figures.summary import summary

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class Summary:
    """Extension: prints the summary when the engine has stopped."""

    def __init__(self, *, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not flag(crawler.settings, "SUMMARY_ENABLED"):
            raise NotConfigured("SUMMARY_ENABLED is off")
        extension = cls(crawler=crawler)
        crawler.signals.connect(extension.engine_stopped, signal=signals.engine_stopped)
        return extension

    def engine_stopped(self) -> None:
        stats = self._crawler.stats.get_stats()
        if "finish/error" in stats:
            return  # the command says what is wrong, and figures would hide it
        tell(
            summary(
                stats,
                jobdir=str(self._crawler.settings["JOBDIR"]),
                warc_dir=self._crawler.settings["WARC_DIR"]
                or f"{self._crawler.settings['JOBDIR']}/warc",
            ),
            level=logging.INFO,
        )
