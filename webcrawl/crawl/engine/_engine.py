"""Private parts of Scrapy's engine that the crawl needs, because no public name offers them.

Together with ``_fast_path``, this is the only module that uses Scrapy's private names, as they are
in Scrapy 2.19. With another version the crawl takes Scrapy's own path, which is slower; with a
version that lacks one of these names it does not start (``check_engine``). Functions that replace a
part of an engine must be called while the spider is being opened: the engine's slot exists only
from then on.

* ``wake`` and ``Alarm``: when ``next_request()`` returned None the engine sleeps until its 5 s
  heartbeat; a polite frontier knows when the next host is ready and must wake it then.
* ``watch_requests``: no signal marks the end of a request on every path (response, exception,
  ignored by a middleware, replaced by another request, dropped item). But the engine's slot
  removes a request exactly once, after its download, callback and item pipelines.
* ``keep_asking_for_waiting_pages``: the engine asks for no requests while many pages are in
  process; pages that wait for a download of their own would wait forever.
* ``bypass_spider_middlewares``: spider middlewares expect pages; Scrapy's never see a robots.txt.
* ``stop_when_opened``: Scrapy ends the process on a signal that arrives while the spider is opened.
* ``skip_closing``, ``undo_failed_opening``: Scrapy closes parts that were never opened, which logs
  tracebacks.
* ``name_failed_closing``: Scrapy does not say which processing module could not be closed.
* ``PlainRedirectMiddleware``, ``PlainMetaRefreshMiddleware``: Scrapy's own middlewares warn at
  every start if the costly RefererMiddleware is switched off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Any, cast

import scrapy
from scrapy import Request
from scrapy.core.engine import ExecutionEngine
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.redirect import MetaRefreshMiddleware, RedirectMiddleware
from scrapy.exceptions import CloseSpider
from scrapy.http import Response
from scrapy.settings import BaseSettings
from scrapy.spidermiddlewares.referer import RefererMiddleware
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.asyncio import CallLaterResult, call_later

from webcrawl.clock import TimeSource
from webcrawl.configuration.values import flag, whole_number
from webcrawl.crawl.engine.user_messages import print_error
from webcrawl.crawl.links.url_rules import redirect_filters_of
from webcrawl.errors import FatalError, module_of, path_of
from webcrawl.net.guard import followed_schemes

logger = logging.getLogger(__name__)

#: The Scrapy version whose private parts are known; any patch release of it will do.
SCRAPY = "2.19"
_OPENING_POLL_SECS = 0.01
# Attributes of an engine being opened that the functions below use.
_USED_ATTRIBUTES = attrgetter(
    *("_slot.remove_request", "_slot.nextcall.schedule", "_slot.closing", "scheduler"),
    *("close_async", "needs_backout", "scraper.slot", "scraper.open_spider_async"),
    *("scraper.close_spider_async", "scraper.start_itemproc_async", "scraper._check_if_closing"),
    *("scraper.itemproc.process_item_async", "scraper.spidermw.scrape_response_async"),
)


def is_known_scrapy() -> bool:
    """Return whether this is the Scrapy version whose private parts are known."""
    return scrapy.__version__.startswith(f"{SCRAPY}.")


def can_take_fast_path(settings: BaseSettings) -> bool:
    """Return whether FAST_PATH_ENABLED and the version of Scrapy allow the fast path."""
    return flag(settings, "FAST_PATH_ENABLED") and is_known_scrapy()


def check_engine(engine: ExecutionEngine) -> None:
    """Warn of an unknown Scrapy version; raise FatalError if it lacks an attribute used here."""
    if is_known_scrapy():
        return

    version = scrapy.__version__
    try:
        _USED_ATTRIBUTES(engine)
    except AttributeError as error:
        raise FatalError(
            f"Scrapy {version} cannot be used ({error}): install scrapy=={SCRAPY}.*, as "
            "requirements.txt says."
        ) from error
    logger.warning(
        "Scrapy is %s, not %s: the crawl takes Scrapy's own path, which is slower", version, SCRAPY
    )


def wake(engine: ExecutionEngine) -> None:
    """Make *engine* ask the scheduler for requests soon."""
    if engine._slot is not None:
        engine._slot.nextcall.schedule()


class Alarm:
    """A timer that wakes the engine at the earliest time that was set."""

    def __init__(self, *, crawler: Crawler, clock: TimeSource) -> None:
        self._crawler = crawler
        self._clock = clock
        self._timer: CallLaterResult | None = None
        self._at = 0.0

    def set(self, at: float | None) -> None:
        """Wake the engine at the time *at*, in epoch seconds; None means never."""
        if at is None or (self._timer is not None and self._at <= at):
            return
        self.cancel()
        self._at = at
        self._timer = call_later(max(0.0, at - self._clock()), self._ring)

    def cancel(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        wake(self._crawler.engine)


def watch_requests(engine: ExecutionEngine, on_done: Callable[[Request], None]) -> None:
    """Call *on_done* once for every request, when the engine has finished with it."""
    slot: Any = engine._slot
    remove_request = slot.remove_request

    def remove_and_report(request: Request) -> None:
        try:
            on_done(request)
        finally:
            remove_request(request)

    slot.remove_request = remove_and_report  # replaced on purpose


def bypass_spider_middlewares(engine: ExecutionEngine, passes: Callable[[Request], bool]) -> None:
    """Call the callback directly, without spider middlewares, if *passes* accepts the request."""
    middlewares = engine.scraper.spidermw
    scrape: Any = middlewares.scrape_response_async

    async def scrape_response(call: Any, response: Response, request: Request) -> Any:
        if passes(request):
            return await call(response, request)
        return await scrape(call, response, request)

    middlewares.scrape_response_async = scrape_response  # type: ignore[method-assign,assignment]  # replaced on purpose


def scraper_is_full(engine: ExecutionEngine) -> bool:
    """Return whether the pages in process have reached the engine's limit of bytes."""
    slot = engine.scraper.slot
    return slot is not None and slot.needs_backout()


