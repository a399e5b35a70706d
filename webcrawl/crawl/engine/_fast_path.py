"""The fast path: replacements for private parts of Scrapy 2.19 that only make a crawl faster.

``_engine.takes_fast_path`` says whether it may be used. Without it the same pages take Scrapy's own
path. A test compares the source of what is replaced with the version that was read.

* ``_Service``: between the scheduler and the item pipelines Scrapy has a dozen Deferreds, four
  tasks and three turns of the loop for each page: a quarter of all CPU time.
* its ``handle_output``: for each response Scrapy starts a queue and two tasks or more. With one
  Page, that is a tenth of all CPU time.
* ``DirectSignals``: Scrapy starts a task for each handler of a signal, which is 27 us for an item.
* ``schedule``: Scrapy asks the scheduler in the next turn of the loop after each request. Here it
  waits a little, so that several requests start together. Running the same code for one after
  another keeps it in the processor's caches: no fewer instructions, but 2 % less time for a page
  with a host of its own.
* ``_Middlewares``, ``_through_handler``, ``_through_pipelines``: for each call of a method Scrapy
  makes a coroutine and a name for warnings, and parses each URL for its scheme.

Each was measured alone, and saves 2 % of a page or more: docs/why/decisions.md.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator
from functools import lru_cache
from types import CodeType, MethodType
from typing import TYPE_CHECKING, Any, cast

from pydispatch.dispatcher import Any as Any_
from pydispatch.dispatcher import connections, getAllReceivers, liveReceivers
from pydispatch.robustapply import robustApply
from scrapy import Request, signals
from scrapy.downloadermiddlewares.defaultheaders import DefaultHeadersMiddleware
from scrapy.downloadermiddlewares.useragent import UserAgentMiddleware
from scrapy.exceptions import _InvalidOutput
from scrapy.http import Headers, Response
from scrapy.pipelines import ItemPipelineManager
from scrapy.signalmanager import SignalManager
from scrapy.utils.defer import (
    _process_pending_io,
    aiter_errback,
    ensure_awaitable,
    iter_errback,
)
from scrapy.utils.log import logformatter_adapter
from scrapy.utils.misc import warn_on_generator_with_return_value
from scrapy.utils.python import global_object_name, to_bytes
from scrapy.utils.spider import iterate_spider_output
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from webcrawl.crawl.engine.micro_batch import TOGETHER_SECS, MicroBatch
from webcrawl.signals import has_receivers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable

    from scrapy.core.downloader.handlers import DownloadHandlers
    from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
    from scrapy.core.engine import ExecutionEngine

logger = logging.getLogger(__name__)

# A callback may yield thousands of Requests without ever waiting, at 0.1 ms each.
_OUTPUTS_AT_ONCE = 100
# The methods of spider middlewares that every page goes through.
_OF_PAGES = ("process_spider_input", "process_spider_output", "process_spider_exception")
# The code of Scrapy's wrappers that only warn of an argument no longer passed.
_WARNS_OF_SPIDER = cast("Any", UserAgentMiddleware.process_request).__code__


def take_fast_path(engine: ExecutionEngine) -> None:
    """Replace the engine's own functions with those below.

    To be called while the spider is being opened.
    """
    service = _Service(engine)
    assert engine._slot is not None
    nextcall: Any = engine._slot.nextcall
    loop = asyncio.get_running_loop()

    def schedule() -> None:
        if nextcall._call is None:
            nextcall._call = loop.call_later(TOGETHER_SECS, nextcall)

    nextcall.schedule = schedule
    engine._start_scheduled_request = service.start_request  # type: ignore[method-assign]  # the seam itself
    if engine.settings.getint("CONCURRENT_ITEMS") == 1:
        engine.scraper.handle_spider_output_async = service.handle_output  # type: ignore[method-assign]  # likewise
    downloader: Any = engine.downloader
    downloader.handlers.download_request_async = _through_handler(downloader.handlers)
    pipelines = engine.scraper.itemproc
    if type(pipelines) is ItemPipelineManager and not pipelines._mw_methods_requiring_spider:
        pipelines.process_item_async = _through_pipelines(pipelines)  # type: ignore[method-assign,assignment]  # likewise
    if not downloader.middleware._mw_methods_requiring_spider:
        downloader.middleware.download_async = _Middlewares(downloader.middleware).download


class _Service:
    """Takes a request through engine and scraper, with Scrapy's signals, log lines and counts.

    Rare cases take Scrapy's path from the callback on: failures, and all pages if there are spider
    middlewares.

    Pages advance in step: all that arrived together are taken over, then all are read, then the
    links of all are submitted (the spider waits before that). This saves a sixth of all CPU time.
    """

    def __init__(self, engine: ExecutionEngine) -> None:
        self._engine = engine
        self._scraper = scraper = engine.scraper
        self._downloader: Any = engine.downloader
        self._spider = cast("Any", engine.crawler.spider)
        self._tasks: set[asyncio.Task[None] | None] = set()
        self._reading = MicroBatch()
        methods = scraper.spidermw.methods
        self._has_spider_middlewares = any(any(methods[name]) for name in _OF_PAGES)
        self._signals = scraper.signals = DirectSignals(engine.signals.sender)
        warn_on_generator_with_return_value(self._spider, self._spider._parse)

    def start_request(self) -> bool:
        """Start the next request; return False if the scheduler has none now.

        This is the engine's ``_start_scheduled_request``.
        """
        slot = self._engine._slot
        assert slot is not None
        request = slot.scheduler.next_request()
        if request is None:
            if has_receivers(self._engine.signals, signals.scheduler_empty):
                self._signals.send_catch_log(signals.scheduler_empty)
            return False
        slot.add_request(request)
        serving = self._serve(request, self._downloader.download(request))
        # asyncio.create_task would give each task a name.
        self._tasks.add(asyncio.get_running_loop().create_task(serving))
        return True

    async def _serve(self, request: Request, download: Awaitable[Response | Request]) -> None:
        slot = self._engine._slot
        assert slot is not None
        result: Response | Request | Failure
        try:
            try:
                result = await download
            except Exception:  # noqa: BLE001  # it goes to the errback
                result = Failure()  # type: ignore[no-untyped-call]  # Twisted's
            slot.nextcall.schedule()  # a worker is free
            if isinstance(result, Request):
                self._engine.crawl(result)
            else:
                await self._scrape(result, request)
        except Exception:
            logger.exception("Error while processing %s", request, extra={"spider": self._spider})
        finally:
            self._tasks.discard(asyncio.current_task())
            slot.remove_request(request)
            slot.nextcall.schedule()

    async def _scrape(self, result: Response | Failure, request: Request) -> None:
        scraper = self._scraper
        slot = scraper.slot
        assert slot is not None
        size = slot.MIN_RESPONSE_SIZE
        if isinstance(result, Response):
            size = max(len(result.body), size)
            if result.request is None:
                result.request = request
            self._announce_response(result, result.request)
        slot.active.add(request)
        slot.active_size += size
        try:
            if self._has_spider_middlewares or not isinstance(result, Response):
                await scraper._scrape(result, request)
            else:
                await self._call(result, request)
        finally:
            slot.active.remove(request)
            slot.active_size -= size
            scraper._check_if_closing()

    def _announce_response(self, response: Response, request: Request) -> None:
        spider = self._spider
        line = self._engine.logformatter.crawled(request, response, spider)
        if line is not None:
            logger.log(*logformatter_adapter(line), extra={"spider": spider})
        self._signals.send_catch_log(
            signals.response_received, response=response, request=request, spider=spider
        )

    async def _call(self, response: Response, request: Request) -> None:
        assert response.request is not None
        callback = response.request.callback
        try:
            if callback is None:
                callback = self._spider._parse
            else:
                warn_on_generator_with_return_value(self._spider, callback)
            await self._reading.wait()
            output: Any = callback(response, **response.request.cb_kwargs)
            if inspect.iscoroutine(output):
                output = await output
            if type(output) is not list:
                output = await ensure_awaitable(iterate_spider_output(output))
        except Exception:  # noqa: BLE001  # a callback may raise anything
            failure: Failure = Failure()  # type: ignore[no-untyped-call]  # Twisted's
            self._scraper.handle_spider_error(failure, request, response)
        else:
            await self._scraper.handle_spider_output_async(output, request, response)

    async def handle_output(
        self,
        result: Iterable[Any] | AsyncIterator[Any],
        request: Request,
        response: Response | Failure,
    ) -> None:
        """Process the output of a callback one by one, without tasks.

        This is what CONCURRENT_ITEMS = 1 means.
        """
        scraper = self._scraper
        process, on_error = scraper._process_spidermw_output_async, scraper.handle_spider_error
        if isinstance(result, AsyncIterator):
            async for output in aiter_errback(result, on_error, request, response):
                await process(output, response)
            return
        outputs = iter_errback(result, on_error, request, response)
        for number, output in enumerate(outputs, start=1):
            await process(output, response)
            if number % _OUTPUTS_AT_ONCE == 0:
                await asyncio.sleep(0)


class _Middlewares:
    """The downloader middlewares of *manager*, called without a coroutine for each."""

    def __init__(self, manager: DownloaderMiddlewareManager) -> None:
        self._manager = manager
        methods = cast("dict[str, Iterable[Any]]", manager.methods)
        self._of_requests = [*map(_direct, methods["process_request"])]
        self._of_responses = [*map(_direct, methods["process_response"])]

    async def download(
        self, download: Callable[[Request], Awaitable[Response]], request: Request
    ) -> Response | Request:
        """Do the manager's ``download_async``."""
        result: Any
        try:
            for method in self._of_requests:
                result = method(request=request)
                if result is not None:
                    result = await _returned(result, method)
                    if result is not None:
                        break
            else:
                result = await download(request)
        except Exception as error:  # noqa: BLE001  # a middleware may turn it into a response
            await _process_pending_io()
            result = await self._manager._process_exception(error, request)
        for method in self._of_responses:
            if isinstance(result, Request):
                break
            result = method(request=request, response=result)
            if not isinstance(result, Response):
                result = await _returned(result, method)
                if result is None:
                    raise _InvalidOutput(f"{method.__qualname__} returned None, not a Response")
        return cast("Response | Request", result)


