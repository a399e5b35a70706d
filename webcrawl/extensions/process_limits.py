"""Limits of the process: open files, malloc and the garbage collector.

**Open files** are bounded by settings: two connections for each request under way (FTP has one for
the dialogue and one for the data), idle connections of http and https, a number for each shard of a
hive, as far as the system allows, and a fixed one for all else. The usual soft limit of 1,024 is
below that, and a crawl that met it would count its own failures as those of hosts.

**malloc.** Freed blocks of 1 MB and more go back to the system at once; by default glibc raises
this threshold up to 32 MB, and the heap never shrinks. It is above what all but a few pages take,
decoded, and the 400 kB that Lexbor takes for a document of any size: a block of its own is new
memory, which costs a page fault for each 4 kB. The end of the heap is kept up to 16 MB, because the
next document needs it again. Between blocks that live on, freed ones keep whole pages of the heap:
in weeks half of it and more. With each checkpoint these pages go back, which takes 5 to 15 ms for a
heap of 130 MB. Other C libraries are left as they are.

**Garbage collector.** Every page makes hundreds of objects that die by reference counting alone. At
Python's default thresholds the collector walks over the hundreds of thousands that live on again
and again: an eighth of all CPU time.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import resource
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from scrapy import signals

from webcrawl.configuration.values import whole
from webcrawl.errors import FatalError
from webcrawl.net.limits import most_open_files
from webcrawl.signals import checkpoint

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

# Of a shard beside the first: nine of its logs, tables and SQLite's, and of runs that are merged.
_OF_SHARD = 24
# Options of glibc's malloc.h, and their values.
_MALLOC_OPTIONS = {
    -3: 1 << 20,  # M_MMAP_THRESHOLD
    -1: 16 << 20,  # M_TRIM_THRESHOLD
}
_GARBAGE_THRESHOLDS = (50_000, 10, 10)


class ProcessLimits:
    """Extension: sets malloc's options when it is made, the rest when the spider is opened."""

    def __init__(self, *, open_files: int) -> None:
        self._open_files = open_files
        self._garbage_before = gc.get_threshold()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """FatalError, with one sentence, for limits that cannot be set."""
        extension = cls(open_files=_allowed_open_files(crawler.settings))
        # Now: the heap grows with all that a crawl opens.
        return_large_blocks()
        crawler.signals.connect(extension.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(extension.checkpoint, signal=checkpoint)
        crawler.signals.connect(extension.engine_stopped, signal=signals.engine_stopped)
        return extension

    def spider_opened(self) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY and soft < self._open_files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (self._open_files, hard))
            logger.info("Raised the limit of open files from %d to %d", soft, self._open_files)
        # What start-up has made stays to the end: the collector need not look at it again.
        gc.freeze()
        gc.set_threshold(*_GARBAGE_THRESHOLDS)

    def checkpoint(self) -> None:
        """Give back what of the heap is free."""
        with suppress(AttributeError, OSError):  # without glibc
            ctypes.CDLL(None).malloc_trim(0)

    def engine_stopped(self) -> None:
        gc.set_threshold(*self._garbage_before)
        gc.unfreeze()


def return_large_blocks() -> bool:
    """Set malloc's options, for the whole process and for good. False without glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return all(mallopt(option, value) for option, value in _MALLOC_OPTIONS.items())


def _allowed_open_files(settings: BaseSettings) -> int:
    needed = most_open_files(settings)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise FatalError(
            f"The crawl may have {needed} files and connections open at once, and the system "
            f"allows {hard} (ulimit -Hn): raise that, or lower CONCURRENT_REQUESTS or "
            "NET_KEEPALIVE_CONNECTIONS."
        )
    if settings.get("HIVE"):
        # No drone holds all shards of a large hive for long: what there is will do.
        needed += _OF_SHARD * whole(settings, "HIVE_SHARDS", at_least=1)
    return needed if hard == resource.RLIM_INFINITY else min(needed, hard)
