"""The downloader: runs middlewares and the protocol module, then returns the host to the frontier.

A lease passes through it after the dispatcher and before completion. The engine builds it and calls
``fetch``; requests from the frontier come through ``download``, see _fast_path.py. Scrapy's
downloader keeps a slot with timers for every host. The frontier makes that unnecessary: a host in
process is not in its heap, so two requests to one host are impossible, not merely delayed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.core.downloader.handlers import DownloadHandlers
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import build_from_crawler

from webcrawl.configuration.values import flag, number, whole_number
from webcrawl.crawl.lease.fetch import Fetch, fetch_of
from webcrawl.crawl.lease.stored_exchange import restore
from webcrawl.crawl.links.page_intake import PageState
from webcrawl.items import is_success
from webcrawl.net.fence import FENCE, pass_fence
from webcrawl.net.guard import BOUND_ADDRESS
from webcrawl.net.http.request import ADDED
from webcrawl.net.latencies import latencies_of
from webcrawl.net.outcomes import UnverifiedError, errback_error, is_stale
from webcrawl.net.rates import COUNT_RECEIVED
from webcrawl.signals import has_receivers

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from webcrawl.crawl.task.side_downloads import SideDownloads

# Share of a lease that a download may take if its request has its own timeout.
_LEASE_SHARE = 0.9


class MercatorDownloader:
    """``DOWNLOADER`` without per-host slots, for ``MercatorScheduler`` only.

    It records in ``request.meta["fetch"]`` (fetch.py) whether anything was sent, how long it took
    and the result. It releases the host at the end of the download, before callbacks and pipelines
    run, so the host's pause begins with the last byte.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._signals = crawler.signals
        self._stats = crawler.stats
        self._first_byte = latencies_of(crawler).first_byte
        #: Number of workers; 0 for any number.
        self.total_concurrency = whole_number(crawler.settings, "CONCURRENT_REQUESTS", at_least=0)
        # Maximum timeout of a download, in seconds. The frontier takes back a URL that is not
        # completed within its lease.
        lease = number(crawler.settings, "FRONTIER_LEASE_SECS", at_least=1)
        self._max_secs = _LEASE_SHARE * lease
        #: Requests that occupy a worker.
        self.active: set[Request] = set()
        # The tasks of downloads, with the requests whose middlewares they run.
        self._tasks: dict[asyncio.Task[Any], Request] = {}
        # Always empty: add-ons for Scrapy's downloader expect this attribute.
        self.slots: dict[str, Any] = {}
        # The same counts as those of the middleware DownloaderStats. That would also serialize
        # each request and response to find out its size, so it is usually switched off.
        self._is_counting = not flag(crawler.settings, "DOWNLOADER_STATS")
        self.handlers = DownloadHandlers(crawler)
        self.middleware = build_from_crawler(DownloaderMiddlewareManager, crawler)

    def fetch(self, request: Request) -> Deferred[Response | Request]:
        """Download *request*; return a Deferred, as Scrapy expects. See ``download``."""
        return deferred_from_coro(self.download(request))

    def download(self, request: Request) -> Coroutine[Any, Any, Response | Request]:
        """Return the download of *request*, to be awaited. It occupies a worker from now on.

        The middlewares may return another Request instead of a response.
        """
        fetch = fetch_of(request)
        if fetch is None:
            task = asyncio.current_task()
            return self._fetch_in_turn(request, None if task is None else self._tasks.get(task))
        # Not left to the task, because the engine calls needs_backout() before the task first runs.
        self.active.add(request)
        return self._fetch(request, fetch)

    async def _fetch_in_turn(self, request: Request, outer: Request | None) -> Response | Request:
        """Download *request*, which bypassed the scheduler, when it is its host's turn.

        The request occupies no worker while it waits. *outer* is the request whose middleware has
        sent it, if any.
        """
        fetch = await self._wait_for_turn(request, outer)
        self.active.add(request)
        try:
            return await self._fetch(request, fetch)
        except IgnoreRequest as error:
            if not is_stale(error.__cause__):
                raise

        # The request was lost on a reused connection: send it again, in another turn.
        self._process.parts.leases.completion.done(request)
        fetch = await self._wait_for_turn(request, outer)
        self.active.add(request)
        return await self._fetch(request, fetch)

    async def _wait_for_turn(self, request: Request, outer: Request | None) -> Fetch:
        """Wait until *request* may be sent to its host, and return its Fetch.

        While a middleware of *outer* waits, *outer* holds a host and a worker, which *request* may
        need. So its worker is free meanwhile, and its host is released if it is the same one.
        Raises IgnoreRequest if that host has not answered *outer* yet.
        """
        side_downloads: SideDownloads = self._process.parts.leases.side_downloads
        outer_fetch = None if outer is None else fetch_of(outer)
        if outer is None or outer_fetch is None or outer_fetch.is_released:
            return await side_downloads.turn(request)

        if side_downloads.is_for_host(outer_fetch.lease.entry.host, request):
            # The host is not released before it has answered, nor while its robots.txt is fetched,
            # because no request may be sent before the rules are known.
            if outer_fetch.on_wire is None or outer_fetch.robots_url:
                raise IgnoreRequest(f"{request.url}: its host is busy with {outer}")
            outer_fetch.release_host()  # it has answered

        self.active.discard(outer)
        try:
            return await side_downloads.turn(request)
        finally:
            if not outer_fetch.is_released:
                self.active.add(outer)

    async def _fetch(self, request: Request, fetch: Fetch) -> Response | Request:
        """Pass *request* through the middlewares to the handler, and record the result in *fetch*.

        Raises the error of the download, or IgnoreRequest when the URL will be requested again.
        """
        task: Any = asyncio.current_task()
        self._tasks[task] = request
        fetch.abort = task.cancel

        try:
            if fetch.refusal:  # nothing is sent, but the errback is called as if it had failed
                raise errback_error(fetch.refusal)(f"{request.url}: {fetch.refusal}")  # noqa: TRY301  # noted below
            if fetch.stored is not None:
                result: Response | Request = restore(fetch.stored.exchange, request, fetch)
            else:
                result = await self.middleware.download_async(self._download, request)
        except asyncio.CancelledError:
            # The errback is not called, because the request goes back to the frontier. The error is
            # replaced, because Scrapy's scraper never recovers from one that is not an Exception.
            fetch.page.raise_state(PageState.PUT_BACK)
            fetch.end_download(None)
            request.errback = None
            task.uncancel()  # the steps after the download continue
            raise IgnoreRequest(f"{fetch.url}: aborted") from None
        except Exception as error:
            # The request was lost on a reused connection, or its credentials were withheld. In the
            # host's next turn it is sent again, or its URL is parked.
            is_put_back = is_stale(error) or isinstance(error, UnverifiedError)
            if is_put_back and not fetch.robots_url:
                fetch.page.raise_state(PageState.PUT_BACK)
                fetch.end_download(error)
                request.errback = None
                raise IgnoreRequest(str(error)) from error
            fetch.end_download(error)
            raise
        else:
            fetch.end_download(result)
            return self._robots_response(result, request) if fetch.robots_url else result
        finally:
            self.active.discard(request)
            self._tasks.pop(task, None)
            fetch.abort = None

    @staticmethod
    def _robots_response(result: Response | Request, request: Request) -> Response:
        """Return *result* as the response for a robots.txt; a middleware must not replace it."""
        if isinstance(result, Request):
            raise IgnoreRequest(f"{request.url}: a middleware has replaced it by {result}")
        result.request = request
        return result

    async def _download(self, request: Request) -> Response:
        """Send *request* with the handler for its scheme, and record times, result and signals."""
        spider: Spider | None = self._crawler.spider
        self._send_signal(signals.request_reached_downloader, request=request, spider=spider)
        fetch: Any = fetch_of(request)
        if request.meta.get("download_timeout", 0) > self._max_secs:
            request.meta["download_timeout"] = self._max_secs

        # These context variables pass facts about the contact to the protocol modules.
        FENCE.set(self._process.parts.hooks.fence)
        pass_fence()  # raises CancelledError if this process may not contact the host any more
        BOUND_ADDRESS.set(fetch.address)
        added = self._process.parts.services.rules.hosts.additions_for(fetch.url)
        if not fetch.has_credentials:
            added = added.without_headers()
        ADDED.set(added)
        COUNT_RECEIVED.set(self._process.parts.services.rules.rates.count_received)

        fetch.begin_download()
        self._count("downloader/request_count")
        try:
            response = await self.handlers.download_request_async(request)
        except BaseException as error:
            self._record_result(fetch, error)
            raise
        else:
            fetch.is_signed = any(
                name.lower() == b"signature-input"
                for name, _ in request.meta.get("wire_request_headers", ())
            )
            self._record_result(fetch, response)
            if "time" in response.flags and not is_success(response.status):
                # The body of an error did not come in time. It does not matter, and the host was
                # not busy sending it, so only the time to the response's head counts.
                fetch.took = request.meta["download_latency"]
            self._first_byte.add(request.meta.get("download_latency", fetch.took))
            self._send_signal(
                signals.response_downloaded, response=response, request=request, spider=spider
            )
            return response
        finally:
            self._send_signal(signals.request_left_downloader, request=request, spider=spider)

    def _record_result(self, fetch: Fetch, result: Response | BaseException) -> None:
        """Record *result* in *fetch*, and count it; an aborted download has no result."""
        if isinstance(result, Response):
            fetch.note_transfer(result)
            self._count("downloader/response_count")
            self._count(f"downloader/response_status_count/{result.status}")
        elif isinstance(result, Exception):
            fetch.note_transfer(result)
            self._count("downloader/exception_count")
        else:
            fetch.note_transfer(None)

    @cached_property
    def _process(self) -> Any:
        scheduler: Any = self._crawler.engine.scheduler
        return scheduler.process

    def _count(self, name: str) -> None:
        if self._is_counting:
            self._stats.inc_value(name)

    def _send_signal(self, signal: object, **facts: Any) -> None:
        if has_receivers(self._signals, signal):
            self._signals.send_catch_log(signal, **facts)

    def get_slot_key(self, request: Request) -> str:
        """Return the slot that an add-on has set, or the host, like Scrapy."""
        return str(request.meta.get("download_slot") or urlparse_cached(request).hostname or "")

    def _get_slot(self, request: Request) -> tuple[str, Any]:
        """Return a slot for add-ons that set a slot's delay; the frontier ignores that delay."""
        return self.get_slot_key(request), SimpleNamespace(concurrency=1, delay=0.0, jitter=0.0)

    def needs_backout(self) -> bool:
        """Return whether all workers are busy; a concurrency of 0 means no limit."""
        return 0 < self.total_concurrency <= len(self.active)

    def close(self) -> None:
        """Do nothing: the handlers close themselves when the engine stops."""