async def _returned(result: Any, method: Any) -> Any:
    """Return the Response, Request or None that *method* of a middleware returned."""
    if not isinstance(result, Response | Request):
        result = await ensure_awaitable(result, _warn=global_object_name(method))
    if not isinstance(result, Response | Request | None):
        kind = type(result).__name__
        raise _InvalidOutput(f"{method.__qualname__} returned {kind}, not a Response or Request")
    return result


def _direct(method: Any) -> Any:
    """Return *method* of a middleware without Scrapy's wrapper.

    For middlewares that set header fields, return a function that does the same. Scrapy would
    normalize the names and values of these fields for each request.
    """
    middleware = method.__self__ if inspect.ismethod(method) else None
    if type(middleware) is DefaultHeadersMiddleware:
        fields = [*Headers(middleware._headers).items()]

        def set_defaults(request: Request) -> None:
            for name, values in fields:
                dict.setdefault(request.headers, name, [*values])

        return set_defaults
    if type(middleware) is UserAgentMiddleware:

        def set_agent(request: Request) -> None:
            if middleware.user_agent:
                dict.setdefault(request.headers, b"User-Agent", [to_bytes(middleware.user_agent)])

        return set_agent
    if middleware is not None and getattr(method, "__code__", None) is _WARNS_OF_SPIDER:
        return MethodType(method.__wrapped__, middleware)
    return method


