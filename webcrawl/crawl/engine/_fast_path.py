"""The fast path: replacements for private parts of Scrapy 2.19 that only make a crawl faster.

``_engine.can_take_fast_path`` says whether it may be used. Without it the same pages take Scrapy's
own path. A test checks that the source of the replaced functions has not changed.

* ``_Service``: between the scheduler and the item pipelines Scrapy has a dozen Deferreds, four
  tasks and three turns of the loop for each page: a quarter of all CPU time.
* its ``handle_output``: for each response Scrapy starts a queue and two tasks or more. With one
  Page, that is a tenth of all CPU time.
* ``DirectSignals``: Scrapy starts a task for each handler of a signal, which is 27 us for an item.
* ``schedule``: after each request Scrapy asks the scheduler again in the next turn of the loop.
  Here it waits a little, so that several requests start together. Running the same code for them
  one after another keeps it in the processor's caches. That takes no fewer instructions, but 2 %
  less time if every page is on a different host.
* ``_Middlewares``, ``_through_handler``, ``_through_pipelines``: for each call of a method Scrapy
  creates a coroutine and a name for warnings, and it parses each URL to get the scheme.

Each was measured on its own and saves at least 2 % of the time of a page: docs/why/decisions.md.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from types import MethodType
from typing import Any, cast

from pydispatch.dispatcher import Any as Any_
from pydispatch.dispatcher import connections, getAllReceivers, liveReceivers
from pydispatch.robustapply import robustApply
from scrapy import Request, signals
from scrapy.core.downloader.handlers import DownloadHandlers
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.core.engine import ExecutionEngine
from scrapy.downloadermiddlewares.defaultheaders import DefaultHeadersMiddleware
from scrapy.downloadermiddlewares.useragent import UserAgentMiddleware
from scrapy.exceptions import _InvalidOutput
from scrapy.http import Headers, Response
from scrapy.pipelines import ItemPipelineManager
from scrapy.signalmanager import SignalManager
from scrapy.utils.defer import _process_pending_io, aiter_errback, ensure_awaitable, iter_errback
from scrapy.utils.log import logformatter_adapter
from scrapy.utils.misc import warn_on_generator_with_return_value
from scrapy.utils.python import global_object_name, to_bytes
from scrapy.utils.spider import iterate_spider_output
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from webcrawl.crawl.engine.micro_batch import TOGETHER_SECS, MicroBatch
from webcrawl.signals import has_receivers

logger = logging.getLogger(__name__)

# A callback may yield thousands of Requests without ever waiting, at 0.1 ms each.
_OUTPUTS_PER_TURN = 100
# The methods of spider middlewares that every page goes through.
_PAGE_METHODS = ("process_spider_input", "process_spider_output", "process_spider_exception")
# The code of those wrappers of Scrapy that only warn of an argument that is no longer passed.
_WARNING_WRAPPER = cast("Any", UserAgentMiddleware.process_request).__code__


def take_fast_path(engine: ExecutionEngine) -> None:
    """Replace functions of *engine* with the faster ones below.

    To be called while the spider is being opened.
    """
    service = _Service(engine)
    slot: Any = engine._slot
    nextcall = slot.nextcall
    loop = asyncio.get_running_loop()

    def schedule() -> None:
        """Do as the method of Scrapy's ``nextcall``, but wait a little for other requests."""
        if nextcall._call is None:  # no call is scheduled yet
            nextcall._call = loop.call_later(TOGETHER_SECS, nextcall)

    nextcall.schedule = schedule

    engine._start_scheduled_request = service.start_request  # type: ignore[method-assign]  # on purpose
    if engine.settings.getint("CONCURRENT_ITEMS") == 1:
        engine.scraper.handle_spider_output_async = service.handle_output  # type: ignore[method-assign]  # likewise

    downloader: Any = engine.downloader
    downloader.handlers.download_request_async = _through_handler(downloader.handlers)
    # Methods that still have a parameter for the spider need Scrapy's own path, which passes it.
    pipelines = engine.scraper.itemproc
    if type(pipelines) is ItemPipelineManager and not pipelines._mw_methods_requiring_spider:
        pipelines.process_item_async = _through_pipelines(pipelines)  # type: ignore[method-assign,assignment]  # likewise
    if not downloader.middleware._mw_methods_requiring_spider:
        downloader.middleware.download_async = _Middlewares(downloader.middleware).download


