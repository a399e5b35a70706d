"""Wakes the engine when the next host is ready.

``next_request()`` returned None, and the engine sleeps until something happens or its heartbeat,
5 s later. A polite crawl must not lose these seconds.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from scrapy.utils.asyncio import call_later

from webcrawl.crawl._engine import wake

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.utils.asyncio import CallLaterResult


class Alarm:
    """One timer, set to the earliest time it was asked for."""

    def __init__(self, *, crawler: Crawler) -> None:
        self._crawler = crawler
        self._timer: CallLaterResult | None = None
        self._at = 0.0

    def set(self, at: float | None) -> None:
        """Wake the engine at *at*, monotonic seconds; None is never."""
        if at is None or (self._timer is not None and self._at <= at):
            return
        self.cancel()
        self._at = at
        self._timer = call_later(max(0.0, at - time.monotonic()), self._ring)

    def cancel(self) -> None:
        """Wake nobody."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        wake(self._crawler.engine)
