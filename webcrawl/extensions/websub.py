"""News by push: subscribes to the hubs that feeds of the crawl name (WebSub, W3C 2018).

The life of a subscription::

    found       a feed names a hub, and no other URL as its own
    requested   a POST waits for the hub's turn (crawl/task/hub_request.py)
    verified    the hub asks whether the request was ours, and says how long the lease is
    pushed      the hub sends the feed, signed with the secret of the subscription; its links are
                submitted as if the feed had been fetched, those that have changed as hints
    renewed     by another POST, before the lease ends
    ended       when its feed names another hub or is excluded, or its hub denies it or is silent

Only a feed can name its hub, and only the hub knows the address and secret of a subscription. They
are in ``JOBDIR/websub.jsonl``, which only its owner can read. ``kill -9`` may lose the newest ones:
then nothing confirms them to their hubs, until their feeds are fetched again. A hub learns that a
subscription has ended when it pushes the feed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured

from webcrawl.clock import wall_time
from webcrawl.configuration.decoding import UndecodableError
from webcrawl.configuration.values import port_number
from webcrawl.errors import FatalError
from webcrawl.extensions.periodic import while_crawling
from webcrawl.items import Page
from webcrawl.pipelines.hub_table import HubTable
from webcrawl.scheduler import process_of
from webcrawl.urls import host_of, normalize

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from webcrawl.monitor.serving import Server

logger = logging.getLogger(__name__)

_INTERVAL_SECS = 1.0


class WebSub:
    """Extension that subscribes to feeds, and serves WEBSUB_PORT for their hubs."""

    # Both are None until hubs can call.
    _server: Server | None = None
    _table: HubTable | None = None

    def __init__(self, crawler: Crawler, *, port: int, url: str) -> None:
        self._crawler = crawler
        self._port = port
        self._url = url

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Create the extension. Raises FatalError for settings that do not fit together."""
        settings = crawler.settings
        port = port_number(settings, "WEBSUB_PORT")
        if not port:
            raise NotConfigured
        if settings.get("HIVE"):
            raise FatalError("WEBSUB_PORT is for a crawl in one process, not for a hive.")
        url = normalize(str(settings["WEBSUB_URL"]))
        if url is None or "?" in url:
            raise FatalError("WEBSUB_URL must be an http or https URL without a query.")
        extension = cls(crawler, port=port, url=url.rstrip("/"))
        for name in ("spider_opened", "item_scraped", "spider_closed"):
            crawler.signals.connect(getattr(extension, name), signal=getattr(signals, name))
        while_crawling(crawler, extension.work, every=_INTERVAL_SECS)
        return extension

    async def spider_opened(self) -> None:
        """Listen, and continue the subscriptions of the job."""
        process = process_of(self._crawler)
        if process is None:
            return
        from webcrawl.extensions.websub_site import CallbackSite  # noqa: PLC0415  # takes 0.2 s
        from webcrawl.monitor.serving import Server  # noqa: PLC0415  # likewise

        hosts = process.parts.services.rules.hosts
        table = HubTable(
            process.job.path / "websub.jsonl",
            url=self._url,
            is_excluded=lambda url: hosts.exclusion_of(host_of(url), url),
            count=self._crawler.stats.inc_value,
            clock=wall_time,
        )
        site = CallbackSite(table, host_of(self._url), process)
        server = Server(site.app(), site.timeout)
        try:
            table.open()
            await server.open("127.0.0.1", self._port)
        except (OSError, UndecodableError) as error:
            logger.warning("WEBSUB_PORT has no effect: %s", error)
            return
        self._server = server
        self._table = table
        process.parts.leases.hub_requests.form_of = table.form_of
        process.parts.leases.hub_requests.on_redirect = process.intake.ask_hub

    async def spider_closed(self) -> None:
        """Stop listening, and save the subscriptions, which the next run continues."""
        if self._server is not None:
            await self._server.close()
            self.work()

    def item_scraped(self, item: Any) -> None:
        """Note the hub of *item* if it is a feed."""
        if self._table is not None and isinstance(item, Page) and item.is_document:
            self._table.note_page(item)

    def work(self) -> None:
        """Queue the requests to hubs that are due, and save what has changed."""
        process = process_of(self._crawler)
        if process is None or self._table is None:
            return
        if not process.stop.is_ending:
            for one in self._table.begin_requests():
                process.intake.ask_hub(one.hub, one.name)
        try:
            self._table.save()
        except OSError as error:
            process.stop.fail(error)