class _Service:
    """Takes a request through engine and scraper, with Scrapy's signals, log lines and counts.

    Failures, and all pages if there are spider middlewares, take Scrapy's path from the callback
    on.

    Pages that arrived together advance together: first all responses are handled, then all are
    parsed, then the links of all are submitted (the spider waits before that). This saves a sixth
    of all CPU time.
    """

    def __init__(self, engine: ExecutionEngine) -> None:
        self._engine = engine
        scraper = engine.scraper
        self._scraper = scraper
        self._downloader: Any = engine.downloader
        self._spider = cast("Any", engine.crawler.spider)
        # Tasks of ``_serve``: asyncio itself would not keep them from being garbage-collected.
        self._tasks: set[asyncio.Task[None] | None] = set()
        # Pages that have arrived at the same time wait here for each other.
        self._before_callback = MicroBatch()
        # Scrapy lists None for a middleware that lacks the method.
        methods = scraper.spidermw.methods
        self._has_spider_middlewares = any(any(methods[name]) for name in _PAGE_METHODS)
        self._signals = scraper.signals = DirectSignals(engine.signals.sender)
        # Scrapy checks each callback; this one is checked once, here.
        warn_on_generator_with_return_value(self._spider, self._spider._parse)

    def start_request(self) -> bool:
        """Start the next request; return False if the scheduler has none now.

        Replaces the engine's ``_start_scheduled_request``.
        """
        slot: Any = self._engine._slot
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
        """Await the *download* of *request*, and process its response or failure."""
        slot: Any = self._engine._slot
        result: Response | Request | Failure

        try:
            try:
                result = await download
            except Exception:  # noqa: BLE001  # it goes to the errback
                result = Failure()  # type: ignore[no-untyped-call]  # Twisted's
            slot.nextcall.schedule()  # a worker is free: ask for the next request
            if isinstance(result, Request):
                self._engine.crawl(result)
            else:
                await self._scrape(result, request)
        except Exception:
            logger.exception("Error while processing %s", request, extra={"spider": self._spider})
        finally:
            self._tasks.discard(asyncio.current_task())
            slot.remove_request(request)
            slot.nextcall.schedule()  # the scraper may have been full

    async def _scrape(self, result: Response | Failure, request: Request) -> None:
        """Process *result* within the scraper's limit of bytes, as Scrapy's scraper does."""
        scraper = self._scraper
        slot: Any = scraper.slot
        size = slot.MIN_RESPONSE_SIZE
        if isinstance(result, Response):
            size = max(len(result.body), size)
            if result.request is None:  # a middleware or a custom handler did not set it
                result.request = request
            self._report_response(result, result.request)

        slot.active.add(request)
        slot.active_size += size
        try:
            if self._has_spider_middlewares or not isinstance(result, Response):
                await scraper._scrape(result, request)
            else:
                await self._call_callback(result, request)
        finally:
            slot.active.remove(request)
            slot.active_size -= size
            scraper._check_if_closing()

    def _report_response(self, response: Response, request: Request) -> None:
        """Log *response* and send its signal, as Scrapy's engine does."""
        spider = self._spider
        log_entry = self._engine.logformatter.crawled(request, response, spider)
        if log_entry is not None:
            logger.log(*logformatter_adapter(log_entry), extra={"spider": spider})
        self._signals.send_catch_log(
            signals.response_received, response=response, request=request, spider=spider
        )

    async def _call_callback(self, response: Response, request: Request) -> None:
        """Call the callback with *response*, and process its output or its exception."""
        # As in Scrapy, a middleware may have replaced the request of the response.
        sent: Any = response.request
        callback = sent.callback
        try:
            if callback is None:
                callback = self._spider._parse
            else:
                warn_on_generator_with_return_value(self._spider, callback)
            await self._before_callback.wait()  # for pages that have arrived at the same time
            output: Any = callback(response, **sent.cb_kwargs)
            if inspect.iscoroutine(output):
                output = await output
            # The crawler's own callbacks return lists, which need no conversion.
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
        """Process *result*, the output of a callback, one item at a time and without tasks.

        That is the meaning of CONCURRENT_ITEMS = 1. Replaces ``handle_spider_output_async``.
        """
        scraper = self._scraper
        process_output = scraper._process_spidermw_output_async
        on_error = scraper.handle_spider_error
        if isinstance(result, AsyncIterator):
            async for output in aiter_errback(result, on_error, request, response):
                await process_output(output, response)
            return

        outputs = iter_errback(result, on_error, request, response)
        for number, output in enumerate(outputs, start=1):
            await process_output(output, response)
            # Give others a turn, as processing may not wait for anything.
            if number % _OUTPUTS_PER_TURN == 0:
                await asyncio.sleep(0)


class _Middlewares:
    """Calls the downloader middlewares of *manager*, without a coroutine for each call."""

    def __init__(self, manager: DownloaderMiddlewareManager) -> None:
        self._manager = manager
        methods = cast("dict[str, Iterable[Any]]", manager.methods)
        self._request_methods = [*map(_without_wrapper, methods["process_request"])]
        self._response_methods = [*map(_without_wrapper, methods["process_response"])]

    async def download(
        self, download: Callable[[Request], Awaitable[Response]], request: Request
    ) -> Response | Request:
        """Pass *request* through the middlewares to *download*, like ``download_async``."""
        result: Any
        try:
            for method in self._request_methods:
                result = method(request=request)
                if result is not None:
                    result = await _awaited_result(result, method)
                    if result is not None:
                        break
            else:  # no middleware has answered the request itself
                result = await download(request)
        except Exception as error:  # noqa: BLE001  # a middleware may turn it into a response
            await _process_pending_io()  # as Scrapy does
            result = await self._manager._process_exception(error, request)

        for method in self._response_methods:
            if isinstance(result, Request):  # it goes back to the engine
                break
            result = method(request=request, response=result)
            if not isinstance(result, Response):
                result = await _awaited_result(result, method)
                if result is None:
                    raise _InvalidOutput(f"{method.__qualname__} returned None, not a Response")
        return cast("Response | Request", result)


