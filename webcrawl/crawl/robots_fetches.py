"""robots.txt below Scrapy's engine: from the dispatcher straight to the downloader.

It goes through the downloader middlewares to the download handler as every request does (or past
those that do the same with each robots.txt, if there are no others: _fast_path.py), in its host's
turn and by its clock, and holds a worker while it is on the wire. Its rules are learned when the
host is released (host_release.py). Engine, scraper and spider have no part in it, but that the
engine closes only when it is done, and that its bytes count among those of pages in process until
handlers of ``unprocessed`` have taken the Page.
"""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING, Any

from scrapy.http import Response
from twisted.python.failure import Failure

from webcrawl.crawl._engine import (
    end_request,
    page_in_process,
    start_request,
    takes_fast_path,
    tell_of_response,
    wake,
)
from webcrawl.crawl.fetch import fetch_of
from webcrawl.crawl.page_builder import page_of
from webcrawl.crawl.step import Step
from webcrawl.frontier import ROBOTS_REDIRECT
from webcrawl.signals import ROBOTS, is_heard, unprocessed

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from scrapy import Request
    from scrapy.crawler import Crawler

    from webcrawl.crawl._fast_path import PreparedRequests
    from webcrawl.crawl.completion import Completion
    from webcrawl.crawl.fetch import Fetch
    from webcrawl.crawl.item_limit import ItemLimit
    from webcrawl.crawl.lease_requests import LeaseRequests


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
        self._completion = completion
        self._requests = requests
        self._items = items
        # Held here, as the loop holds tasks weakly.
        self._tasks: dict[Request, asyncio.Task[None]] = {}
        # Modules get those that came together as one.
        self._storing = Step()

    def start(self, fetch: Fetch, url: str) -> None:
        """Fetch the robots.txt *url* for *fetch*; its worker is busy from now on."""
        engine: Any = self._crawler.engine
        prepared = self._prepared
        request = self._requests.for_robots(url) if prepared is None else prepared.request(url)
        start_request(engine, fetch.bind(request))
        fetching = self._fetch(request, engine.downloader.download(request, prepared))
        self._tasks[request] = asyncio.create_task(fetching)

    @cached_property
    def _prepared(self) -> PreparedRequests | None:
        if not takes_fast_path(self._crawler.settings):
            return None
        from webcrawl.crawl._fast_path import prepared_requests  # noqa: PLC0415  # of one Scrapy only

        like = self._requests.for_robots("http://robots.invalid/robots.txt")
        return prepared_requests(self._crawler.engine, like)

    async def _fetch(
        self, request: Request, download: Coroutine[Any, Any, Response | Request]
    ) -> None:
        try:
            result = await download
            wake(self._crawler.engine)  # a worker is free
            if isinstance(result, Response):  # a Request in its place has failed it: fetch.py
                await self._storing.wait()
                await self._received(result, request)
        except Exception as error:  # noqa: BLE001  # the rules are known, or asked for again
            failure: Any = Failure(error)  # type: ignore[no-untyped-call]
            failure.request = request
            self._requests.failed(failure)
        finally:
            del self._tasks[request]
            end_request(self._crawler.engine, request)

    async def _received(self, response: Response, request: Request) -> None:
        """Hand *response* over to those who listen."""
        engine = self._crawler.engine
        if response.request is None:
            response.request = request
        tell_of_response(engine, response, request)
        fetch = fetch_of(request)
        if fetch is None or not is_heard(self._crawler.signals, unprocessed):
            return
        page, entry = page_of(response, fetch), fetch.lease.entry
        page.kind = ROBOTS
        page.via = entry.via if entry.kind == ROBOTS_REDIRECT else entry.url
        with page_in_process(engine, len(page.body)):
            try:
                await self._items.hand_over(page, fetch, ROBOTS)
            except Exception as error:  # noqa: BLE001  # a disk that fails
                self._completion.not_stored(fetch, error)
