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
from webcrawl.crawl.figures.counts import Counts, format_elapsed, format_short, per_second
from webcrawl.extensions.periodic import while_crawling
from webcrawl.scheduler import process_of
from webcrawl.wording import counted

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from webcrawl.crawl.figures.activity import CrawlActivity
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
        # The counts and the time of the last line, and when the crawl began, by the clock.
        self._last = Counts.of({})
        self._at = 0.0
        self._began = 0.0

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
        self._began = now()
        self._at = self._began

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
        doctor = process.health.doctor
        line = progress_line(
            process.health.activity(),
            None if doctor is None else doctor.diagnosis(),
            counts,
            secs=time - self._began,
            rate=(counts.pages - self._last.pages) / secs,
            visit_rate=(counts.visits - self._last.visits) / secs,
        )
        self._last = counts
        self._at = time

        # Add an estimate of the crawl's end if it fits into the line with its separator.
        projection = "" if doctor is None else doctor.update_projection()
        if projection and len(line) + len(projection) + 2 <= _MAX_CHARS:
            line += f"; {projection}"
        logger.info("%s", line, extra={"spider": self._crawler.spider})


def progress_line(
    state: CrawlActivity,
    diagnosis: Diagnosis | None,
    counts: Counts,
    *,
    secs: float,
    rate: float,
    visit_rate: float,
) -> str:
    """Return the progress line, without the prefix of the log.

    *counts* and *secs* are those of this run. *rate* and *visit_rate* are pages and visits per
    second since the last line. Visits are only mentioned if the crawl makes any. *diagnosis* says
    what limits the crawl, and is None until that is known.
    """
    visited = ""
    limited = f"; {diagnosis.brief}" if diagnosis else ""
    pages = counts.pages
    visits = counts.visits
    if visits or state.due or state.fresh:
        visited = f", {counted(visits, 'visit', format_short(visits))} ({per_second(visit_rate)}/s)"
        visited += f", {counted(state.fresh, 'URL', format_short(state.fresh))} seen within 7 days"
    return (
        f"{format_elapsed(secs)} {counted(pages, 'page', format_short(pages))} "
        f"({per_second(rate)}/s){visited}, {format_short(counts.total_given_up)} given up; "
        f"{format_short(state.waiting)} waiting, {state.in_process:,} in process{limited}"
    )