def keep_asking_for_waiting_pages(engine: ExecutionEngine, wait: Callable[[], bool]) -> None:
    """Let the engine ask for requests while the scraper is full, if *wait* returns True.

    *wait* says whether pages in the scraper wait for downloads of their own. The scheduler hands
    these out, so without this the pages and the engine would wait for each other.
    """

    def needs_backout() -> bool:
        """Return whether the engine must not ask for requests now."""
        return (
            not engine.running
            or engine._slot is None
            or is_closing(engine)
            or engine.downloader.needs_backout()
            or (scraper_is_full(engine) and not wait())
        )

    engine.needs_backout = needs_backout  # type: ignore[method-assign]  # replaced on purpose


def bound_items(
    engine: ExecutionEngine, bound: Callable[..., Any], watch: Callable[[Any], Any]
) -> None:
    """Limit and measure the time of items in the pipelines.

    Wraps the whole path of an item with *bound*, and each pipeline's ``process_item`` with *watch*.
    """
    pipelines: Any = engine.scraper.itemproc
    methods = getattr(pipelines, "methods", {}).get("process_item", ())
    for index, method in enumerate(methods):
        methods[index] = watch(method)
        # Scrapy passes the spider to the methods in this set.
        if method in pipelines._mw_methods_requiring_spider:
            pipelines._mw_methods_requiring_spider.add(methods[index])
    pipelines.process_item_async = bound(pipelines.process_item_async)


async def process_item(engine: ExecutionEngine, item: object) -> None:
    """Send *item*, which belongs to no response, through the item pipelines.

    The scraper counts such items, but it checks only after items of a response whether it can close
    now. So that check is made here.
    """
    scraper = engine.scraper
    await scraper.start_itemproc_async(item, response=None)
    if scraper.slot is not None:
        scraper._check_if_closing()


def stop_when_opened(crawler: Crawler) -> None:
    """Let a signal that arrives while the spider is being opened stop the crawl after that.

    Scrapy would stop the running parts, of which there are none yet, and end the process as if it
    had been killed.
    """
    stop = crawler.stop_async

    async def stop_async() -> None:
        engine = crawler.engine
        while crawler.crawling and engine.spider is not None and not engine.running:  # noqa: ASYNC110  # no signal
            await asyncio.sleep(_OPENING_POLL_SECS)
        await stop()

    crawler.stop_async = stop_async  # type: ignore[method-assign]  # replaced on purpose


