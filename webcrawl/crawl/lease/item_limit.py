"""A time limit for items in processing modules (item pipelines), and handlers of ``unprocessed``.

A module that never answers would hold its page, its lease and the end of the crawl. An item costs 1
us, because there is no timer for each. An item whose module has not answered within the limit fails
with ``ItemOverdueError``, which counts like any exception of a module.

The limit is for a module that does not answer, not for a slow one. Items may queue in a module,
which processes them in order. So only the first one can be overdue, and its clock starts when the
items before it have left.
"""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import msgspec

from webcrawl.crawl.links.page_intake import PageState
from webcrawl.errors import ends_crawl
from webcrawl.items import Page
from webcrawl.signals import has_receivers, unprocessed

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from scrapy.crawler import Crawler

    from webcrawl.clock import TimeSource
    from webcrawl.crawl.lease.fetch import Fetch

logger = logging.getLogger(__name__)

_page: ContextVar[Page | None] = ContextVar("page", default=None)


class ItemOverdueError(Exception):
    """Error of an item that spent too long in processing modules.

    *at_end*: the crawl is ending, so the next run processes the item.
    """

    def __init__(self, secs: float, *, at_end: bool) -> None:
        super().__init__(f"a processing module did not answer within {secs:.0f} s")
        self.at_end = at_end


class _Processing(msgspec.Struct):
    """Time of an item in processing modules."""

    since: float
    cut: ItemOverdueError | None = None


class ItemLimit:
    """Limits the time of items in processing modules, which are kept in order of arrival.

    *clock* gives epoch seconds.
    """

    def __init__(self, *, clock: TimeSource, crawler: Crawler) -> None:
        self._clock = clock
        self._stats = crawler.stats
        self._signals = crawler.signals
        self._crawler = crawler
        self._items: dict[asyncio.Task[Any], _Processing] = {}
        self._first: _Processing | None = None

    def bound(
        self, process: Callable[[Any], Coroutine[Any, Any, Any]]
    ) -> Callable[[Any], Coroutine[Any, Any, Any]]:
        """Return *process*, which takes an item through all modules, with this time limit."""

        def process_in_time(item: Any) -> Coroutine[Any, Any, Any]:
            return self._in_time(process(item), item if isinstance(item, Page) else None)

        return process_in_time

    @property
    def page(self) -> Page | None:
        """Return the Page being processed in the current task; None outside of one."""
        return _page.get()

    async def _in_time(self, processing: Coroutine[Any, Any, Any], page: Page | None = None) -> Any:
        token = _page.set(page)
        task = asyncio.current_task()
        assert task is not None
        own = self._items[task] = _Processing(self._clock())
        try:
            return await processing
        except asyncio.CancelledError as error:
            if own.cut is None:
                raise
            raise own.cut from error
        finally:
            _page.reset(token)
            self._items.pop(task, None)
            while own.cut is not None and task.cancelling():
                task.uncancel()

    async def hand_over(self, page: Page, fetch: Fetch, why: str) -> None:
        """Return when all handlers of ``unprocessed`` are done with *page*, or too late.

        Raises a handler's error if it ends the crawl; Scrapy logs the others.
        """
        if not has_receivers(self._signals, unprocessed):
            return
        signals = self._crawler.engine.scraper.signals  # the fast path's, if it is taken
        try:
            answers = await self._in_time(
                signals.send_catch_log_async(unprocessed, page=page, why=why)
            )
        except ItemOverdueError as error:
            logger.warning(
                "A handler of the signal unprocessed was aborted for %s: %s", page.url, error
            )
            fetch.page.becomes(PageState.PUT_BACK if error.at_end else PageState.FAILED)
            return
        for _, answer in answers:
            if ends_crawl(answer):
                raise answer

    def cut(self, older_than: float, *, at_end: bool = False) -> None:
        """Abort the first items if a module has had them for more than *older_than* seconds.

        With *at_end*, because the crawl ends, it aborts all items that old. Items that continue
        regardless are aborted again. To be called every few moments.
        """
        now = self._clock()
        first = next(iter(self._items.values()), None)
        if first is not self._first:
            before, self._first = self._first, first
            if first and before and not before.cut:
                first.since = now  # the items before it have been answered
        for task, item in self._items.items():
            if now - item.since <= older_than:
                if not at_end and item.cut is None:
                    break
            else:
                item.cut = ItemOverdueError(now - item.since, at_end=at_end)
                item.since = now
                self._stats.inc_value("items/overdue")
                task.cancel()
