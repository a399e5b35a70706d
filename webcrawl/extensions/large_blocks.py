"""Sees to it that large blocks of memory go back to the system when they are freed.

glibc gets them from the system one by one, but only as long as none of their size has been freed:
then it moves its threshold up, to 32 MB, and takes them from its heap from then on, where whatever
was put behind them meanwhile keeps them from ever being given back. A crawl frees arrays of
megabytes with each merge and a buffer of 256 KiB with each TLS connection, and so the process grew
for hours with memory that nobody used: 60 MB after two million URLs. Setting the threshold, to what
it is in the beginning, keeps it where it is. Price: some page faults for each large body.

Other C libraries than glibc are left as they are.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final, Self

from scrapy import signals

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

# Of malloc.h.
_M_MMAP_THRESHOLD: Final = -3
_THRESHOLD_BYTES: Final = 128 * 1024


def return_large_blocks() -> bool:
    """Set the threshold, for the whole process and for good; False where there is none."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _THRESHOLD_BYTES))


class LargeBlocks:
    """Extension: ``return_large_blocks`` when the crawl begins."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        extension = cls()
        crawler.signals.connect(extension.engine_started, signal=signals.engine_started)
        return extension

    def engine_started(self) -> None:
        return_large_blocks()
