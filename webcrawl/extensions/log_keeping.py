"""Deletes log files of the job that are older than KEEP_DAYS.

A full file is deleted when all its lines are older, but the last full file of each log is kept.
Stored pages and datasets are not affected; with OUTPUT_STORE they are deleted once they were moved.
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
from webcrawl.wording import COMMAND

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

_DAY = 86_400.0
_INTERVAL_SECS = 3600.0


class LogKeeping:
    """Extension that deletes logs in *directory* after *days*. It checks hourly, in a thread."""

    def __init__(self, *, directory: Path, days: float) -> None:
        self._directory = directory
        self._days = days

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build from KEEP_DAYS, and start the hourly checks."""
        settings = crawler.settings
        days = number(settings, "KEEP_DAYS", at_least=0)
        if not (days and settings["JOBDIR"]):
            raise NotConfigured
        if not flag(settings, "REVISIT"):
            logger.warning(
                "KEEP_DAYS without REVISIT: URLs that finished more than %g days ago will be "
                "unknown to %s why and report, --refetch and a later REVISIT.",
                days,
                COMMAND,
            )
        keeping = cls(directory=Path(settings["JOBDIR"]) / "logs", days=days)
        while_crawling(crawler, keeping._start, every=_INTERVAL_SECS, at_once=True)
        return keeping

    def _start(self) -> None:
        self._deleting = asyncio.ensure_future(asyncio.to_thread(self._delete_old_logs))

    def _delete_old_logs(self) -> None:
        """Delete all files that are old enough. Runs in a thread."""
        try:
            for path in sorted(self._directory.glob("*.jsonl")):
                remove_before(path, wall_time() - self._days * _DAY)
        except OSError as error:
            logger.error("Old logs cannot be deleted: %s", error)  # noqa: TRY400  # the message is enough
