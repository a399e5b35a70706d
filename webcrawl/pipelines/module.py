"""Base class of processing modules: an item pipeline for Pages of some content types.

A module states which pages it wants and what it does with a page. This class does the rest: it
selects the pages, moves heavy work off the event loop, keeps counts, and saves the module's state
with the crawl. docs/howto/write-a-module.md shows how to write and test one.

The life of a page in a module::

    process_item ─► wanted? ─► process(page)                     in the event loop
                         └───► worker thread: process(page), ... off_loop: one page after the
                                                                 other, returned when it is done
    checkpoint ─► state() ─► sync() ─► published                 in that order

After ``kill -9``, a module's state in memory is restored as of the last checkpoint.
"""

from __future__ import annotations

import asyncio
import errno
import fnmatch
import inspect
import logging
import re
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

from msgspec.structs import replace
from scrapy.exceptions import DropItem

from webcrawl.clock import cpu_time, now
from webcrawl.configuration.values import dictionary, flag
from webcrawl.errors import FatalError, StoreError, path_of, refusal, require_package
from webcrawl.items import Page
from webcrawl.rights.policy import RECORD, USE
from webcrawl.signals import UNCHANGED, checkpoint
from webcrawl.storage.lock import LockedError
from webcrawl.urls import SCHEMES, Link, normalize
from webcrawl.wording import COMMAND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from scrapy.statscollectors import StatsCollector

    #: The futures that wait for each page, and the results.
    _Batch: TypeAlias = list[tuple[asyncio.Future[Any], Any]]

logger = logging.getLogger(__name__)

