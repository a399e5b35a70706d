"""Progress line: logs a line about the crawl every ten seconds (Mercator's background thread).

The line ends with the cause that limits the crawl and, if there is room on a terminal, the crawl's
projected end (doctor/). Large numbers are rounded. Lines are never cut, because they may go to a
file or a program.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured

from webcrawl.clock import now
from webcrawl.configuration.values import number
from webcrawl.crawl.figures.counts import Counts, elapsed, per_second, short
from webcrawl.extensions.periodic import while_crawling
from webcrawl.scheduler import process_of
from webcrawl.wording import counted

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from webcrawl.doctor.activity import CrawlActivity
    from webcrawl.doctor.diagnosis import Diagnosis

# A short name, because people read the line on a terminal.
logger = logging.getLogger("webcrawl")

# Maximum length of a line with a projection, without the prefix of the log.
_MAX_CHARS = 120


class Statistics:
    """Extension that logs a progress line, at level INFO, every *every* seconds."""

    def __init__(self, *, crawler: Crawler, every: float) -> None:
        self._crawler = crawler
        self._every = every
        self._last = Counts.of({})
        self._at = self._began = 0.0

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        every = number(crawler.settings, "STATISTICS_INTERVAL_SECS", at_least=0)
        if not every:
            raise NotConfigured("STATISTICS_INTERVAL_SECS is 0")
        extension = cls(crawler=crawler, every=every)
        crawler.signals.connect(extension.spider_opened, signal=signals.spider_opened)
        while_crawling(crawler, extension._log, every=every)
        return extension

    def spider_opened(self) -> None:
        self._at = self._began = now()

    def _log(self) -> None:
        """Log the progress line."""
        process = process_of(self._crawler)
        if process is None:
            return

        time = now()
        if time - self._at < self._every / 2:
            return  # the last call was late, so this one comes too soon after it

        counts = Counts.of(self._crawler.stats.get_stats())
        secs = max(time - self._at, 0.001)
        line = progress_line(
            process.health.activity(),
            process.health.diagnosis(),
            counts,
            secs=time - self._began,
            rate=(counts.pages - self._last.pages) / secs,
            visit_rate=(counts.visits - self._last.visits) / secs,
        )
        self._last, self._at = counts, time

        projection = process.health.update_projection()
        if projection and len(line) + len(projection) + 2 <= _MAX_CHARS:
            line += f"; {projection}"
        logger.info("%s", line, extra={"spider": self._crawler.spider})


def progress_line(
    state: CrawlActivity,
    diagnosis: Diagnosis,
    counts: Counts,
    *,
    secs: float,
    rate: float,
    visit_rate: float,
) -> str:
    """Return the progress line, without the prefix of the log.

    *counts* and *secs* are those of this run. *rate* and *visit_rate* are pages and visits per
    second since the last line.
    """
    visited, pages, visits = "", counts.pages, counts.visits
    if visits or state.due or state.fresh:
        visited = f", {counted(visits, 'visit', short(visits))} ({per_second(visit_rate)}/s)"
        visited += f", {counted(state.fresh, 'URL', short(state.fresh))} seen within 7 days"
    return (
        f"{elapsed(secs)} {counted(pages, 'page', short(pages))} "
        f"({per_second(rate)}/s){visited}, {short(counts.total_given_up)} given up; "
        f"{short(state.waiting)} waiting, {state.in_process:,} in process; {diagnosis.brief}"
    )
