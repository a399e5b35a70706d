"""Disk guard: pauses the crawl before a disk is full, and resumes it when there is space again.

A disk that is really full ends the crawl (exit code 3). Nothing is lost, but the crawl must be
started again. The space below the limit is for work in progress: downloads, a checkpoint, the logs.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Self

from scrapy.exceptions import NotConfigured

from webcrawl.configuration.values import whole
from webcrawl.extensions.periodic import while_crawling
from webcrawl.scheduler import process_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

_LOOK_EVERY = 2.0
# The crawl resumes at a tenth more than the limit, but at most this much more. Otherwise it would
# pause again at the next page.
_MAX_MARGIN_BYTES = 1 << 26
_NAME = "disk"


class DiskGuard:
    """Extension that measures the disks of *paths* every two seconds, in a thread."""

    def __init__(self, *, crawler: Crawler, paths: Sequence[Path], floor_bytes: int) -> None:
        self._crawler = crawler
        self._paths = paths
        self._floor_bytes = floor_bytes
        self._enough = floor_bytes + min(floor_bytes // 10, _MAX_MARGIN_BYTES)
        self._looking: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        floor_bytes = whole(settings, "DISK_MIN_FREE_BYTES", at_least=0)
        jobdir = settings["JOBDIR"]
        if not (floor_bytes and jobdir):
            raise NotConfigured
        others = ("WARC_DIR", "LARM_DIR", "TEXT_DIR", "SEARCH_DIR")
        guard = cls(
            crawler=crawler,
            paths=[Path(jobdir), *(Path(settings[name]) for name in others if settings[name])],
            floor_bytes=floor_bytes,
        )
        while_crawling(crawler, guard._begin, every=_LOOK_EVERY, at_once=True)
        return guard

    def _begin(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        """Measure the disks, and pause or resume the crawl."""
        free = {path: await asyncio.to_thread(_measure, path) for path in self._paths}
        process = process_of(self._crawler)
        if process is None:
            return
        pauses, path = process.pauses, min(free, key=free.__getitem__)
        extra = {"spider": self._crawler.spider}
        if free[path] < self._floor_bytes:
            sentence = (
                f"{_size(free[path])} are free at {path}, less than DISK_MIN_FREE_BYTES "
                f"({_size(self._floor_bytes)}): free some space, and the crawl resumes by itself."
            )
            if pauses.hold(_NAME, sentence):
                logger.warning("The crawl is paused: %s", sentence, extra=extra)
        elif free[path] >= self._enough and pauses.lift(_NAME):
            logger.info("The crawl resumes: %s are free", _size(free[path]), extra=extra)


def _measure(path: Path) -> int:
    """Return the free bytes at *path*, which may not exist yet.

    A disk that cannot be measured does not pause the crawl: writing to it will fail and end it.
    """
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return 1 << 63


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:,.0f} MiB"
