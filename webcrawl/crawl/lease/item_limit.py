"""Time limit for items in processing modules (item pipelines) and handlers of ``unprocessed``.

A module that never answers would hold its page, its lease and the end of the crawl. An item whose
module has not answered within the limit fails with ``ItemOverdueError``, which counts like any
exception of a module. This costs 1 us per item, because items have no timers of their own.

The limit is meant for modules that do not answer, not for slow ones. Items may queue in a module,
which processes them in order. So only the first one can be overdue, and its time starts when the
items before it have left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any

import msgspec
from scrapy.crawler import Crawler

from webcrawl.clock import TimeSource
from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.crawl.links.page_intake import PageState
from webcrawl.errors import is_storage_lost
from webcrawl.items import Page
from webcrawl.signals import has_receivers, unprocessed

logger = logging.getLogger(__name__)

_page: ContextVar[Page | None] = ContextVar("page", default=None)


class ItemOverdueError(Exception):
    """Error of an item that spent too long in processing modules.

    *at_end* tells whether the crawl is ending, so that the next run processes the item.
    """

    def __init__(self, secs: float, *, at_end: bool) -> None:
        super().__init__(f"a processing module did not answer within {secs:.0f} s")
        self.at_end = at_end


class _Processing(msgspec.Struct):
    """An item in processing modules.

    since: when its time started, by the clock of ``ItemLimit``.
    cut: the error with which it was aborted; None until then.
    """

    since: float
    cut: ItemOverdueError | None = None


class ItemLimit:
    """Limits the time that items spend in processing modules. *clock* returns seconds."""

    def __init__(self, *, clock: TimeSource, crawler: Crawler) -> None:
        self._clock = clock
        self._stats = crawler.stats
        self._signals = crawler.signals
        self._crawler = crawler
        # The items in modules, by the tasks that process them, in order of arrival.
        self._items: dict[asyncio.Task[Any], _Processing] = {}
        # The first of them at the last call of ``cut``; None if there was none.
        self._first: _Processing | None = None

    def bound(
        self, process: Callable[[Any], Coroutine[Any, Any, Any]]
    ) -> Callable[[Any], Coroutine[Any, Any, Any]]:
        """Return *process*, a function that passes an item through all modules, with the limit."""

        def process_in_time(item: Any) -> Coroutine[Any, Any, Any]:
            return self._in_time(process(item), item if isinstance(item, Page) else None)

        return process_in_time

    @property
    def page(self) -> Page | None:
        """Return the Page being processed in the current task; None outside of one."""
        return _page.get()

    async def _in_time(self, processing: Coroutine[Any, Any, Any], page: Page | None = None) -> Any:
        """Await *processing* of *page*, and raise ItemOverdueError if it was aborted."""
        token = _page.set(page)
        task: Any = asyncio.current_task()
        entered = _Processing(self._clock())
        self._items[task] = entered
        try:
            return await processing
        except asyncio.CancelledError as error:
            if entered.cut is None:  # the task was cancelled for another reason
                raise
            raise entered.cut from error
        finally:
            _page.reset(token)
            self._items.pop(task, None)
            # The task goes on after the item, so it must not stay cancelled by ``cut``.
            while entered.cut is not None and task.cancelling():
                task.uncancel()

    async def hand_over(self, page: Page, fetch: Fetch, why: str) -> None:
        """Send ``unprocessed`` for *page*, and return when all handlers have finished or timed out.

        *why* is the reason that handlers get. Raises a handler's error if it ends the crawl; Scrapy
        logs other errors.
        """
        if not has_receivers(self._signals, unprocessed):
            return
        # This sends the same signals as the crawler's object, but faster (engine/_fast_path.py).
        signals = self._crawler.engine.scraper.signals
        try:
            answers = await self._in_time(
                signals.send_catch_log_async(unprocessed, page=page, why=why)
            )
        except ItemOverdueError as error:
            logger.warning(
                "A handler of the 'unprocessed' signal was aborted for %s: %s", page.url, error
            )
            # A handler that is too slow has failed on the page. But at the end of the crawl it had
            # less time than usual, so the next run fetches the page again.
            fetch.page.raise_state(PageState.PUT_BACK if error.at_end else PageState.FAILED)
            return
        for _, answer in answers:
            if is_storage_lost(answer):
                raise answer

    def cut(self, older_than: float, *, at_end: bool = False) -> None:
        """Abort the first items if a module has had them for more than *older_than* seconds.

        At the end of the crawl, with *at_end*, it aborts all items that old. Items that continue in
        spite of it are aborted again. To be called every few seconds.
        """
        now = self._clock()
        first = next(iter(self._items.values()), None)
        if first is not self._first:
            previous = self._first
            self._first = first
            if first and previous and not previous.cut:
                first.since = now  # the module has finished the items before it

        for task, item in self._items.items():
            if now - item.since > older_than:
                item.cut = ItemOverdueError(now - item.since, at_end=at_end)
                item.since = now
                self._stats.inc_value("items/overdue")
                task.cancel()
            elif not at_end and item.cut is None:
                break  # the items after this one may only be waiting for it