async def _awaited_result(result: Any, method: Any) -> Any:
    """Return *result* of the middleware's *method*, awaited if it is awaitable.

    Raises _InvalidOutput unless it is a Response, a Request or None.
    """
    if not isinstance(result, Response | Request):
        result = await ensure_awaitable(result, _warn=global_object_name(method))
    if not isinstance(result, Response | Request | None):
        type_name = type(result).__name__
        raise _InvalidOutput(
            f"{method.__qualname__} returned {type_name}, not a Response or Request"
        )
    return result


def _without_wrapper(method: Any) -> Any:
    """Return *method* of a middleware without Scrapy's wrapper around it.

    For the middlewares that set header fields, returns a faster function with the same effect:
    Scrapy's normalizes the names and values of these fields for each request.
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
    if middleware is not None and getattr(method, "__code__", None) is _WARNING_WRAPPER:
        return MethodType(method.__wrapped__, middleware)
    return method


def _through_handler(
    handlers: DownloadHandlers,
) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """Return a function that downloads a request with *handlers*, without an extra coroutine."""
    download_as_scrapy = handlers.download_request_async

    def download(request: Request) -> Coroutine[Any, Any, Response]:
        scheme = request.url.partition(":")[0]
        handler = handlers._handlers.get(scheme)
        # Scrapy creates a missing handler, and converts the result of one in the old style.
        if handler is None or scheme in handlers._old_style_handlers:
            return download_as_scrapy(request)
        return handler.download_request(request)

    return download


def _through_pipelines(pipelines: ItemPipelineManager) -> Callable[[Any], Coroutine[Any, Any, Any]]:
    """Return a function that takes an item through all *pipelines*, without Scrapy's wrappers."""
    methods = cast("Iterable[Any]", pipelines.methods["process_item"])

    async def process(item: Any) -> Any:
        """Pass *item* through all pipelines and return the result."""
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

    def send_catch_log(self, signal: Any, **arguments: Any) -> list[tuple[Any, Any]]:
        """Send *signal* to its handlers as Scrapy does, at a quarter of the cost."""
        arguments |= {"signal": signal, "sender": self.sender}
        return [
            (receiver, _call_receiver(receiver, arguments)) for receiver in self._receivers(signal)
        ]

    async def send_catch_log_async(self, signal: Any, **arguments: Any) -> list[tuple[Any, Any]]:
        """Send *signal* to its handlers as Scrapy does, and await each of them."""
        arguments |= {"signal": signal, "sender": self.sender}
        results = []

        for receiver in self._receivers(signal):
            result = _call_receiver(receiver, arguments)
            if _is_awaitable(result):
                try:
                    result = await (
                        result
                        if inspect.iscoroutine(result)
                        else ensure_awaitable(result, _warn=global_object_name(receiver))
                    )
                except Exception as error:  # noqa: BLE001  # logged
                    result = _log_caught(receiver, arguments, error)
            results.append((receiver, result))
        return results

    def _receivers(self, signal: Any) -> list[Any]:
        """Return the living handlers of *signal*."""
        own_connections = connections.get(id(self.sender), {})
        # Handlers may be connected to all senders or to all signals. The library finds these too,
        # but takes longer.
        if id(Any_) in connections or Any_ in own_connections:
            return [*liveReceivers(getAllReceivers(self.sender, signal))]
        return [*liveReceivers(own_connections.get(signal, ()))]


def _call_receiver(receiver: Any, arguments: dict[str, Any]) -> Any:
    """Call *receiver* with those of *arguments* that it accepts; return its result or exception."""
    code = getattr(getattr(receiver, "__func__", receiver), "__code__", None)
    try:
        # The library can call any object, but takes longer than the direct call below.
        if code is None or code.co_flags & inspect.CO_VARKEYWORDS:
            return robustApply(receiver, **arguments)
        parameters = code.co_varnames[: code.co_argcount]
        return receiver(**{name: arguments[name] for name in parameters if name in arguments})
    except Exception as error:  # noqa: BLE001  # logged
        return _log_caught(receiver, arguments, error)


def _log_caught(receiver: Any, arguments: dict[str, Any], error: Exception) -> Exception:
    message = "Error caught on signal handler: %s"
    logger.error(message, receiver, exc_info=error, extra={"spider": arguments.get("spider")})
    return error


def _is_awaitable(result: object) -> bool:
    return result is not None and (inspect.isawaitable(result) or isinstance(result, Deferred))
