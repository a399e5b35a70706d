"""An extension that tells how long the reactor's thread has worked on one thing at most."""

import asyncio
import time

from scrapy import signals

_TICK_SECS = 0.001


class LagProbe:
    """From the first answer to the end of the crawl: ``lag/cpu_ms_max``, in milliseconds of the
    thread's own time, so that other processes on the machine make no difference. A virtual machine
    that was stopped may add to that more than has passed: it counts for as much as has."""

    def __init__(self, stats):
        self._stats = stats
        self._longest = 0.0
        self._timer = None

    @classmethod
    def from_crawler(cls, crawler):
        probe = cls(crawler.stats)
        crawler.signals.connect(probe.begin, signal=signals.response_received)
        crawler.signals.connect(probe.end, signal=signals.spider_closed)
        return probe

    def begin(self):
        if self._timer is None:
            self._tick((time.thread_time(), time.monotonic()))

    def _tick(self, last):
        now = time.thread_time(), time.monotonic()
        self._longest = max(self._longest, min(now[0] - last[0], now[1] - last[1]))
        self._timer = asyncio.get_running_loop().call_later(_TICK_SECS, self._tick, now)

    def end(self):
        if self._timer is not None:
            self._timer.cancel()
        self._stats.set_value("lag/cpu_ms_max", round(1000 * self._longest, 1))
