"""Says when freed memory goes back to the system: large blocks at once, the heap's end not.

glibc gets them from the system one by one, but only as long as none of their size has been freed:
then it moves its threshold up, to 32 MB, and takes them from its heap from then on, where whatever
was put behind them meanwhile keeps them from ever being given back. A crawl frees arrays of
megabytes with each merge, and so the process grew for hours with memory that nobody used: 60 MB
after two million URLs. Setting the threshold keeps it where it is. Price: some page faults for each
large body.

It is set above what Lexbor takes for a document of any size, 400 kB, of which it uses little. And
glibc would give back the end of the heap whenever 128 kB of it are free, to get it again, page by
page, for the next document; so 16 MB of it may be free. Both together: 606, then 654 small pages a
CPU-second (2026-11-21), for 2 MB more; with pages of 240 kB 230, then 248, for 45 MB more, as many
after 6,000 pages as after 1,500.

Other C libraries than glibc are left as they are.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

# Of malloc.h, with the value to be set.
_OPTIONS: Final = {
    -3: 512 * 1024,  # M_MMAP_THRESHOLD
    -1: 16 << 20,  # M_TRIM_THRESHOLD
}


def return_large_blocks() -> bool:
    """Set all of it, for the whole process and for good; False where there is none of it."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return all(mallopt(option, value) for option, value in _OPTIONS.items())


class LargeBlocks:
    """Extension: ``return_large_blocks`` when it is made: from what a crawl opens, the heap grows
    in the way that it has then."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:  # noqa: ARG003  # Scrapy's interface
        return_large_blocks()
        return cls()
