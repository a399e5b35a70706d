"""Deletion of old log files of the job, after KEEP_DAYS.

A full file is deleted when all of its lines are older, but the last full one of each log stays.
Stored pages and datasets are not affected: OUTPUT_STORE deletes them once it has moved them.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Self

from scrapy.exceptions import NotConfigured

from webcrawl.clock import wall_time
from webcrawl.configuration.values import flag, number
from webcrawl.extensions.periodic import while_crawling
from webcrawl.storage.line_log import remove_before

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

_DAY = 86_400.0
_LOOK_EVERY_SECS = 3600.0


class LogKeeping:
    """Extension that deletes logs in *directory* after *days*; checks hourly, in a thread."""

    def __init__(self, *, directory: Path, days: float) -> None:
        self._directory = directory
        self._days = days

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        days = number(settings, "KEEP_DAYS", at_least=0)
        if not (days and settings["JOBDIR"]):
            raise NotConfigured
        if not flag(settings, "REVISIT"):
            logger.warning(
                "KEEP_DAYS without REVISIT: URLs that finished more than %g days ago will be "
                "unknown to scrapy why, scrapy report, --refetch and a later REVISIT.",
                days,
            )
        keeping = cls(directory=Path(settings["JOBDIR"]) / "logs", days=days)
        while_crawling(crawler, keeping._begin, every=_LOOK_EVERY_SECS, at_once=True)
        return keeping

    def _begin(self) -> None:
        self._looking = asyncio.ensure_future(asyncio.to_thread(self._look))

    def _look(self) -> None:
        try:
            for path in sorted(self._directory.glob("*.jsonl")):
                remove_before(path, wall_time() - self._days * _DAY)
        except OSError as error:
            logger.error("Old logs cannot be deleted: %s", error)  # noqa: TRY400  # the message is enough
