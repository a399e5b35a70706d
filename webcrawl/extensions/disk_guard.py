"""Disk guard: pauses the crawl before a disk is full, and resumes it when there is space again.

A disk that is completely full ends the crawl (exit code 3). Nothing is lost, but the crawl must be
started again. The space below the limit is left for work in progress: downloads, a checkpoint, and
the logs.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Self

from scrapy.exceptions import NotConfigured

from webcrawl.configuration.values import whole_number
from webcrawl.extensions.periodic import while_crawling
from webcrawl.scheduler import process_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

_INTERVAL_SECS = 2.0
# The crawl resumes when the free space exceeds the limit by a tenth, but at most by this much.
# Without a margin it would pause again at the next page.
_MAX_MARGIN_BYTES = 1 << 26
_NAME = "disk"
_MB = 1_000_000


class DiskGuard:
    """Extension that measures the disks of *paths* every two seconds, in a thread."""

    def __init__(self, *, crawler: Crawler, paths: Sequence[Path], floor_bytes: int) -> None:
        self._crawler = crawler
        self._paths = paths
        # The crawl pauses below the first number of free bytes, and resumes from the second on.
        self._floor_bytes = floor_bytes
        self._resume_bytes = floor_bytes + min(floor_bytes // 10, _MAX_MARGIN_BYTES)
        # The last check, which may still be running if a disk hangs.
        self._checking: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build from DISK_MIN_FREE_BYTES and the directories in which modules write.

        Raises NotConfigured if there is no limit or no job.
        """
        settings = crawler.settings
        floor_bytes = whole_number(settings, "DISK_MIN_FREE_BYTES", at_least=0)
        jobdir = settings["JOBDIR"]
        if not (floor_bytes and jobdir):
            raise NotConfigured
        others = ("WARC_DIR", "LARM_DIR", "TEXT_DIR", "SEARCH_DIR")
        guard = cls(
            crawler=crawler,
            paths=[Path(jobdir), *(Path(settings[name]) for name in others if settings[name])],
            floor_bytes=floor_bytes,
        )
        while_crawling(crawler, guard._start_check, every=_INTERVAL_SECS, at_once=True)
        return guard

    def _start_check(self) -> None:
        """Start a check in a thread, unless the last one is still running."""
        if self._checking is None or self._checking.done():
            self._checking = asyncio.ensure_future(self._check())

    async def _check(self) -> None:
        """Measure the disks, and pause or resume the crawl."""
        free = {path: await asyncio.to_thread(_free_bytes, path) for path in self._paths}
        process = process_of(self._crawler)
        if process is None:
            return

        pauses = process.pauses
        path = min(free, key=free.__getitem__)  # on the fullest disk
        extra = {"spider": self._crawler.spider}
        if free[path] < self._floor_bytes:
            sentence = (
                f"{free[path] / _MB:,.0f} MB are free at {path}, less than DISK_MIN_FREE_BYTES "
                f"({self._floor_bytes / _MB:,.0f} MB): free some space, and the crawl resumes by "
                "itself."
            )
            if pauses.hold(_NAME, sentence):  # it was not paused for this reason yet
                logger.warning("The crawl is paused: %s", sentence, extra=extra)
        # Between the two limits nothing changes. ``lift`` says whether there was such a pause.
        elif free[path] >= self._resume_bytes and pauses.lift(_NAME):
            logger.info("The crawl resumes: %s MB are free", free[path] // _MB, extra=extra)


def _free_bytes(path: Path) -> int:
    """Return the number of free bytes on the disk of *path*, which may not exist yet.

    If it cannot be measured, the result is very large, so that the crawl is not paused. Writing to
    such a disk will fail and end the crawl.
    """
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return 1 << 63
