"""The spider of ``scrapy replay``: stored Pages for the processing modules, no request."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Self

import xxhash
from scrapy import Spider, signals

from webcrawl.crawl._engine import process_item
from webcrawl.crawl.link_extractor import PageLinks, sitemap_max_bytes
from webcrawl.jobs.replay.warc_reader import DamagedWarcError, stored_pages
from webcrawl.net.limits import page_max_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from scrapy.crawler import Crawler

    from webcrawl.items import Page
    from webcrawl.jobs.replay.warc_reader import Stored

logger = logging.getLogger(__name__)

# Pages in the processing modules at once, as a module may wait for a disk or a service.
_AT_ONCE = 16
_NOTHING: tuple[Any, ...] = ()
_HTTP = ("http:", "https:")


class ReplaySpider(Spider):
    """Yields the pages of *files*, each file from its offset on.

    *on_progress* is called with the file and the offset of every page before it is processed.
    """

    name = "replay"

    def __init__(
        self,
        *,
        files: Sequence[tuple[Path, int]],
        on_progress: Callable[[Path, int], None],
        links: PageLinks,
        max_bytes: int,
    ) -> None:
        super().__init__()
        self._files = files
        self._on_progress = on_progress
        self._links = links
        self._max_bytes = max_bytes

    @classmethod
    def from_crawler(
        cls,
        crawler: Crawler,
        *,
        files: Sequence[tuple[Path, int]],
        on_progress: Callable[[Path, int], None],
    ) -> Self:
        settings = crawler.settings
        most = max(page_max_bytes(settings), sitemap_max_bytes(settings))
        links = PageLinks.from_settings(settings)
        spider = super().from_crawler(
            crawler, files=files, on_progress=on_progress, links=links, max_bytes=most
        )
        crawler.signals.connect(spider.page_failed, signal=signals.item_error)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        """Have the pages processed, as fast as the processing modules take them. Yields nothing, as
        Scrapy would not wait for it."""
        stats = self.crawler.stats
        under_way: set[asyncio.Task[None]] = set()
        for path, start in self._files:
            try:
                for stored in stored_pages(path, start=start, max_bytes=self._max_bytes):
                    while len(under_way) >= _AT_ONCE:
                        _, under_way = await asyncio.wait(
                            under_way, return_when=asyncio.FIRST_COMPLETED
                        )
                    self._on_progress(path, stored.offset)
                    stats.inc_value("replay/pages")
                    page = self._page(stored)
                    under_way.add(asyncio.ensure_future(process_item(self.crawler.engine, page)))
                    await asyncio.sleep(0)
            except (DamagedWarcError, OSError) as error:
                stats.inc_value("replay/damaged_files")
                logger.error("%s", error)  # noqa: TRY400  # the sentence is for the user
            stats.inc_value("replay/files")
        if under_way:
            await asyncio.wait(under_way)
        for item in _NOTHING:  # Scrapy wants an asynchronous generator
            yield item

    def page_failed(self) -> None:
        """Count a page on which a processing module raised."""
        self.crawler.stats.inc_value("replay/failed")

    def _page(self, stored: Stored) -> Page:
        page = stored.page
        if page.status != 200 or not page.body:
            return page
        page.content_fingerprint = xxhash.xxh3_64_intdigest(page.body) or 1
        if page.url.startswith(_HTTP):
            # By today's extractor and settings, which may be the reason for the replay.
            page.links = []
            slow = self._links.find(page)
            if slow is not None:
                page.links += [link for link in slow if link is not None]
        return page
