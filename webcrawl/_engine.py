"""The only module that touches Scrapy's private attributes; a test holds them to Scrapy 2.19.

Things that Scrapy 2.19 has no public name for:

* ``wake``: when ``next_request()`` returned None the engine sleeps until its 5 s heartbeat; a
  polite frontier knows when the next host is ready and must wake it then.
* ``watch_requests``: no signal marks the end of a request on every path (response, exception,
  ignored by a middleware, replaced by another request, dropped item). The engine's slot forgets
  a request exactly once, after its download, callback and item pipelines: that is the moment.
* ``process_output_in_line``: for each response Scrapy starts a queue and two tasks or more,
  which for one Page is a tenth of all CPU time.
* ``go_on_for_pages_in_process``: the engine stops asking while much is in process; pages that wait
  for a download of their own would wait for ever.
* ``PlainRedirectMiddleware``: without the costly RefererMiddleware, Scrapy's warns at every start.
* ``MercatorDownloader``: the engine builds its downloader itself, and the stock one keeps a slot
  with timers for every host, which the frontier makes superfluous: a host that is in process is
  not in its heap, so two requests to one host are impossible, not merely delayed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.core.downloader.handlers import DownloadHandlers
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.downloadermiddlewares.redirect import RedirectMiddleware
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.utils.defer import aiter_errback, deferred_from_coro, iter_errback
from scrapy.utils.misc import build_from_crawler

from webcrawl.fetch import fetch_of
from webcrawl.net.schemes import followed_schemes
from webcrawl.net.turn import TURN
from webcrawl.setting_values import number, whole
from webcrawl.signals import is_heard
from webcrawl.url_rules import redirect_filters_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from scrapy.core.engine import ExecutionEngine
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings
    from twisted.internet.defer import Deferred
    from twisted.python.failure import Failure

    from webcrawl.asides import Asides
    from webcrawl.fetch import Fetch

logger = logging.getLogger(__name__)

# A callback may yield thousands of Requests, 0.1 ms each, and none of them waits for anything.
_OUTPUTS_AT_ONCE = 100
# FRONTIER_LEASE_SECS in a project without it, and the share of a lease that a download may take
# whose request has a timeout of its own.
_LEASE_SECS = 900.0
_OF_LEASE = 0.9


def wake(engine: ExecutionEngine) -> None:
    """Let the engine ask the scheduler for requests in the next turn of the loop."""
    if engine._slot is not None:
        engine._slot.nextcall.schedule()


def watch_requests(engine: ExecutionEngine, on_done: Callable[[Request], None]) -> None:
    """Call *on_done* once for every request when the engine is through with it.

    To be called while the spider is being opened: the engine's slot exists from then on.
    """
    slot = engine._slot
    assert slot is not None
    remove_request = slot.remove_request

    def remove_and_tell(request: Request) -> None:
        try:
            on_done(request)
        finally:
            remove_request(request)

    slot.remove_request = remove_and_tell  # type: ignore[method-assign]  # the seam itself


def process_output_in_line(engine: ExecutionEngine) -> None:
    """Process the output of callbacks one by one, as CONCURRENT_ITEMS = 1 means, without tasks.

    To be called while the spider is being opened.
    """
    scraper = engine.scraper

    async def handle_spider_output(
        result: Iterable[Any] | AsyncIterator[Any], request: Request, response: Response | Failure
    ) -> None:
        process = scraper._process_spidermw_output_async
        if isinstance(result, AsyncIterator):
            async for output in aiter_errback(
                result, scraper.handle_spider_error, request, response
            ):
                await process(output, response)
        else:
            outputs = iter_errback(result, scraper.handle_spider_error, request, response)
            for number, output in enumerate(outputs, start=1):
                await process(output, response)
                if number % _OUTPUTS_AT_ONCE == 0:
                    await asyncio.sleep(0)

    scraper.handle_spider_output_async = handle_spider_output  # type: ignore[method-assign]  # the seam itself


def scraper_is_full(engine: ExecutionEngine) -> bool:
    """Whether the pages in process are as many bytes as the engine lets in."""
    slot = engine.scraper.slot
    return slot is not None and slot.needs_backout()


def go_on_for_pages_in_process(engine: ExecutionEngine, wait: Callable[[], bool]) -> None:
    """Let the engine ask for requests also while the scraper is full, if pages in it *wait* for
    downloads that come by way of the scheduler: otherwise both would wait for each other.

    To be called while the spider is being opened.
    """

    def needs_backout() -> bool:
        return (
            not engine.running
            or engine._slot is None
            or is_closing(engine)
            or engine.downloader.needs_backout()
            or (scraper_is_full(engine) and not wait())
        )

    engine.needs_backout = needs_backout  # type: ignore[method-assign]  # the seam itself


async def process_item(engine: ExecutionEngine, item: object) -> None:
    """Send *item*, which came of no response, through the item pipelines.

    The scraper counts such items, but looks only after those of a response whether the last one
    has ended that it waits for to close.
    """
    scraper = engine.scraper
    await scraper.start_itemproc_async(item, response=None)
    if scraper.slot is not None:
        scraper._check_if_closing()


def never_opened(engine: ExecutionEngine) -> None:
    """The scheduler could not be opened, so nothing else was: there is nothing to close.

    Scrapy would close all of it, and log tracebacks of parts that were never opened in place of
    what is wrong.
    """

    async def close(*, reason: str = "") -> None:  # noqa: ARG001  # the engine's interface
        engine.downloader.close()

    engine.close_async = close  # type: ignore[method-assign]  # the seam itself


def undo_failed_opening(engine: ExecutionEngine, undo: Callable[[], Awaitable[None]]) -> None:
    """Close what was opened, and call *undo*, when a processing module cannot be opened.

    To be called while the spider is being opened. As with ``never_opened``, what Scrapy would log
    while it closes all the rest would hide what is wrong.
    """
    open_spider = engine.scraper.open_spider_async

    async def open_or_undo() -> None:
        try:
            await open_spider()
        except CloseSpider:
            raise
        except Exception:
            never_opened(engine)
            try:
                await engine.scraper.close_spider_async()
            except Exception:
                logger.debug("Processing modules that were never opened", exc_info=True)
            await undo()
            raise

    engine.scraper.open_spider_async = open_or_undo  # type: ignore[method-assign]  # the seam itself


def is_closing(engine: ExecutionEngine) -> bool:
    """Whether the engine takes no new requests any more and waits for those under way."""
    return engine._slot is not None and engine._slot.closing is not None


def abort_downloads(engine: ExecutionEngine) -> None:
    """Give up the downloads under way; their URLs go back to the frontier."""
    abort = getattr(engine.downloader, "abort", None)
    if abort is not None:  # not with a DOWNLOADER of the user's
        abort()


class PlainRedirectMiddleware(RedirectMiddleware):
    """Scrapy's for ordinary Requests of a user's spider; the Referer of the original is dropped. A
    redirect to where no link may lead (a mail server's port) is not followed."""

    def __init__(self, settings: BaseSettings) -> None:
        whole(settings, "REDIRECT_MAX_TIMES", at_least=0)  # Scrapy's own error names no setting
        super().__init__(settings)
        self._filters = redirect_filters_of(settings, schemes=followed_schemes(settings))

    def process_response(  # type: ignore[override]  # Scrapy warns of its third parameter
        self, request: Request, response: Response
    ) -> Request | Response:
        answer = super().process_response(request, response)
        if isinstance(answer, Request) and self._filters.refusal(answer.url, 0) is not None:
            self.crawler.stats.inc_value("redirects/refused")
            return response
        return answer

    def handle_referer(self, request: Request, response: Response) -> None:  # noqa: ARG002  # Scrapy's interface
        request.headers.pop("Referer", None)

    def _engine_started(self) -> None:
        """No warning that the Referer will be dropped: it is meant to be."""


class MercatorDownloader:
    """``DOWNLOADER`` without per-host slots: middlewares, then the handler of the URL's scheme.

    It marks in ``request.meta["fetch"]`` (fetch.py) whether anything was sent and how long it
    took, and hands the host back to the frontier at the end of the download, before callbacks
    and pipelines run: the host's pause begins with the last byte.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._signals = crawler.signals
        self._concurrency = whole(crawler.settings, "CONCURRENT_REQUESTS", at_least=0)
        # Seconds; the frontier takes back what is not done in its lease, and hands it out again.
        lease = number(crawler.settings, "FRONTIER_LEASE_SECS", _LEASE_SECS, at_least=1)
        self._longest = _OF_LEASE * lease
        self.active: set[Request] = set()
        # The tasks that may be cancelled, with the requests whose middlewares they run.
        self._tasks: dict[asyncio.Task[Any], Request] = {}
        # Extensions made for the stock downloader look for slots; there are none.
        self.slots: dict[str, Any] = {}
        self.handlers = DownloadHandlers(crawler)
        self.middleware = build_from_crawler(DownloaderMiddlewareManager, crawler)

    def fetch(self, request: Request) -> Deferred[Response | Request]:
        """Start the download; the middlewares may answer with another Request."""
        fetch = fetch_of(request)
        asides = getattr(self._crawler.engine.scheduler, "asides", None)
        if fetch is None and asides is not None:  # not with a SCHEDULER of the user's
            task = asyncio.current_task()
            outer = None if task is None else self._tasks.get(task)
            return deferred_from_coro(self._fetch_aside(request, asides, outer))
        # Now, not when the task first runs: the engine asks needs_backout() in the same breath.
        self.active.add(request)
        if fetch is not None and fetch.refusal:
            return deferred_from_coro(self._refuse(request, fetch))
        return deferred_from_coro(self._fetch(request, fetch))

    async def _fetch_aside(
        self, request: Request, asides: Asides, outer: Request | None
    ) -> Response | Request:
        """A request that somebody gave to the engine past the scheduler: it waits for its host's
        turn, and is no worker's business until then."""
        fetch = await self._turn(request, asides, outer)
        self.active.add(request)
        return await self._fetch(request, fetch)

    async def _turn(self, request: Request, asides: Asides, outer: Request | None) -> Fetch:
        """As ``Asides.turn``. When a middleware of *outer* waits for it, *outer* holds a host and a
        worker that the turn may need."""
        holder = None if outer is None else fetch_of(outer)
        if outer is None or holder is None or holder.released:
            return await asides.turn(request)
        if asides.is_of(holder.lease.entry.host, request):
            if holder.on_wire is None or holder.robots_url:
                raise IgnoreRequest(f"{request.url}: its host is in process for {outer}")
            holder.end_download()  # it has answered
        self.active.discard(outer)
        try:
            return await asides.turn(request)
        finally:
            if not holder.released:
                self.active.add(outer)

    async def _refuse(self, request: Request, fetch: Fetch) -> Response:
        """Fail *request* as Scrapy's own robots.txt middleware does: its errback is told."""
        self.active.discard(request)
        fetch.refused()
        fetch.end_download()
        raise IgnoreRequest(f"{request.url}: {fetch.refusal}")

    async def _fetch(self, request: Request, fetch: Fetch | None) -> Response | Request:
        task = asyncio.current_task()
        if fetch is not None and task is not None:
            self._tasks[task] = request
            fetch.abort = task.cancel
        try:
            result = await self.middleware.download_async(self._download, request)
        except asyncio.CancelledError:
            if fetch is None:
                raise
            # Nobody is told: the request goes back to the frontier and will have its end there.
            # And Scrapy's scraper never comes back from an exception that is no Exception.
            fetch.abandoned = True
            request.errback = None
            raise IgnoreRequest(f"{request.url}: broken off") from None
        except Exception as error:
            if fetch is not None:
                fetch.failed(error)
            raise
        else:
            if fetch is not None:
                fetch.answered(result)
            return result
        finally:
            self.active.discard(request)
            if task is not None:
                self._tasks.pop(task, None)
            if fetch is not None:
                fetch.abort = None
                fetch.end_download()

    async def _download(self, request: Request) -> Response:
        spider: Spider | None = self._crawler.spider
        self._tell(signals.request_reached_downloader, request=request, spider=spider)
        fetch = fetch_of(request)
        TURN.set("" if fetch is None else fetch.address)
        if fetch is not None:
            if request.meta.get("download_timeout", 0) > self._longest:
                request.meta["download_timeout"] = self._longest
            fetch.begin_download()
        try:
            response = await self.handlers.download_request_async(request)
        except Exception as error:
            if fetch is not None:
                fetch.transferred(error)
            raise
        else:
            if fetch is not None:
                fetch.transferred(response)
            self._tell(
                signals.response_downloaded, response=response, request=request, spider=spider
            )
            return response
        finally:
            if fetch is not None:
                fetch.end_transfer()
            self._tell(signals.request_left_downloader, request=request, spider=spider)

    def _tell(self, signal: object, **facts: Any) -> None:
        if is_heard(self._signals, signal):
            self._signals.send_catch_log(signal, **facts)

    def needs_backout(self) -> bool:
        """Whether all workers are busy; a concurrency of 0 means no limit."""
        return 0 < self._concurrency <= len(self.active)

    def abort(self) -> None:
        """Cancel the downloads of the frontier's requests."""
        for task in list(self._tasks):
            task.cancel()

    def close(self) -> None:
        """The handlers close themselves when the engine stops."""
