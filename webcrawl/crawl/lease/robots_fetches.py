"""robots.txt below Scrapy's engine: from the dispatcher straight to the downloader.

It goes through the downloader middlewares to the download handler as every request does (or past
them and Scrapy's signals, if nothing is enabled that could see or change one: _fast_path.py), in
its host's turn and by its clock, and holds a worker while it is on the wire. Its rules are learned
when the host is released (host_release.py). Engine, scraper and spider have no part in it, but that
the engine closes only when it is done, and that its bytes count among those of pages in process
until handlers of ``unprocessed`` have taken the Page.
"""

from __future__ import annotations

import asyncio
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.http import Response
from twisted.python.failure import Failure

from webcrawl.crawl.engine._engine import (
    count_page,
    end_request,
    start_request,
    takes_fast_path,
    tell_of_response,
    wake,
)
from webcrawl.crawl.engine.step import Step
from webcrawl.crawl.lease.lease_requests import ROBOTS_MAX_BYTES
from webcrawl.crawl.lease.page_builder import page_of
from webcrawl.frontier import ROBOTS_REDIRECT
from webcrawl.signals import ROBOTS, is_heard, unprocessed

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from scrapy.crawler import Crawler

    from webcrawl.crawl.engine._fast_path import RobotsPastScrapy
    from webcrawl.crawl.lease.completion import Completion
    from webcrawl.crawl.lease.fetch import Fetch
    from webcrawl.crawl.lease.item_limit import ItemLimit
    from webcrawl.crawl.lease.lease_requests import LeaseRequests
    from webcrawl.items import Page


class RobotsFetches:
    """Fetches robots.txt files, a task for each, at most as many as there are workers."""

    def __init__(
        self,
        *,
        crawler: Crawler,
        completion: Completion,
        requests: LeaseRequests,
        items: ItemLimit,
    ) -> None:
        self._crawler = crawler
        self._signals = crawler.signals
        self._stats = crawler.stats
        self._completion = completion
        self._requests = requests
        self._items = items
        # Held here, as the loop holds tasks weakly.
        self._tasks: dict[Fetch, asyncio.Task[None]] = {}
        # Modules get those that came together as one.
        self._storing = Step()

    def start(self, fetch: Fetch, url: str) -> None:
        """Fetch the robots.txt *url* for *fetch*; its worker is busy from now on."""
        engine = self._engine
        way = None if self._past_scrapy is None else self._past_scrapy.begin(url)
        request: Request | Fetch = fetch
        if way is None:
            request = fetch.bind(self._requests.for_robots(url))
            download = engine.downloader.download(request)
        else:
            handler, sent = way
            receive = partial(handler.fetch_robots, sent, url, max_bytes=ROBOTS_MAX_BYTES)
            download = engine.downloader.download_robots(fetch, receive)
        start_request(engine, request)
        # Not asyncio's own, which gives each a name.
        task = asyncio.get_running_loop().create_task(self._fetch(fetch, request, download))
        self._tasks[fetch] = task

    @cached_property
    def _engine(self) -> Any:
        return self._crawler.engine

    @cached_property
    def _past_scrapy(self) -> RobotsPastScrapy | None:
        if not takes_fast_path(self._crawler.settings):
            return None
        from webcrawl.crawl.engine._fast_path import robots_past_scrapy  # noqa: PLC0415  # of one Scrapy only

        like = self._requests.for_robots("http://robots.invalid/robots.txt")
        return robots_past_scrapy(self._engine, like)

    async def _fetch(
        self,
        fetch: Fetch,
        request: Request | Fetch,
        download: Coroutine[Any, Any, Response | Request],
    ) -> None:
        fetch.abort = self._tasks[fetch].cancel
        try:
            result = await download
            wake(self._engine)  # a worker is free
            if isinstance(result, Response):  # a Request in its place has failed it: fetch.py
                page = self._received(result, fetch, request)
                if page is not None:
                    await self._storing.wait()
                    await self._hand_over(page, fetch)
        except Exception as error:  # noqa: BLE001  # the rules are known, or asked for again
            failure: Any = Failure(error)  # type: ignore[no-untyped-call]
            failure.request = request
            self._requests.failed(failure)
        finally:
            del self._tasks[fetch]
            end_request(self._engine, request)

    def _received(self, response: Response, fetch: Fetch, request: Request | Fetch) -> Page | None:
        """Signal that *response* has come; its Page, if that is wanted."""
        if isinstance(request, Request):
            if response.request is None:
                response.request = request
            tell_of_response(self._engine, response, request)
        elif is_heard(self._signals, signals.response_received):
            self._stats.inc_value("response_received_count")  # as CoreStats, which alone listens
        return page_of(response, fetch) if is_heard(self._signals, unprocessed) else None

    async def _hand_over(self, page: Page, fetch: Fetch) -> None:
        entry = fetch.lease.entry
        page.kind = ROBOTS
        page.via = entry.via if entry.kind == ROBOTS_REDIRECT else entry.url
        size = len(page.body)
        count_page(self._engine, size)
        try:
            await self._items.hand_over(page, fetch, ROBOTS)
        except Exception as error:  # noqa: BLE001  # a disk that fails
            self._completion.not_stored(fetch, error)
        finally:
            count_page(self._engine, size, -1)