# The event loop waits at most this long for a module's thread to finish a page.
_STATE_WAIT_SECS = 0.02
# A thread returns its results after this time, or after one page if that takes longer.
_BATCH_SECS = 0.1
#: Number of failed pages of a module that are remembered; the upper limit of MODULE_MAX_FAILURES.
STREAK_LIMIT = 1000
# Statuses that say whether a URL has a document, has moved, or has no document.
_CONCLUSIVE = frozenset({200, 301, 302, 303, 307, 308, 404, 410})
_MAX_LINKS = 50_000
_MAX_SCORE = 100
_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]+/(?:\*|[a-z0-9!#$&^_.+-]+)|\*/\*")
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class ProcessingModule:
    """Base class of a processing module. Subclasses must define ``process``.

    content_types: content types of the pages it wants: ``text/html``, ``image/*``, ``*/*``. The
        setting MODULE_CONTENT_TYPES, a dictionary of class paths and lists, overrides it.
    statuses: the statuses of the pages it wants; empty means any.
    off_loop: whether ``open``, ``process``, ``sync`` and ``close`` run in a thread of this module,
        one call at a time. Otherwise they run in the event loop, where 50 ms is a noticeable delay.
        Any of them may be a coroutine; coroutines always run in the event loop.
    output: for a module that writes files: the setting that names its directory (or ""), and the
        directory below JOBDIR that is used if the setting is empty. An OSError of ``process`` then
        means that no page can be stored: it ends the crawl, and the page is fetched again.
    packages: the packages of requirements-modules.txt that it needs.
    reads_repeats: whether it needs ``Page.repeats``.
    takes_flagged: whether it gets pages with ``flags``, which may not be documents. With
        FLAGGED_PAGES all modules do.
    takes_refused: whether it gets pages whose owner refuses the purpose of the crawl, unless
        RIGHTS_POLICY is "record". A module that makes a dataset or an index must not.
    name: the name in its stats, ``modules/<name>/...``. The default is made from the class name.
    jobdir: the job's directory, or None if there is none; then no state is kept.
    directory: the directory of ``output``; it exists when ``open`` runs.
    stats: the counts of this module.
    has_processed: whether it has processed at least one page.
    failure_streak: URLs of the pages on which it has failed since its last success, at most 1,000.
    """

    content_types: ClassVar[tuple[str, ...]] = ("*/*",)
    statuses: ClassVar[frozenset[int]] = frozenset({200})
    off_loop: ClassVar[bool] = False
    output: ClassVar[tuple[str, str] | None] = None
    packages: ClassVar[tuple[str, ...]] = ()
    reads_repeats: ClassVar[bool] = False
    takes_flagged = True
    takes_refused = False
    name: ClassVar[str] = ""

    jobdir: Path | None = None
    directory: Path
    stats: ModuleStats
    has_processed = False
    failure_streak: deque[str]
    _is_wanted: Callable[[str], object]
    _crawler: Crawler
    _sync_lock: asyncio.Lock
    _worker: _Worker | None = None
    _runs_in_loop = True
    _is_closed = False
    _has_warned = False
    _loop: asyncio.AbstractEventLoop
    _loop_thread: int
    _close_error: OSError | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler, **values: Any) -> Self:
        """Make the module; *values* are the arguments of ``__init__``.

        Override it to read settings, and pass the arguments of ``__init__`` to this method. Raise
        FatalError with one sentence for a setting that is not valid.
        """
        path = f"{cls.__module__}.{cls.__qualname__}"
        name = cls.name or _WORD.sub("_", cls.__name__).lower()
        for package in cls.packages:
            require_package(package, feature=f"The module {name}")
        assert crawler.stats is not None
        # ModuleStats sets this to 0 when a module is made.
        if crawler.stats.get_value(f"modules/{name}/pages") is not None:
            raise FatalError(
                f"Two processing modules are called {name}: give {path} another name in its "
                "attribute name."
            )

        module = cls(**values)
        module._crawler = crawler
        module._sync_lock = asyncio.Lock()
        module.failure_streak = deque(maxlen=STREAK_LIMIT)

        types = _configured_types(path, crawler.settings) or cls.content_types
        patterns = [
            fnmatch.translate("*" if media_type == "*/*" else media_type) for media_type in types
        ]
        module._is_wanted = re.compile("|".join(patterns)).match
        module.takes_flagged = flag(crawler.settings, "FLAGGED_PAGES") or cls.takes_flagged
        # With the policy "use" each class decides, with "strict" no module gets such pages.
        if (policy := crawler.settings["RIGHTS_POLICY"]) != USE:
            module.takes_refused = policy == RECORD
        module.stats = ModuleStats(crawler.stats, name)

        directory = crawler.settings["JOBDIR"]
        module.jobdir = Path(directory) if directory else None
        if cls.output is not None:
            module.directory = output_directory(crawler.settings, *cls.output)
        crawler.signals.connect(module._on_checkpoint, signal=checkpoint)
        return module

    # --- what a module may override

    def open(self) -> Any:
        """Open files and connections. Called once, after ``restore`` and before the first page.

        An OSError or a LockedError ends the crawl with a message that names this module.
        """

    def process(self, page: Page) -> Any:
        """Process *page*, which is shared and must not be changed.

        Returns None, or an item that later modules get in its place. ``DropItem`` keeps the page
        from them. Any other exception affects this page only and is counted. A ``StoreError``, an
        OSError of a full or broken disk, or any OSError of a module with ``output`` ends the crawl.
        """
        raise NotImplementedError

    def gone(self, page: Page) -> Any:
        """Handle a URL that no longer has anything for this module.

        It is a redirect, a 404 or 410, or has a type the module does not want. For an index that
        must drop what it stored for the URL. Same rules as ``process``.
        """

    def leave_out(self, page: Page) -> Any:
        """Handle a page that is kept from this module because of ``takes_refused``.

        Same rules as ``process``. By default it is treated as gone.
        """
        return self.gone(page)

    def batch_done(self) -> Any:
        """Finish a batch of pages, for costly work such as a commit.

        With ``off_loop`` it is called in the thread after each batch, which consists of the pages
        processed in 0.1 s, at least one. An exception counts as a failure of each page of the
        batch.
        """

    def sync(self) -> Any:
        """fsync what ``process`` has written so far. An OSError makes the checkpoint fail."""

    def close(self) -> Any:
        """Complete the files at the end of the crawl.

        An OSError makes the last checkpoint fail, which is made after this call.
        """

    def state(self) -> bytes | None:
        """Return the state to be saved with the crawl, or None.

        Called in the event loop, between two pages.
        """

    def restore(self, saved: bytes) -> None:
        """Restore *saved*, which ``state`` of an earlier run returned."""

    def score(self, page: Page) -> int:
        """Return a score of *page* from 0 to 100.

        The score becomes ``Entry.score`` of the pages that *page* links to, which a prioritizer may
        use. Only one module may define this method.

        Called in the event loop for new documents that the module wants, before their links are
        submitted, so it must be fast. An exception or an invalid value is logged and counted
        (``modules/<name>/score_errors``), and the score is 0.
        """
        raise NotImplementedError

    # --- what a module may call

    def submit(self, page: Page, links: str | Link | Iterable[str | Link]) -> None:
        """Submit *links*, which ``process`` found in *page*.

        Each of them is a Link or a URL, which may be relative to the page. They are treated like
        the page's own links, one level deeper: filters, scope and budgets apply.

        This must be called before ``process`` returns, and may be called in the module's thread.
        The links are then on disk before the page is finished. Values that are not URLs of this
        crawl are counted (``modules/<name>/links_bad``). Raises ValueError for more than 50,000
        links, or for links of a redirect.
        """
        links = [links] if isinstance(links, (str, Link)) else links
        values = [*islice(links, _MAX_LINKS + 1)]  # one more shows that there are too many
        if len(values) > _MAX_LINKS or page.redirect_target:
            raise ValueError(f"a page may submit {_MAX_LINKS:,} links at most, and a redirect none")
        valid_links = [link for value in values if (link := _as_link(value, page)) is not None]
        if threading.get_ident() == self._loop_thread:
            self._submit(page, valid_links, len(values))
        else:
            # The loop runs this before the page counts as processed, as it was queued earlier.
            self._loop.call_soon_threadsafe(self._submit, page, valid_links, len(values))

    # --- Scrapy's interface

    async def open_spider(self) -> None:
        """Restore the saved state and open the module. Raises FatalError if that fails."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        # Register only methods that the module overrides. Other schedulers do not use scores.
        if type(self).score is not ProcessingModule.score:
            score_by = getattr(self._crawler.engine.scheduler, "score_by", None)
            if score_by is not None:
                score_by(self._score)
        if type(self).state is not ProcessingModule.state:
            self._restore_state()
        if self.off_loop:
            self._worker = _Worker(self)
        # Coroutines run in the event loop even if other methods run in the thread.
        self._runs_in_loop = not self.off_loop or inspect.iscoroutinefunction(self.process)
        try:
            if self.output is not None:
                self.directory.mkdir(parents=True, exist_ok=True)
            await self._call(self.open)
        except Exception as error:
            if self._worker is not None:
                self._worker.shutdown()
            if not isinstance(error, (OSError, LockedError)):
                raise
            if self._output_place is None:
                setting, directory = "JOBDIR", self.jobdir or Path()
                sentence = f"The module {self.stats.name} cannot be opened: {error}."
            else:
                setting, directory = self._output_place
                why = getattr(error, "strerror", None) or error
                sentence = f"{setting} {directory} cannot be used: {why}; choose another {setting}."
            raise refusal(error, directory, sentence, name=setting) from error

    async def process_item(self, item: Any) -> Any:
        """Return the result of ``process`` for *item*, or *item* itself if that is None.

        Items that are not wanted Pages are returned unchanged.
        """
        method = self._method_for(item) if isinstance(item, Page) else None
        if method is None:
            return item
        try:
            result = await self.work(partial(method, item))
        except DropItem:  # the module keeps the page from later modules, which is not a failure
            self._record_success()
            raise
        except BaseException:  # including CancelledError, when the page exceeded its time
            self.failure_streak.append(item.url)
            raise
        self._record_success()
        return item if result is None else result

    def _record_success(self) -> None:
        self.has_processed = True
        self.failure_streak.clear()

    async def work(self, call: Callable[[], Any]) -> Any:
        """Return the result of *call*, which runs and is counted like ``process`` of a page."""
        try:
            if self._runs_in_loop:
                started = cpu_time()
                result = call()
                self.stats.count_work(1, cpu_time() - started)
            else:
                assert self._worker is not None
                result = await self._worker.process(call)
            # A function that is not a coroutine function may still return a coroutine.
            return await result if result is not None and inspect.isawaitable(result) else result
        except OSError as error:
            store_error = self._as_store_error(error)
            if store_error is error:
                raise
            raise store_error from error

    async def close_spider(self) -> None:
        """Close the module, once a ``sync`` in progress has ended.

        An OSError is logged, and makes the last checkpoint fail, which is made after this.
        """
        self._is_closed = True
        try:
            async with self._sync_lock:
                await self._call(self.close)
        except OSError as error:
            self._close_error = self._as_store_error(error)
            logger.error("The module %s could not be closed: %s", self.stats.name, error)  # noqa: TRY400  # the message says enough
        finally:
            if self._worker is not None:
                self._worker.shutdown()

    async def _on_checkpoint(self) -> OSError | None:
        """Handle the signal ``checkpoint`` by calling ``sync``; return its error, if any.

        The last checkpoint is made after the module is closed, and fails if closing failed.
        """
        if self._is_closed:
            return self._close_error
        try:
            async with self._sync_lock:
                await self._call(self.sync)
        except OSError as error:
            return self._as_store_error(error)
        return None

    async def _call(self, method: Callable[[], Any]) -> None:
        """Call *method* in the module's thread, or in the event loop if it is a coroutine."""
        if self._worker is None or inspect.iscoroutinefunction(method):
            result = method()
        else:
            result = await self._worker.call(method)
        if inspect.isawaitable(result):
            await result

    def _restore_state(self) -> None:
        """Restore the saved state, and register this module to have its state saved."""
        attach = getattr(self._crawler.engine.scheduler, "attach", None)
        if attach is None:
            return  # only the Mercator frontier saves state
        saved = _SavedState()
        # The scheduler returns what it saved under this name in an earlier run, None if nothing.
        saved.last = attach(f"module:{self.stats.name}", saved) or b""
        try:
            if saved.last:
                self.restore(saved.last)
        except Exception as error:
            raise FatalError(
                f"The module {self.stats.name} cannot read its saved state ({error!r}): use the "
                "version that saved it, give this one another name, or start in another JOBDIR."
            ) from error
        saved.module = self  # from now on its state is saved instead of the restored one

    @property
    def _output_place(self) -> tuple[str, Path] | None:
        """The setting that names ``directory``, and ``directory``; None without ``output``."""
        return None if self.output is None else (self.output[0] or "JOBDIR", self.directory)

    def _as_store_error(self, error: OSError) -> OSError:
        """Return *error* as a StoreError that names ``directory``, if the module has a directory.

        An error that concerns only one page is returned unchanged.
        """
        if self._output_place is None:
            return error
        if not isinstance(error, StoreError):
            # errno is None if the error does not come from a system call. A file name that is too
            # long was made from the page, for example from its URL.
            is_about_page = error.errno in (None, errno.ENAMETOOLONG)
            if is_about_page or isinstance(error, (ConnectionError, TimeoutError)):
                return error
            error = StoreError(error.errno, error.strerror, error.filename)
        error.place = error.place or self._output_place
        return error

    def _submit(self, page: Page, links: list[Link], value_count: int) -> None:
        """Submit *links*, the valid ones of *value_count* values, in the event loop."""
        submit = getattr(self._crawler.engine.scheduler, "submit_found", None)
        if submit is not None:
            submit(page, links)
        elif not self._has_warned:
            self._has_warned = True
            logger.warning(
                "The module %s submits links, but there is no crawl to follow them: use "
                "%s replay --submit to collect them",
                self.stats.name,
                COMMAND,
            )
        self.stats.inc("links" if submit else "links_not_submitted", len(links))
        self.stats.inc("links_bad", value_count - len(links))

    def _score(self, page: Page) -> int:
        """Return the score of *page*, 0 if it is not wanted or has no valid score."""
        if not self._should_process(page):
            return 0
        try:
            score = self.score(page)
            # Not isinstance, which accepts a bool: stored scores are read back as int.
            if type(score) is int and 0 <= score <= _MAX_SCORE:
                return score
            logger.error(
                "The module %s gave %s a score of %r, which is not between 0 and 100",
                self.stats.name,
                page.url,
                score,
            )
        except Exception:
            logger.exception("The module %s could not score %s", self.stats.name, page.url)
        self.stats.inc("score_errors")
        return 0

    def _method_for(self, page: Page) -> Callable[[Page], Any] | None:
        """Return ``process``, ``gone`` or ``leave_out``, whichever must handle *page*, or None."""
        if page.rights.left_out and not self.takes_refused:
            return self.leave_out
        if page.visit == UNCHANGED:  # it was handled at an earlier visit
            return None
        if self._should_process(page):
            return self.process
        handles_gone = type(self).gone is not ProcessingModule.gone
        return self.gone if handles_gone and page.status in _CONCLUSIVE else None

    def _should_process(self, page: Page) -> bool:
        """Return whether this module wants to process *page*."""
        has_wanted_status = not self.statuses or page.status in self.statuses
        if page.flags and not self.takes_flagged:
            return False
        return has_wanted_status and self._is_wanted(page.content_type) is not None


def _as_link(value: object, page: Page) -> Link | None:
    """Return *value* as a Link with a normalized URL, or None if the crawl cannot follow it.

    A relative URL is resolved against the URL of *page*.
    """
    link = Link(value, kind="module") if isinstance(value, str) else value
    if not (isinstance(link, Link) and isinstance(link.url, str) and isinstance(link.kind, str)):
        return None
    url = normalize(link.url, page.url, schemes=SCHEMES)
    return None if url is None else replace(link, url=url)


class ModuleStats:
    """Stats of the module *name* in this run, called ``modules/<name>/...``."""

    def __init__(self, stats: StatsCollector, name: str) -> None:
        self.name = name
        self._stats = stats
        self._prefix = f"modules/{name}/"
        self.count_work(0, 0)

    def inc(self, name: str, by: float = 1) -> None:
        """Add *by* to the stat *name*."""
        key = self._prefix + name
        self._stats.set_value(key, self._stats.get_value(key, 0) + by)

    def set(self, name: str, value: Any) -> None:
        """Set the stat *name* to *value*."""
        self._stats.set_value(self._prefix + name, value)

    def count_work(self, pages: int, cpu_secs: float) -> None:
        """Count *pages* processed pages, which took *cpu_secs* seconds of CPU time."""
        self.inc("pages", pages)
        self.inc("cpu_seconds", cpu_secs)

    def count_wait(self, secs: float, *, for_disk: bool) -> None:
        """Add *secs* during which the thread was busy with pages but did not use the CPU.

        *for_disk* says whether it probably waited for a disk.
        """
        self.inc("disk_wait_seconds" if for_disk else "wait_seconds", secs)


def _configured_types(path: str, settings: BaseSettings) -> list[str]:
    """Return the content types in MODULE_CONTENT_TYPES for the class *path*, or [].

    Raises FatalError if they are not valid.
    """
    value = dictionary(settings, "MODULE_CONTENT_TYPES").get(path, [])
    types = [value] if isinstance(value, str) else list(value)
    for media_type in types:
        if not isinstance(media_type, str) or _TYPE.fullmatch(media_type) is None:
            raise FatalError(
                f"MODULE_CONTENT_TYPES of {path} must be media types like text/html, image/* or "
                f"*/*, in lower case, not {media_type!r}."
            )
    return types


def output_directory(settings: BaseSettings, setting: str, folder: str) -> Path:
    """Return the directory that *setting* names, or *folder* below JOBDIR if it is empty.

    Raises FatalError if neither *setting* nor JOBDIR is set.
    """
    directory = setting and settings[setting]
    if not directory and not settings["JOBDIR"]:
        unset = f"Neither {setting} nor JOBDIR is set" if setting else "JOBDIR is not set"
        raise FatalError(f"{unset}: there is no directory for {folder}.")
    return Path(directory) if directory else Path(settings["JOBDIR"]) / folder


class _Worker:
    """The thread of a *module*, which runs one call at a time and processes pages in batches."""

    def __init__(self, module: ProcessingModule) -> None:
        """Make the thread of *module*, which starts with the first call."""
        self._stats = module.stats
        self._batch_done = module.batch_done
        self._writes_files = module.output is not None
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=module.stats.name)
        # Pages to be processed: what to call for each, and the future that gets the result.
        self._waiting: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._is_busy = False  # whether a batch is being processed
        self._page_lock = threading.Lock()  # held while a page is processed
        # Held by the thread that is next to get _page_lock. It lets the event loop get that lock
        # between two pages, although the module's thread takes it again immediately.
        self._turn_lock = threading.Lock()

    async def call(self, method: Callable[[], Any]) -> Any:
        """Call *method* in the thread, between two batches of pages, and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, method)

    async def process(self, call: Callable[[], Any]) -> Any:
        """Run *call* in the thread when its turn comes, and return its result.

        It is not run if this coroutine is cancelled before that.
        """
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((call, future))
        if not self._is_busy:
            self._start_batch()
        return await future

    @contextmanager
    def between_pages(self) -> Iterator[bool]:
        """Stop the processing of pages for the block, if that is possible within 20 ms.

        Yields whether no page is being processed.
        """
        with self._turn_lock:  # the thread must not take the next page first
            is_between = self._page_lock.acquire(timeout=_STATE_WAIT_SECS)
        try:
            yield is_between
        finally:
            if is_between:
                self._page_lock.release()

    def shutdown(self) -> None:
        """End the thread without waiting for it: a disk that hangs would block the event loop."""
        self._executor.shutdown(wait=False)

    def _start_batch(self) -> None:
        """Let the thread process a batch of the waiting pages."""
        try:
            work = asyncio.get_running_loop().run_in_executor(self._executor, self._process_batch)
        except RuntimeError as error:  # the executor is closed, or cannot start a thread
            self._return_results([(future, error) for _, future in self._waiting])
            self._waiting.clear()
            return
        self._is_busy = True
        work.add_done_callback(self._on_processed)

    def _on_processed(self, work: asyncio.Future[tuple[_Batch, float, float]]) -> None:
        """Start the next batch, then count and return the results of the last one, *work*."""
        self._is_busy = False
        if self._waiting:
            self._start_batch()
        batch, cpu_secs, waited = work.result()
        self._stats.count_work(len(batch), cpu_secs)
        self._stats.count_wait(waited, for_disk=self._writes_files)
        self._return_results(batch)

    @staticmethod
    def _return_results(batch: _Batch) -> None:
        """Give each result in *batch* to the coroutine that waits for it."""
        for future, result in batch:
            # Cancelled if the page exceeded ITEM_TIMEOUT_SECS, although it was then processed.
            if future.cancelled():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)

    def _process_batch(self) -> tuple[_Batch, float, float]:
        """Process the next batch of waiting pages. Runs in the thread.

        Returns the results, the seconds of CPU time, and the seconds spent waiting. Pages that were
        cancelled are skipped.
        """
        cpu_started = cpu_time()
        started_at = now()
        batch: _Batch = []
        while self._waiting and (not batch or now() - started_at < _BATCH_SECS):
            call, future = self._waiting.popleft()
            if future.cancelled():
                continue
            with self._turn_lock:  # wait here while ``between_pages`` waits for the page lock
                self._page_lock.acquire()
            try:
                batch.append((future, call()))
            except BaseException as error:  # noqa: BLE001  # process_item raises it in the event loop
                batch.append((future, _as_raisable(error)))
            finally:
                self._page_lock.release()

        try:
            if batch:
                self._batch_done()
        except Exception as error:  # noqa: BLE001  # as above, for each page of the batch
            batch = [(future, _as_raisable(error)) for future, _ in batch]

        # The clocks of the CPU time and of the day may differ a little.
        cpu_secs = cpu_time() - cpu_started
        return batch, cpu_secs, max(0.0, now() - started_at - cpu_secs)


def _as_raisable(error: BaseException) -> Exception:
    """Return *error*, or a replacement if it must not be raised in the event loop.

    A coroutine cannot raise StopIteration, and others, such as SystemExit, would end the process.
    """
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"a processing module raised {error!r}")


class _SavedState:
    """Saves the state of a module as a part of the crawl's state."""

    module: ProcessingModule | None = None
    last = b""

    def snapshot(self) -> bytes:
        """Return ``state()`` of the module, or the previous one if its thread is busy with a page.

        The event loop must not wait for a page that takes long.
        """
        if self.module is None:
            return self.last  # restoring failed, so the saved state is kept as it is
        worker = self.module._worker
        # Without a thread, the module works in the event loop, which is here now.
        with nullcontext(True) if worker is None else worker.between_pages() as is_between:
            if is_between:
                state: object = self.module.state() or b""
                if not isinstance(state, bytes):
                    path = path_of(self.module)
                    type_name = type(state).__name__
                    raise TypeError(
                        f"state of the module {path} must return bytes, not {type_name}"
                    )
                self.last = state
        return self.last

    def written(self) -> list[Path]:
        return []

    def forget(self) -> None:
        pass
