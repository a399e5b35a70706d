"""Limits of the process: open files, malloc and the garbage collector.

**Open files.** The limit is computed from settings: two connections for each request in progress
(FTP has one for commands and one for data), idle connections of http and https, a number for each
shard of a hive, and a fixed number for everything else. The soft limit, usually 1,024, is raised
that far if the system allows it. Otherwise a crawl would count its own failures as failures of
hosts.

**malloc.** Freed blocks of 1 MB and more are returned to the system immediately. By default glibc
raises this threshold up to 32 MB, and the heap never shrinks. A block above the threshold is new
memory, which costs a page fault for each 4 kB. So the threshold is above the size of most decoded
pages, and above the 400 kB that Lexbor allocates for any document. Up to 16 MB at the end of the
heap are kept, because the next document needs them again. Free memory between blocks in use is not
returned by itself; after weeks it may be half of the heap or more. Each checkpoint returns it to
the system, which takes 5 to 15 ms for a heap of 130 MB. Other C libraries than glibc are left as
they are.

**Garbage collector.** Every page creates hundreds of objects that reference counting alone frees.
With Python's default thresholds, the collector repeatedly visits the hundreds of thousands of
objects that are never freed, which takes an eighth of all CPU time.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import resource
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from scrapy import signals

from webcrawl.configuration.values import whole_number
from webcrawl.errors import FatalError
from webcrawl.net.limits import most_open_files
from webcrawl.signals import checkpoint

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

# Open files of each shard of a hive: nine for its logs, tables and SQLite, the others for merges.
_FILES_PER_SHARD = 24
# Options from glibc's malloc.h, and their values.
_MALLOC_OPTIONS = {
    -3: 1 << 20,  # M_MMAP_THRESHOLD
    -1: 16 << 20,  # M_TRIM_THRESHOLD
}
_GARBAGE_THRESHOLDS = (50_000, 10, 10)


class ProcessLimits:
    """Extension that sets these limits: malloc's when it is created, others with the spider."""

    def __init__(self, *, open_files: int) -> None:
        self._open_files = open_files
        self._garbage_before = gc.get_threshold()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Create the extension. Raises FatalError if the system's limits are too low."""
        extension = cls(open_files=_allowed_open_files(crawler.settings))
        # Done before the crawl opens its state, because that makes the heap grow.
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
        # Objects created at start-up live until the end, so the collector can skip them.
        gc.freeze()
        gc.set_threshold(*_GARBAGE_THRESHOLDS)

    def checkpoint(self) -> None:
        """Return free memory of the heap to the system."""
        with suppress(AttributeError, OSError):  # without glibc
            ctypes.CDLL(None).malloc_trim(0)

    def engine_stopped(self) -> None:
        gc.set_threshold(*self._garbage_before)
        gc.unfreeze()


def return_large_blocks() -> bool:
    """Make malloc return large freed blocks to the system; return False without glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return all(mallopt(option, value) for option, value in _MALLOC_OPTIONS.items())


def _allowed_open_files(settings: BaseSettings) -> int:
    """Return the number of open files that the crawl needs, as far as the system allows.

    Raises FatalError if the system allows too few.
    """
    needed = most_open_files(settings)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise FatalError(
            f"The crawl may need {needed} open files and connections at once, but the system "
            f"allows {hard} (ulimit -Hn): raise that limit, or lower CONCURRENT_REQUESTS or "
            "NET_KEEPALIVE_CONNECTIONS."
        )
    if settings.get("HIVE"):
        # A drone seldom holds all shards of a large hive, so fewer files than this are enough.
        needed += _FILES_PER_SHARD * whole_number(settings, "HIVE_SHARDS", at_least=1)
    return needed if hard == resource.RLIM_INFINITY else min(needed, hard)
