"""Base class of processing modules: an item pipeline for Pages of some content types.

A module says what it wants and what it does with a page; this class does the rest: it picks the
pages, moves heavy work off the event loop, counts, and saves the module's state with the crawl.
docs/modules.md shows how to write one, ``scrapy genpipeline NAME`` makes a skeleton.

The life of a page in a module::

    process_item ─► wanted? ─► process(page)                     in the event loop
                         └───► worker thread: process(page), ... off_loop: pages that came meanwhile
                                                                 are handed over together
    checkpoint ─► state() ─► sync() ─► published                 in that order

What a module must not lose when the process is killed, ``process`` has handed to the operating
system when it returns; what it must not lose when the power fails, ``sync`` has fsynced. State that
is only in memory is that of the last checkpoint after ``kill -9``.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from webcrawl.clock import cpu_time
from webcrawl.errors import FatalError, refusal
from webcrawl.items import Page
from webcrawl.signals import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from scrapy.statscollectors import StatsCollector

# So long the event loop waits for a module in a thread to come to the end of a page.
_STATE_WAIT_SECS: Final = 0.02
_TYPE: Final = re.compile(r"[a-z0-9!#$&^_.+-]+/(?:\*|[a-z0-9!#$&^_.+-]+)|\*/\*")
_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class ProcessingModule:
    """A processing module; derive from it and write ``process``, at least.

    content_types: of the pages that it wants: ``text/html``, ``image/*``, ``*/*``. The setting
        MODULE_CONTENT_TYPES, a dictionary of class paths and lists, goes before it.
    statuses: of these pages; none: any.
    off_loop: whether ``open``, ``process``, ``sync`` and ``close`` run in a thread of the module's
        own, one call at a time. Otherwise they run in the event loop, which 50 ms hold up; there
        each of them may be a coroutine.
    name: of its stats, ``modules/<name>/...``; the name of the class if it says none.
    jobdir: the job's directory; None: there is none, nothing is kept.
    stats: counts of this module.
    """

    content_types: ClassVar[tuple[str, ...]] = ("*/*",)
    statuses: ClassVar[frozenset[int]] = frozenset({200})
    off_loop: ClassVar[bool] = False
    name: ClassVar[str] = ""

    jobdir: Path | None = None
    stats: ModuleStats
    _wanted: _ContentTypes
    _crawler: Crawler
    _worker: _Worker | None = None
    _is_closed = False
    _not_closed: OSError | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler, **values: Any) -> Self:
        """Make it with *values*. Override it to read settings, and call it with what ``__init__``
        takes. FatalError with one sentence for a setting that cannot be."""
        module = cls(**values)
        path = f"{cls.__module__}.{cls.__qualname__}"
        name = cls.name or _WORD.sub("_", cls.__name__).lower()
        assert crawler.stats is not None
        module._crawler = crawler
        module._wanted = _ContentTypes(_types_of(path, crawler.settings) or cls.content_types)
        module.stats = ModuleStats(crawler.stats, name)
        directory = crawler.settings["JOBDIR"]
        module.jobdir = Path(directory) if directory else None
        crawler.signals.connect(module._synced, signal=checkpoint)
        return module

    # --- what a module does

    def open(self) -> Any:
        """Touch the disk. Called once, before the first page and after ``restore``. An OSError
        ends the crawl with a sentence that names this module."""

    def process(self, page: Page) -> Any:
        """Do the work with *page*, which is shared and must not be changed.

        Returns None, or an item that goes to the modules after this one in its place. ``DropItem``
        keeps the page from them. Another exception concerns this page only and is counted; a
        ``StoreError`` or the OSError of a full disk ends the crawl.
        """
        raise NotImplementedError

    def sync(self) -> Any:
        """fsync what ``process`` has written so far. An OSError refuses the checkpoint."""

    def close(self) -> Any:
        """The crawl is over: finish the files. The last checkpoint comes after it."""

    def state(self) -> bytes | None:
        """What is to be saved with the crawl; None: nothing. Called in the event loop, between two
        pages."""

    def restore(self, saved: bytes) -> None:
        """Take up *saved*, which ``state`` of an earlier run returned."""

    # --- Scrapy's interface

    async def open_spider(self) -> None:
        """Take up the saved state and open the module; FatalError if it cannot be opened."""
        # Another scheduler than the Mercator frontier saves nothing.
        attach = getattr(self._crawler.engine.scheduler, "attach", None)
        part = _State(self)
        saved = attach and attach(f"module:{self.stats.name}", part)
        if saved:
            part.last = saved
            self.restore(saved)
        if self.off_loop:
            self._worker = _Worker(self.stats)
        try:
            await self._call(self.open)
        except Exception as error:
            if self._worker is not None:
                self._worker.shutdown()
            if not isinstance(error, OSError):
                raise
            sentence = f"The module {self.stats.name} cannot be opened: {error}."
            raise refusal(error, self.jobdir or Path(), sentence) from error

    async def process_item(self, item: Any) -> Any:
        """*item*, or what ``process`` made of it; what is no wanted Page passes untouched."""
        if not isinstance(item, Page) or not self._wants(item):
            return item
        if self._worker is not None:
            made = await self._worker.process(self.process, item)
        else:
            began = cpu_time()
            made = self.process(item)
            self.stats.worked(1, cpu_time() - began)
            if inspect.isawaitable(made):
                made = await made
        return item if made is None else made

    async def close_spider(self) -> None:
        """Close the module."""
        self._is_closed = True
        try:
            await self._call(self.close)
        except OSError as error:
            self._not_closed = error
            raise
        finally:
            if self._worker is not None:
                self._worker.shutdown()

    async def _synced(self) -> OSError | None:
        """Handler of ``checkpoint``. The last one comes when the module is closed, and is refused
        if it could not be."""
        if self._is_closed:
            return self._not_closed
        try:
            await self._call(self.sync)
        except OSError as error:
            return error
        return None

    async def _call(self, method: Callable[[], Any]) -> None:
        made = method() if self._worker is None else await self._worker.call(method)
        if inspect.isawaitable(made):
            await made

    def _wants(self, page: Page) -> bool:
        return (not self.statuses or page.status in self.statuses) and (
            page.content_type in self._wanted
        )


class ModuleStats:
    """The stats of one module: ``modules/<name>/...``, of this run."""

    def __init__(self, stats: StatsCollector, name: str) -> None:
        self.name = name
        self._stats = stats
        self._prefix = f"modules/{name}/"

    def inc(self, name: str, by: float = 1) -> None:
        """Add *by* to the stat *name*."""
        self._add(self._prefix + name, by)

    def set(self, name: str, value: Any) -> None:
        """Set the stat *name*."""
        self._stats.set_value(self._prefix + name, value)

    def worked(self, pages: int, cpu_secs: float) -> None:
        """So many *pages* have taken so much CPU."""
        self._add(f"modules/{self.name}/pages", pages)
        self._add(f"modules/{self.name}/cpu_seconds", cpu_secs)

    def _add(self, key: str, by: float) -> None:
        self._stats.set_value(key, self._stats.get_value(key, 0) + by)


class _ContentTypes:
    """A set of media types, some of them with ``*``; what was asked for is remembered."""

    def __init__(self, patterns: Iterable[str]) -> None:
        patterns = frozenset(patterns)
        self._all = "*/*" in patterns
        self._exact = patterns
        self._families = tuple(one[:-1] for one in patterns if one.endswith("/*"))

    def __contains__(self, media_type: str) -> bool:
        return (
            self._all or media_type in self._exact or media_type.startswith(self._families or "\0")
        )


def _types_of(path: str, settings: BaseSettings) -> list[str]:
    """MODULE_CONTENT_TYPES of the class *path*; empty: it is not named."""
    given = settings.getdict("MODULE_CONTENT_TYPES").get(path, [])
    types = [given] if isinstance(given, str) else list(given)
    for one in types:
        if not isinstance(one, str) or _TYPE.fullmatch(one) is None:
            raise FatalError(
                f"MODULE_CONTENT_TYPES of {path} must be media types like text/html, image/* or "
                f"*/*, in lower case, not {one!r}."
            )
    return types


class _Worker:
    """The thread of a module: one call at a time, pages in batches."""

    def __init__(self, stats: ModuleStats) -> None:
        self._stats = stats
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=stats.name)
        self._waiting: list[tuple[Page, asyncio.Future[Any]]] = []
        self._is_busy = False
        #: Held while a page is processed.
        self.lock = threading.Lock()

    async def call(self, method: Callable[[], Any]) -> Any:
        """What *method* returns, after the pages that were handed over before."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, method)

    def process(self, process: Callable[[Page], Any], page: Page) -> asyncio.Future[Any]:
        """What *process* makes of *page*, in its turn."""
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((page, done))
        if not self._is_busy:
            self._hand_over(process)
        return done

    def shutdown(self) -> None:
        """End the thread, which has nothing to do any more."""
        self._executor.shutdown()

    def _hand_over(self, process: Callable[[Page], Any]) -> None:
        batch, self._waiting = self._waiting, []
        self._is_busy = True
        pages = [page for page, _ in batch]
        work = asyncio.get_running_loop().run_in_executor(
            self._executor, partial(self._process, process, pages)
        )
        work.add_done_callback(partial(self._handed_back, process, [done for _, done in batch]))

    def _handed_back(
        self,
        process: Callable[[Page], Any],
        waiters: list[asyncio.Future[Any]],
        work: asyncio.Future[tuple[list[Any], float]],
    ) -> None:
        self._is_busy = False
        if self._waiting:
            self._hand_over(process)
        made, cpu_secs = work.result()
        self._stats.worked(len(waiters), cpu_secs)
        for waiter, one in zip(waiters, made, strict=True):
            if waiter.cancelled():
                continue  # the time limit of items; the page was processed
            if isinstance(one, Exception):
                waiter.set_exception(one)
            else:
                waiter.set_result(one)

    def _process(
        self, process: Callable[[Page], Any], pages: list[Page]
    ) -> tuple[list[Any], float]:
        """In the thread: what *process* made of each page, or raised, and the CPU seconds."""
        began = cpu_time()
        made: list[Any] = []
        for page in pages:
            with self.lock:
                try:
                    made.append(process(page))
                except Exception as error:  # noqa: BLE001  # raised where the page came from
                    made.append(error)
        return made, cpu_time() - began


class _State:
    """The part of the crawl's state that is a module's: the last that could be had."""

    def __init__(self, module: ProcessingModule) -> None:
        self._module = module
        self.last = b""

    def snapshot(self) -> bytes:
        """``state()``. If the module's thread is long with a page, what it was the last time: the
        event loop must not wait."""
        worker = self._module._worker
        if worker is not None and not worker.lock.acquire(timeout=_STATE_WAIT_SECS):
            return self.last
        try:
            self.last = self._module.state() or b""
        finally:
            if worker is not None:
                worker.lock.release()
        return self.last

    def written(self) -> list[Path]:
        return []

    def forget(self) -> None:
        pass
