"""Lets Python's cyclic garbage collector run less often.

The crawl keeps hundreds of thousands of objects alive on purpose (queues, caches), and every page
makes hundreds that die by reference counting alone. At Python's default thresholds the collector
walks over the live ones again and again: an eighth of all CPU time (2026-11-20, 2 shared cores,
crawl_once.py of benchmarks, two runs each: 605 and 644 pages per CPU-second with Python's
thresholds, 726 and 728 with these).
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured

from webcrawl.errors import FatalError

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

_MAX_THRESHOLD = (1 << 31) - 1  # a C int


class Garbage:
    """Sets the collector's thresholds while the crawl runs. For the whole process."""

    def __init__(self, *, thresholds: tuple[int, int, int]) -> None:
        self._thresholds = thresholds
        self._before = gc.get_threshold()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        value = crawler.settings["GARBAGE_THRESHOLDS"]
        if not value:
            raise NotConfigured("GARBAGE_THRESHOLDS is empty")
        try:
            first, second, third = map(int, value.split(",") if isinstance(value, str) else value)
        except (TypeError, ValueError) as error:
            raise FatalError(_sentence(value)) from error
        if not all(0 <= threshold <= _MAX_THRESHOLD for threshold in (first, second, third)):
            raise FatalError(_sentence(value))
        extension = cls(thresholds=(first, second, third))
        crawler.signals.connect(extension.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(extension.engine_stopped, signal=signals.engine_stopped)
        return extension

    def spider_opened(self) -> None:
        # What start-up has made stays to the end: the collector need not look at it again.
        gc.freeze()
        gc.set_threshold(*self._thresholds)

    def engine_stopped(self) -> None:
        gc.set_threshold(*self._before)
        gc.unfreeze()


def _sentence(value: object) -> str:
    return f"GARBAGE_THRESHOLDS must be three whole numbers from 0, not {value!r}."