def _through_handler(
    handlers: DownloadHandlers,
) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """Return a function that downloads with *handlers*, without an extra coroutine."""
    any_handler = handlers.download_request_async

    def download(request: Request) -> Coroutine[Any, Any, Response]:
        scheme = request.url.partition(":")[0]
        handler = handlers._handlers.get(scheme)
        if handler is None or scheme in handlers._old_style_handlers:
            return any_handler(request)
        return handler.download_request(request)

    return download


def _through_pipelines(pipelines: ItemPipelineManager) -> Callable[[Any], Coroutine[Any, Any, Any]]:
    """Return a function that takes an item through all *pipelines*, without Scrapy's wrappers."""
    methods = cast("Iterable[Any]", pipelines.methods["process_item"])

    async def process(item: Any) -> Any:
        for method in methods:
            item = method(item)
            item = await (
                item
                if inspect.iscoroutine(item)
                else ensure_awaitable(item, _warn=global_object_name(method))
            )
        return item

    return process


class DirectSignals(SignalManager):
    """Signals whose handlers are called one after the other, without a task for each."""

    def send_catch_log(self, signal: Any, **named: Any) -> list[tuple[Any, Any]]:
        """Send *signal* as Scrapy does, at a quarter of the cost."""
        named |= {"signal": signal, "sender": self.sender}
        return [(receiver, _call_receiver(receiver, named)) for receiver in self._receivers(signal)]

    async def send_catch_log_async(self, signal: Any, **named: Any) -> list[tuple[Any, Any]]:
        """Send *signal* as Scrapy does, and await the handlers."""
        named |= {"signal": signal, "sender": self.sender}
        answers = []
        for receiver in self._receivers(signal):
            answer = _call_receiver(receiver, named)
            if _is_awaitable(answer):
                try:
                    answer = await (
                        answer
                        if inspect.iscoroutine(answer)
                        else ensure_awaitable(answer, _warn=global_object_name(receiver))
                    )
                except Exception as error:  # noqa: BLE001  # logged
                    answer = _log_caught(receiver, named, error)
            answers.append((receiver, answer))
        return answers

    def _receivers(self, signal: Any) -> list[Any]:
        own = connections.get(id(self.sender), {})
        if id(Any_) in connections or Any_ in own:  # handlers for all senders or signals
            return [*liveReceivers(getAllReceivers(self.sender, signal))]
        return [*liveReceivers(own.get(signal, ()))]


def _call_receiver(receiver: Any, named: dict[str, Any]) -> Any:
    code = getattr(getattr(receiver, "__func__", receiver), "__code__", None)
    try:
        if code is None or code.co_flags & inspect.CO_VARKEYWORDS:
            return robustApply(receiver, **named)
        return receiver(**{name: named[name] for name in _parameters_of(code) if name in named})
    except Exception as error:  # noqa: BLE001  # logged
        return _log_caught(receiver, named, error)


@lru_cache(256)
def _parameters_of(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount]


def _log_caught(receiver: Any, named: dict[str, Any], error: Exception) -> Exception:
    message = "Error caught on signal handler: %s"
    logger.error(message, receiver, exc_info=error, extra={"spider": named.get("spider")})
    return error


def _is_awaitable(answer: object) -> bool:
    return answer is not None and (inspect.isawaitable(answer) or isinstance(answer, Deferred))
