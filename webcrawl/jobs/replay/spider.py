"""Spider of ``scrapy replay``, which passes stored Pages to the processing modules."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler

from webcrawl.crawl.engine._engine import name_failed_closing, process_item
from webcrawl.jobs.replay.sources import UNREADABLE, StoredPages
from webcrawl.signals import checkpoint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from scrapy.crawler import Crawler

    from webcrawl.items import Page
    from webcrawl.urls import Link

logger = logging.getLogger(__name__)

# Most pages in the processing modules at the same time; a module may wait for a disk or a service.
_MAX_PROCESSING = 16
_NO_ITEMS: tuple[Any, ...] = ()


class NoRequests(BaseScheduler):
    """Scheduler that accepts no requests and writes no files to JOBDIR."""

    def open(self, spider: Spider) -> None:
        """Let modules submit links, if *spider* has a job in which they are stored."""
        self.submit_found = getattr(spider, "submit_found", None)

    def has_pending_requests(self) -> bool:
        return False

    def enqueue_request(self, request: Request) -> bool:  # noqa: ARG002  # Scrapy's interface
        return False

    def next_request(self) -> Request | None:
        return None


class ReplaySpider(Spider):
    """Spider that processes the stored pages in *files*, each a path and the offset to start at.

    on_progress: called with the file and the offset of each page before it is processed.
    stored: reads the pages.
    submit_found: called with a page and the links that a module submits for it, if there is a job
        in which they are stored.
    """

    name = "replay"

    def __init__(
        self,
        *,
        files: Sequence[tuple[Path, int]],
        on_progress: Callable[[Path, int], None],
        stored: StoredPages,
        submit_found: Callable[[Page, Sequence[Link]], object] | None = None,
    ) -> None:
        super().__init__()
        self.submit_found = submit_found
        self._files = files
        self._on_progress = on_progress
        self._stored = stored

    @classmethod
    def from_crawler(cls, crawler: Crawler, **arguments: Any) -> Self:
        """Create the spider. *arguments* are further arguments of ``__init__``."""
        stored = StoredPages.from_settings(crawler.settings)
        spider = super().from_crawler(crawler, stored=stored, **arguments)
        crawler.signals.connect(spider.page_failed, signal=signals.item_error)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        """Process the pages as fast as the processing modules accept them.

        Yields nothing, because Scrapy would not wait until an item is processed.
        """
        # A module that fails to close counts as a failed page. By now all modules are open; before,
        # the closing of one that was never opened would count, too.
        name_failed_closing(self.crawler.engine, self.page_failed)
        self.crawler.signals.connect(self.modules_closed, signal=signals.spider_closed)
        stats = self.crawler.stats
        processing: set[asyncio.Task[None]] = set()
        for path, start in self._files:
            try:
                for stored in self._stored.of(path, start=start):
                    while len(processing) >= _MAX_PROCESSING:
                        _, processing = await asyncio.wait(
                            processing, return_when=asyncio.FIRST_COMPLETED
                        )
                    self._on_progress(path, stored.offset)
                    stats.inc_value("replay/pages")
                    processed = process_item(self.crawler.engine, stored.page)
                    processing.add(asyncio.ensure_future(processed))
                    await asyncio.sleep(0)  # lets the modules begin with the page
            except UNREADABLE as error:
                stats.inc_value("replay/damaged_files")
                logger.error("%s", error)  # noqa: TRY400  # the sentence is for the user
            stats.inc_value("replay/files")
        if processing:
            await asyncio.wait(processing)
        for item in _NO_ITEMS:  # Scrapy requires an asynchronous generator
            yield item

    async def modules_closed(self) -> None:
        """Ask all modules whether their output is on disk, just as at the end of a crawl."""
        for _, answer in await self.crawler.signals.send_catch_log_async(checkpoint):
            if answer is not None:
                self.page_failed()

    def page_failed(self) -> None:
        """Count a page that a module could not process, or a module that did not close."""
        self.crawler.stats.inc_value("replay/failed")
