"""Calls a function periodically while a crawl runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.utils.asyncio import create_looping_call

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler


def while_crawling(
    crawler: Crawler, call: Callable[[], None], *, every: float, at_once: bool = False
) -> None:
    """Call *call* every *every* seconds, from ``spider_opened`` to ``spider_closed``.

    The first call is made after *every* seconds, or with *at_once* at ``spider_opened``.
    """
    loop = create_looping_call(call)

    def begin() -> None:
        loop.start(every, now=at_once)

    def end() -> None:
        if loop.running:
            loop.stop()

    # The signals must keep these functions, to which nothing else refers.
    crawler.signals.connect(begin, signal=signals.spider_opened, weak=False)
    crawler.signals.connect(end, signal=signals.spider_closed, weak=False)
