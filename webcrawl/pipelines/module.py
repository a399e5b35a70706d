"""Base class of processing modules: an item pipeline for Pages of some content types.

A module says what it wants and what it does with a page; this class does the rest: it picks the
pages, moves heavy work off the event loop, counts, and saves the module's state with the crawl.
docs/modules.md shows how to write one, ``scrapy genpipeline NAME`` makes a skeleton.

The life of a page in a module::

    process_item ─► wanted? ─► process(page)                     in the event loop
                         └───► worker thread: process(page), ... off_loop: one page after the
                                                                 other, handed back when it is done
    checkpoint ─► state() ─► sync() ─► published                 in that order

State that is only in memory is that of the last checkpoint after ``kill -9``.
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
from webcrawl.errors import FatalError, StoreError, needs, path_of, refusal
from webcrawl.items import Page
from webcrawl.signals import checkpoint
from webcrawl.storage.lock import LockedError
from webcrawl.urls import SCHEMES, Link, normalize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from scrapy.statscollectors import StatsCollector

    #: Those who wait for a page, and what was made of it.
    _Batch: TypeAlias = list[tuple[asyncio.Future[Any], Any]]

logger = logging.getLogger(__name__)

# The event loop waits this long for a module in a thread to come to the end of a page.
_STATE_WAIT_SECS = 0.02
# A thread hands its pages back after this time, or after one page that takes longer.
_BATCH_SECS = 0.1
#: Pages that a module failed on that are remembered, and MODULE_MAX_FAILURES at most.
MOST_IN_A_ROW = 1000
# Of answers that say what a URL has: a document, or one elsewhere, or none.
_TELLING = frozenset({200, 301, 302, 303, 307, 308, 404, 410})
_MOST_LINKS = 50_000
_MOST_SCORE = 100
_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]+/(?:\*|[a-z0-9!#$&^_.+-]+)|\*/\*")
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class ProcessingModule:
    """A processing module; derive from it and write ``process``, at least.

    content_types: of the pages that it wants: ``text/html``, ``image/*``, ``*/*``. The setting
        MODULE_CONTENT_TYPES, a dictionary of class paths and lists, goes before it.
    statuses: of these pages; none: any.
    off_loop: whether ``open``, ``process``, ``sync`` and ``close`` run in a thread of the module's
        own, one call at a time. Otherwise they run in the event loop, which 50 ms hold up. Each of
        them may be a coroutine, which runs in the event loop in any case.
    output: of a module that writes files: the setting that names its directory, or an empty string,
        and the directory beneath JOBDIR if that is not set. Then an OSError of ``process`` means
        that no page can be stored: it ends the crawl, and the page is fetched again.
    packages: those of requirements-modules.txt that it needs.
    reads_repeats: whether it needs ``Page.repeats``.
    takes_flagged: whether it gets pages with ``flags``, which may not be documents; with
        FLAGGED_PAGES all modules do.
    name: of its stats, ``modules/<name>/...``; the name of the class if it says none.
    jobdir: the job's directory; None: there is none, nothing is kept.
    directory: where ``output`` goes; it exists when ``open`` runs.
    stats: counts of this module.
    has_processed: whether it could process a page.
    failed_in_a_row: URLs of the pages that it has failed on since it could process one, at most
        1,000.
    """

    content_types: ClassVar[tuple[str, ...]] = ("*/*",)
    statuses: ClassVar[frozenset[int]] = frozenset({200})
    off_loop: ClassVar[bool] = False
    output: ClassVar[tuple[str, str] | None] = None
    packages: ClassVar[tuple[str, ...]] = ()
    reads_repeats: ClassVar[bool] = False
    takes_flagged = True
    name: ClassVar[str] = ""

    jobdir: Path | None = None
    directory: Path
    stats: ModuleStats
    has_processed = False
    failed_in_a_row: deque[str]
    _is_wanted: Callable[[str], object]
    _crawler: Crawler
    _writing: asyncio.Lock
    _worker: _Worker | None = None
    _runs_in_loop = True
    _is_closed = False
    _is_warned = False
    _loop: asyncio.AbstractEventLoop
    _loop_thread: int
    _not_closed: OSError | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler, **values: Any) -> Self:
        """Make it with *values*. Override it to read settings, and call it with what ``__init__``
        takes. FatalError with one sentence for a setting that cannot be."""
        path = f"{cls.__module__}.{cls.__qualname__}"
        name = cls.name or _WORD.sub("_", cls.__name__).lower()
        for package in cls.packages:
            needs(package, of=f"The module {name}")
        assert crawler.stats is not None
        if crawler.stats.get_value(f"modules/{name}/pages") is not None:
            raise FatalError(
                f"Two processing modules are called {name}: give {path} another name, by its "
                "attribute name."
            )
        module = cls(**values)
        module._crawler = crawler
        module._writing = asyncio.Lock()
        module.failed_in_a_row = deque(maxlen=MOST_IN_A_ROW)
        types = _types_of(path, crawler.settings) or cls.content_types
        names = [fnmatch.translate("*" if one == "*/*" else one) for one in types]
        module._is_wanted = re.compile("|".join(names)).match
        module.takes_flagged = flag(crawler.settings, "FLAGGED_PAGES") or cls.takes_flagged
        module.stats = ModuleStats(crawler.stats, name)
        directory = crawler.settings["JOBDIR"]
        module.jobdir = Path(directory) if directory else None
        if cls.output is not None:
            module.directory = output_directory(crawler.settings, *cls.output)
        crawler.signals.connect(module._synced, signal=checkpoint)
        return module

    # --- what a module does

    def open(self) -> Any:
        """Touch the disk. Called once, before the first page and after ``restore``. An OSError or a
        LockedError ends the crawl with a sentence that names this module."""

    def process(self, page: Page) -> Any:
        """Do the work with *page*, which is shared and must not be changed.

        Returns None, or an item that goes to the modules after this one in its place. ``DropItem``
        keeps the page from them. Another exception concerns this page only and is counted; a
        ``StoreError``, the OSError of a full or broken disk, or any of a module with ``output``
        ends the crawl.
        """
        raise NotImplementedError

    def gone(self, page: Page) -> Any:
        """The URL of *page* has nothing for this module: it is a redirect, a 404 or 410, or of a
        type that is not wanted. Of an index, which has what was there before; as ``process``."""

    def batch_done(self) -> Any:
        """With ``off_loop``: called in the thread after each batch (the pages of 0.1 s, one at
        least), for what is dear, as a commit. What it raises, each of these pages has raised."""

    def sync(self) -> Any:
        """fsync what ``process`` has written so far. An OSError refuses the checkpoint."""

    def close(self) -> Any:
        """The crawl is over: finish the files. An OSError refuses the last checkpoint, which comes
        after it."""

    def state(self) -> bytes | None:
        """State to be saved with the crawl; None: none. Called in the event loop, between two
        pages."""

    def restore(self, saved: bytes) -> None:
        """Take up *saved*, which ``state`` of an earlier run returned."""

    def score(self, page: Page) -> int:
        """Score of *page*, 0 to 100, of a module that has this method: ``Entry.score`` of what it
        links to, by which a prioritizer may go.

        Called in the event loop for new documents that the module wants, before their links are
        submitted: be fast. What it raises, and any other value, is logged and counted
        (``modules/<name>/score_errors``); the score is 0 then. One module may have it.
        """
        raise NotImplementedError

    # --- what a module may call

    def submit(self, page: Page, links: str | Link | Iterable[str | Link]) -> None:
        """Submit *links*, which ``process`` found in *page*: Links, or URLs, which may be relative
        to it. They go the way of the page's own, one level deeper: filters, scope, budgets.

        To be called before ``process`` returns, in the module's thread, too: then they are on disk
        before the page is finished. What is no URL of the crawl is counted
        (``modules/<name>/links_bad``). ValueError for more than 50,000, and of a redirect.
        """
        links = [links] if isinstance(links, (str, Link)) else links
        given = [*islice(links, _MOST_LINKS + 1)]
        if len(given) > _MOST_LINKS or page.redirect_target:
            raise ValueError(f"more than {_MOST_LINKS:,} links of one page, or links of a redirect")
        found = [link for one in given if (link := _link_of(one, page)) is not None]
        if threading.get_ident() == self._loop_thread:
            self._submit(page, found, len(given))
        else:  # what the thread has done comes to the loop after it
            self._loop.call_soon_threadsafe(self._submit, page, found, len(given))

    # --- Scrapy's interface

    async def open_spider(self) -> None:
        """Take up the saved state and open the module; FatalError if that cannot be."""
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        if type(self).score is not ProcessingModule.score:
            score_by = getattr(self._crawler.engine.scheduler, "score_by", None)
            if score_by is not None:
                score_by(self._score)
        if type(self).state is not ProcessingModule.state:
            self._take_up_state()
        if self.off_loop:
            self._worker = _Worker(self)
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
            why = getattr(error, "strerror", None) or error
            setting, directory = self._place or ("JOBDIR", self.jobdir or Path())
            sentence = f"The module {self.stats.name} cannot be opened: {error}."
            if self._place is not None:
                sentence = f"{setting} {directory} cannot be used: {why}; choose another {setting}."
            raise refusal(error, directory, sentence, name=setting) from error

    async def process_item(self, item: Any) -> Any:
        """*item*, or what ``process`` made of it; what is no wanted Page passes untouched."""
        call = self._call_for(item) if isinstance(item, Page) else None
        if call is None:
            return item
        try:
            made = await self.work(partial(call, item))
        except DropItem:
            self._succeed()
            raise
        except BaseException:  # also when it was given up
            self.failed_in_a_row.append(item.url)
            raise
        self._succeed()
        return item if made is None else made

    def _succeed(self) -> None:
        self.has_processed = True
        self.failed_in_a_row.clear()

    async def work(self, call: Callable[[], Any]) -> Any:
        """The result of *call*. It is run, and counted, as ``process`` of a page is."""
        try:
            if self._runs_in_loop:
                began = cpu_time()
                made = call()
                self.stats.worked(1, cpu_time() - began)
            else:
                assert self._worker is not None
                made = await self._worker.process(call)
            return await made if made is not None and inspect.isawaitable(made) else made
        except OSError as error:
            refused = self._as_store_error(error)
            if refused is error:
                raise
            raise refused from error

    async def close_spider(self) -> None:
        """Close the module, after a ``sync`` that is going on."""
        self._is_closed = True
        try:
            async with self._writing:
                await self._call(self.close)
        except OSError as error:
            self._not_closed = self._as_store_error(error)
            logger.error("The module %s could not be closed: %s", self.stats.name, error)  # noqa: TRY400  # it is enough
        finally:
            if self._worker is not None:
                self._worker.shutdown()

    async def _synced(self) -> OSError | None:
        """Handler of ``checkpoint``. The last one comes when the module is closed, and is refused
        if it could not be."""
        if self._is_closed:
            return self._not_closed
        try:
            async with self._writing:
                await self._call(self.sync)
        except OSError as error:
            return self._as_store_error(error)
        return None

    async def _call(self, method: Callable[[], Any]) -> None:
        if self._worker is None or inspect.iscoroutinefunction(method):
            made = method()
        else:
            made = await self._worker.call(method)
        if inspect.isawaitable(made):
            await made

    def _take_up_state(self) -> None:
        attach = getattr(self._crawler.engine.scheduler, "attach", None)
        if attach is None:
            return  # with another scheduler than the Mercator frontier nothing is saved
        part = _State()
        part.last = attach(f"module:{self.stats.name}", part) or b""
        try:
            if part.last:
                self.restore(part.last)
        except Exception as error:
            raise FatalError(
                f"The module {self.stats.name} cannot go on with what it saved ({error!r}): bring "
                "back the version that saved it, give this one another name, or begin in another "
                "JOBDIR."
            ) from error
        part.module = self

    @property
    def _place(self) -> tuple[str, Path] | None:
        """The setting of ``directory``, and ``directory``."""
        return None if self.output is None else (self.output[0] or "JOBDIR", self.directory)

    def _as_store_error(self, error: OSError) -> OSError:
        """*error* as a StoreError that names ``directory``, if this module has one."""
        if self._place is None:
            return error
        if not isinstance(error, StoreError):
            is_of_page = error.errno in (None, errno.ENAMETOOLONG)  # the first: of no system call
            if is_of_page or isinstance(error, (ConnectionError, TimeoutError)):
                return error
            error = StoreError(error.errno, error.strerror, error.filename)
        error.place = error.place or self._place
        return error

    def _submit(self, page: Page, found: list[Link], given: int) -> None:
        submit = getattr(self._crawler.engine.scheduler, "submit_found", None)
        if submit is not None:
            submit(page, found)
        elif not self._is_warned:
            self._is_warned = True
            logger.warning(
                "The module %s submits links, and no crawl takes them: scrapy replay has --submit",
                self.stats.name,
            )
        self.stats.inc("links" if submit else "links_not_submitted", len(found))
        self.stats.inc("links_bad", given - len(found))

    def _score(self, page: Page) -> int:
        if not self._wants(page):
            return 0
        try:
            score = self.score(page)
            if type(score) is int and 0 <= score <= _MOST_SCORE:  # entries are read as this type
                return score
            logger.error(
                "The module %s scores %s %r, not 0 to 100", self.stats.name, page.url, score
            )
        except Exception:
            logger.exception("The module %s could not score %s", self.stats.name, page.url)
        self.stats.inc("score_errors")
        return 0

    def _call_for(self, page: Page) -> Callable[[Page], Any] | None:
        if self._wants(page):
            return self.process
        hears = type(self).gone is not ProcessingModule.gone
        return self.gone if hears and page.status in _TELLING else None

    def _wants(self, page: Page) -> bool:
        is_status = not self.statuses or page.status in self.statuses
        if page.flags and not self.takes_flagged:
            return False
        return is_status and self._is_wanted(page.content_type) is not None


def _link_of(one: object, page: Page) -> Link | None:
    """*one* normalized; None if it is no URL of this crawl."""
    link = Link(one, kind="module") if isinstance(one, str) else one
    if not (isinstance(link, Link) and isinstance(link.url, str) and isinstance(link.kind, str)):
        return None
    url = normalize(link.url, page.url, schemes=SCHEMES)
    return None if url is None else replace(link, url=url)


class ModuleStats:
    """The stats of one module: ``modules/<name>/...``, of this run."""

    def __init__(self, stats: StatsCollector, name: str) -> None:
        self.name = name
        self._stats = stats
        self._prefix = f"modules/{name}/"
        self.worked(0, 0)

    def inc(self, name: str, by: float = 1) -> None:
        """Add *by* to the stat *name*."""
        key = self._prefix + name
        self._stats.set_value(key, self._stats.get_value(key, 0) + by)

    def set(self, name: str, value: Any) -> None:
        """Set the stat *name*."""
        self._stats.set_value(self._prefix + name, value)

    def worked(self, pages: int, cpu_secs: float) -> None:
        """So many *pages* have taken so much CPU."""
        self.inc("pages", pages)
        self.inc("cpu_seconds", cpu_secs)

    def waited(self, secs: float, *, for_disk: bool) -> None:
        """The thread has worked so long on pages without CPU."""
        self.inc("disk_wait_seconds" if for_disk else "wait_seconds", secs)


def _types_of(path: str, settings: BaseSettings) -> list[str]:
    """MODULE_CONTENT_TYPES of the class *path*; empty: it is not named."""
    given = dictionary(settings, "MODULE_CONTENT_TYPES").get(path, [])
    types = [given] if isinstance(given, str) else list(given)
    for one in types:
        if not isinstance(one, str) or _TYPE.fullmatch(one) is None:
            raise FatalError(
                f"MODULE_CONTENT_TYPES of {path} must be media types like text/html, image/* or "
                f"*/*, in lower case, not {one!r}."
            )
    return types


def output_directory(settings: BaseSettings, setting: str, folder: str) -> Path:
    """The directory that *setting* names, or else *folder* beneath JOBDIR; FatalError if neither is
    set."""
    given = setting and settings[setting]
    if not given and not settings["JOBDIR"]:
        unset = f"{setting} is not set, nor JOBDIR" if setting else "JOBDIR is not set"
        raise FatalError(f"{unset}, beneath which {folder} would be.")
    return Path(given) if given else Path(settings["JOBDIR"]) / folder


class _Worker:
    """The thread of a module: one call at a time, pages in batches."""

    def __init__(self, module: ProcessingModule) -> None:
        self._stats = module.stats
        self._batch_done = module.batch_done
        self._writes_files = module.output is not None
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=module.stats.name)
        self._waiting: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._is_busy = False
        self._page = threading.Lock()  # held while a page is processed
        self._next = threading.Lock()  # held by who is to have that next

    async def call(self, method: Callable[[], Any]) -> Any:
        """The result of *method*, called between two batches of pages."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, method)

    async def process(self, call: Callable[[], Any]) -> Any:
        """The result of *call*, in its turn. If it is cancelled before, it is not called."""
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((call, done))
        if not self._is_busy:
            self._hand_over()
        return await done

    @contextmanager
    def between_pages(self) -> Iterator[bool]:
        """Whether no page is being processed meanwhile. Waits a little for the end of one."""
        with self._next:
            is_between = self._page.acquire(timeout=_STATE_WAIT_SECS)
        try:
            yield is_between
        finally:
            if is_between:
                self._page.release()

    def shutdown(self) -> None:
        """End the thread. Does not wait for it: a disk that hangs would hold the event loop."""
        self._executor.shutdown(wait=False)

    def _hand_over(self) -> None:
        try:
            work = asyncio.get_running_loop().run_in_executor(self._executor, self._process)
        except RuntimeError as error:  # closed, or no thread to be had
            self._hand_back([(done, error) for _, done in self._waiting])
            self._waiting.clear()
            return
        self._is_busy = True
        work.add_done_callback(self._processed)

    def _processed(self, work: asyncio.Future[tuple[_Batch, float, float]]) -> None:
        self._is_busy = False
        if self._waiting:
            self._hand_over()
        batch, cpu_secs, waited = work.result()
        self._stats.worked(len(batch), cpu_secs)
        self._stats.waited(waited, for_disk=self._writes_files)
        self._hand_back(batch)

    @staticmethod
    def _hand_back(batch: _Batch) -> None:
        for waiter, made in batch:
            if waiter.cancelled():
                continue  # the time limit of items; the page was processed
            if isinstance(made, Exception):
                waiter.set_exception(made)
            else:
                waiter.set_result(made)

    def _process(self) -> tuple[_Batch, float, float]:
        """In the thread: process the next batch of the pages that wait. Returns what was made of
        them, the seconds of CPU, and those without. Pages that were given up are skipped."""
        began, began_at = cpu_time(), now()
        batch: _Batch = []
        while self._waiting and (not batch or now() - began_at < _BATCH_SECS):
            call, done = self._waiting.popleft()
            if done.cancelled():
                continue
            with self._next:
                self._page.acquire()
            try:
                batch.append((done, call()))
            except BaseException as error:  # noqa: BLE001  # raised where the page came from
                batch.append((done, _raisable(error)))
            finally:
                self._page.release()
        try:
            if batch:
                self._batch_done()
        except Exception as error:  # noqa: BLE001  # as above
            batch = [(done, _raisable(error)) for done, _ in batch]
        cpu_secs = cpu_time() - began
        return batch, cpu_secs, max(0.0, now() - began_at - cpu_secs)


def _raisable(error: BaseException) -> Exception:
    """*error*, or one in its place if a coroutine could not raise it, or the process would end."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"a processing module raised {error!r}")


class _State:
    """The part of the crawl's state that is a module's: the last that could be had."""

    module: ProcessingModule | None = None
    last = b""

    def snapshot(self) -> bytes:
        """``state()``. If the module's thread is long with a page, what it was the last time: the
        event loop must not wait."""
        if self.module is None:
            return self.last  # which could not be taken up
        worker = self.module._worker
        with nullcontext(True) if worker is None else worker.between_pages() as is_between:
            if is_between:
                state: object = self.module.state() or b""
                if not isinstance(state, bytes):
                    who, kind = path_of(self.module), type(state).__name__
                    raise TypeError(f"state of the module {who} must return bytes, not {kind}")
                self.last = state
        return self.last

    def written(self) -> list[Path]:
        return []

    def forget(self) -> None:
        pass