def skip_closing(engine: ExecutionEngine) -> None:
    """Make closing *engine* do nothing.

    To be called when the scheduler, and so everything after it, failed to open. Scrapy would close
    everything, and its tracebacks of parts that were never opened would hide the actual error.
    """

    async def close(*, reason: str = "") -> None:  # noqa: ARG001  # the engine's interface
        engine.downloader.close()

    engine.close_async = close  # type: ignore[method-assign]  # replaced on purpose


def undo_failed_opening(engine: ExecutionEngine, undo: Callable[[], Awaitable[None]]) -> None:
    """If a processing module cannot be opened, close what was opened and call *undo*.

    As with ``skip_closing``, the messages that Scrapy logs while closing would hide the reason.
    """
    open_spider = engine.scraper.open_spider_async
    close_spider = engine.scraper.close_spider_async

    async def open_or_undo() -> None:
        """Open the processing modules; after an error close those that were opened."""
        try:
            await open_spider()
        except CloseSpider:  # the module ends the crawl on purpose, and Scrapy closes everything
            raise
        except Exception:
            skip_closing(engine)
            try:
                await close_spider()
            except Exception:  # closing a module that was never opened may raise anything
                logger.debug("Processing modules that were never opened", exc_info=True)
            await undo()
            raise

    engine.scraper.open_spider_async = open_or_undo  # type: ignore[method-assign]  # replaced on purpose


def name_failed_closing(engine: ExecutionEngine, then: Callable[[], None]) -> None:
    """If a processing module fails to close, report which one and call *then*.

    Wraps the engine's own closing of the modules. Errors of other parts are raised as before.
    """
    close_spider = engine.scraper.close_spider_async

    async def close_and_report() -> None:
        """Close the processing modules; report which one raised an error."""
        try:
            await close_spider()
        except Exception as error:
            module = module_of(error, "close_spider")
            if module is None:
                raise
            sentence = f"The module {path_of(module)} failed to close: {error!r}"
            logger.exception(sentence)
            print_error(f"webcrawl: {sentence}\n")
            then()

    engine.scraper.close_spider_async = close_and_report  # type: ignore[method-assign]  # replaced on purpose


def is_closing(engine: ExecutionEngine) -> bool:
    """Return whether the engine accepts no more requests and waits for those in process."""
    return engine._slot is not None and engine._slot.closing is not None


class PlainStats(MemoryStatsCollector):
    """``STATS_CLASS`` that does not check each call for a deprecated argument.

    Scrapy's stats collector makes a dozen such checks for a page, 1 us each.
    """

    __getattribute__ = object.__getattribute__


class _PlainMiddleware:
    """Base class of the two middlewares, with the changes to Scrapy's.

    They do not follow redirects to URLs that no link may have, such as a mail server's port. They
    do not warn if the crawl has no RefererMiddleware.
    """

    crawler: Crawler

    def __init__(self, settings: BaseSettings) -> None:
        # Scrapy's own error names no setting.
        whole_number(settings, "REDIRECT_MAX_TIMES", at_least=0)
        super().__init__(settings)  # type: ignore[call-arg]  # Scrapy's, the next base
        self._filters = redirect_filters_of(settings, schemes=followed_schemes(settings))

    def process_response(self, request: Request, response: Response) -> Request | Response:
        """Return the Request that follows a redirect, or *response* if it is not to be followed."""
        if request.meta.get("dont_redirect"):  # set for links
            return response
        result = cast("Any", super()).process_response(request, response)
        if isinstance(result, Request) and self._filters.refusal(result.url, 0) is not None:
            self.crawler.stats.inc_value("redirects/refused")
            return response
        return cast("Request | Response", result)

    def _engine_started(self) -> None:
        self._referer_spider_middleware = self.crawler.get_spider_middleware(RefererMiddleware)


class PlainRedirectMiddleware(_PlainMiddleware, RedirectMiddleware):  # type: ignore[misc]  # Scrapy warns of the third parameter
    """Scrapy's redirects, for ordinary Requests; the frontier redirects links."""


class PlainMetaRefreshMiddleware(_PlainMiddleware, MetaRefreshMiddleware):  # type: ignore[misc]  # as above
    """Scrapy's redirects by ``<meta http-equiv=refresh>``, for ordinary Requests."""
