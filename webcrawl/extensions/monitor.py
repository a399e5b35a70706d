"""Starts the monitor (monitor/) of a single-process crawl; for a hive, the supervisor does."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured

from webcrawl.configuration.values import port_number
from webcrawl.errors import FatalError
from webcrawl.scheduler import process_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from webcrawl.monitor.launch import MonitorProcess

logger = logging.getLogger(__name__)


class Monitor:
    """Extension that starts the monitor when the crawl starts, and ends it with the crawl."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._starting: asyncio.Task[MonitorProcess] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Create the extension. Raises NotConfigured if this crawl must not start a monitor."""
        settings = crawler.settings
        if not port_number(settings, "MONITOR_PORT"):
            raise NotConfigured
        if not settings["JOBDIR"]:
            raise NotConfigured("MONITOR_PORT needs a JOBDIR")
        if settings.get("HIVE"):
            raise NotConfigured  # scrapy hive has one for all drones
        monitor = cls(crawler)
        crawler.signals.connect(monitor.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(monitor.engine_stopped, signal=signals.engine_stopped)
        return monitor

    def spider_opened(self) -> None:
        if process_of(self._crawler) is None:
            return
        from webcrawl.monitor.launch import MonitorProcess  # noqa: PLC0415  # it is optional

        # In a task, because the engine waits for this handler before it sends its first request.
        self._starting = asyncio.ensure_future(_start(MonitorProcess(self._crawler.settings)))

    async def engine_stopped(self) -> None:
        if self._starting is not None:
            (await self._starting).end()


async def _start(process: MonitorProcess) -> MonitorProcess:
    """Start *process* in a thread and return it. Errors are only logged."""
    try:
        logger.info("%s", await asyncio.to_thread(process.start))
    except (FatalError, OSError) as error:
        logger.warning("%s", error)
    return process
