"""Critical errors: logs unexpected exceptions with their pages; ends the crawl after too many.

Expected errors are outcomes (crawl/lease/outcome_log.py). Others are bugs (Nielsen, "How to crawl a
quarter billion webpages in 40 hours"): in a spider's callback, in a processing module, in a
middleware or download handler. Each gets a line in ``JOBDIR/logs/critical.jsonl``. The page that
caused it is stored, so that the module can be run on it again::

    scrapy replay JOBDIR/critical/*.warc.gz

Each line is a JSON object with: at (epoch seconds), url, where (the module's class, "callback" or
"download"), error (its type), message, traceback, saved (whether the page is in ``critical/``).
Only the first hundred errors of one type in one place are logged and stored. Further ones are only
counted (``critical/<where>``), so that a module that fails on every page does not fill the disk.

If a processing module fails on some pages, the crawl continues. But a bug in callbacks or downloads
affects every page. So too many of these errors in a short time end the crawl, with a checkpoint and
a distinct exit code. So do too many failures of one module in a row. The last message of the crawl
names the command that fetches these pages again; their URLs are in ``critical/urls.txt``. Pages
that fail while the crawl is ending are left for the next run.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections import Counter, defaultdict, deque
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Self

import msgspec
from scrapy import signals
from scrapy.exceptions import NotConfigured

from webcrawl.clock import now
from webcrawl.configuration.values import whole_number
from webcrawl.crawl.engine._engine import is_closing
from webcrawl.crawl.job.state_directory import DRONES
from webcrawl.crawl.lease.item_limit import ItemOverdueError
from webcrawl.crawl.lease.page_builder import page_of
from webcrawl.errors import FatalError, is_storage_lost, module_of, path_of
from webcrawl.hosts.retry_policy import BUG
from webcrawl.items import Page
from webcrawl.pipelines.module import STREAK_LIMIT
from webcrawl.pipelines.warc.pipeline import WarcPipeline
from webcrawl.pipelines.warc.writer import WarcWriter
from webcrawl.scheduler import process_of
from webcrawl.signals import unforeseen
from webcrawl.storage.line_log import LineLog
from webcrawl.wording import COMMAND, counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.python.failure import Failure

logger = logging.getLogger(__name__)

CRITICAL_LOG = "logs/critical.jsonl"
CRITICAL_PAGES = "critical"
CRITICAL_URLS = "critical/urls.txt"
_LOG_FILE_BYTES = 1 << 26
_WARC_FILE_BYTES = 1 << 28
_BREAKER_SECS = 60.0
# A kind is a type of error in one place.
_MAX_PER_KIND = 100
_MAX_TEXT = 2000
_MAX_TRACE_LINES = 60
_DOWNLOAD = "download"


class CriticalErrors:
    """Extension that logs critical errors, and ends the crawl after too many.

    Too many are *max_errors* within a minute, or *max_streak* pages in a row on which one module
    failed. 0 means no limit.
    """

    def __init__(self, *, crawler: Crawler, jobdir: Path, max_errors: int, max_streak: int) -> None:
        """Make the extension, which writes its files below *jobdir*.

        The crawl ends after *max_errors* errors within a minute, or when one module failed on
        *max_streak* pages in a row; 0 means no limit.
        """
        self._crawler = crawler
        self._jobdir = jobdir
        self._max_errors = max_errors
        self._max_streak = max_streak
        # Item pipelines that are not ProcessingModules lack ``failure_streak`` and
        # ``has_processed``. These replace them: a streak is cleared when an item has passed all
        # pipelines, and the flag tells whether one ever did.
        self._streaks: defaultdict[str, deque[str]] = defaultdict(partial(deque, (), STREAK_LIMIT))
        self._has_processed = False
        # Modules that failed, by name: (module, URLs of the last pages on which it failed).
        self._failing_modules: dict[str, Any] = {}
        self._log = LineLog(path=jobdir / CRITICAL_LOG, max_bytes=_LOG_FILE_BYTES)
        # Stores the pages that met an error; None until there is one.
        self._pages: WarcWriter | None = None
        # How often each kind of error occurred: (where, name of its class).
        self._kind_counts: Counter[tuple[str, str]] = Counter()
        # The last *max_errors* errors in callbacks and downloads: (time, URL of the page or "").
        self._recent_errors: deque[tuple[float, str]] = deque(maxlen=max(1, max_errors))
        # The task that closes the crawl because of too many errors; None until then.
        self._closing: asyncio.Task[None] | None = None
        self._has_logged_disk_error = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build from MODULE_MAX_FAILURES and BREAKER_MAX_ERRORS. Raises FatalError."""
        jobdir = crawler.settings["JOBDIR"]
        if not jobdir:
            raise NotConfigured

        max_streak = whole_number(crawler.settings, "MODULE_MAX_FAILURES", at_least=0)
        if max_streak > STREAK_LIMIT:
            raise FatalError(
                f"MODULE_MAX_FAILURES must be at most {STREAK_LIMIT}, not {max_streak}."
            )
        extension = cls(
            crawler=crawler,
            jobdir=Path(jobdir),
            max_errors=whole_number(crawler.settings, "BREAKER_MAX_ERRORS", at_least=0),
            max_streak=max_streak,
        )

        connect = crawler.signals.connect
        connect(extension._spider_error, signal=signals.spider_error)
        connect(extension._item_error, signal=signals.item_error)
        connect(extension._item_through, signal=signals.item_scraped)
        connect(extension._item_through, signal=signals.item_dropped)
        connect(extension._record_exception, signal=unforeseen)
        connect(extension._spider_closed, signal=signals.spider_closed)
        return extension

    def _spider_error(self, failure: Failure, response: Any) -> None:
        """Record that a callback raised an exception."""
        url = str(getattr(response, "url", "") or getattr(response, "request", ""))
        self._log_error(
            _exception_of(failure), url=url, where="callback", page=_page_of_callback(response)
        )
        self._end_if_too_many(url)

    def _item_error(self, item: Any, response: Any, failure: Failure) -> None:
        """Record that a processing module raised an exception.

        Disk errors are left to ``CrawlStop``. An item that took too long while the crawl was ending
        is not an error, because the next run processes it again.
        """
        error = _exception_of(failure)
        if is_storage_lost(error) or (isinstance(error, ItemOverdueError) and error.at_end):
            return

        page = item if isinstance(item, Page) else None
        module = module_of(error)
        where = path_of(module)
        self._log_error(error, url="" if page is None else page.url, where=where, page=page)
        # A ProcessingModule has added the page to its streak itself.
        streak = getattr(module, "failure_streak", self._streaks[where])
        if streak is self._streaks[where]:
            streak.append(str(getattr(page or response, "url", "")))
        self._failing_modules[where] = module, streak

        if 0 < self._max_streak <= len(streak):
            # Pages that are stored need not be fetched again.
            commands = self._replay_commands(module) or self._refetch_commands(streak)
            self._end(
                f"The module {where} failed on {counted(len(streak), 'page')} in a row", commands
            )

    def _spider_closed(self) -> None:
        """If a module processed no page at all, store the command that retries its pages."""
        stats = self._crawler.stats
        for module, streak in self._failing_modules.values():
            if not getattr(module, "has_processed", self._has_processed):
                commands = self._replay_commands(module) or self._refetch_commands(streak)
                stats.set_value("finish/again", "".join(commands))
                stats.set_value("finish/cause", stats.get_value("finish/cause", "module_failed"))

    def _item_through(self) -> None:
        """Record that an item has passed all pipelines, or was dropped by one."""
        self._has_processed = True
        for streak in self._streaks.values():
            streak.clear()

    def _record_exception(self, url: str, failure: Failure) -> None:
        """Record that a download handler or a middleware raised an exception."""
        self._log_error(_exception_of(failure), url=url, where=_DOWNLOAD, page=None)
        self._end_if_too_many()

    def _log_error(self, error: BaseException, *, url: str, where: str, page: Page | None) -> None:
        """Count *error*; log it and store *page*, unless there were too many of its kind."""
        self._crawler.stats.inc_value(f"critical/{where}")
        kind = where, type(error).__qualname__
        self._kind_counts[kind] += 1
        if self._kind_counts[kind] > _MAX_PER_KIND:
            return

        trace = traceback.format_exception(error, limit=-_MAX_TRACE_LINES)  # the last calls
        try:
            saved = page is not None and self._save(page)
            line = {
                "at": round(now(), 3),
                "url": url[:_MAX_TEXT],
                "where": where,
                "error": kind[1],
                "message": str(error)[:_MAX_TEXT],
                "traceback": "".join(trace)[-10 * _MAX_TEXT :],
                "saved": saved,
            }
            self._log.append_once(msgspec.json.encode(line))
        except OSError as refused:
            if not self._has_logged_disk_error:
                logger.error("Critical errors cannot be logged: %s", refused)  # noqa: TRY400  # the message is enough
            self._has_logged_disk_error = True

        if self._kind_counts[kind] == _MAX_PER_KIND:
            logger.error(
                "%s in %s for the %dth time: further ones are only counted",
                kind[1],
                where,
                _MAX_PER_KIND,
            )

    def _save(self, page: Page) -> bool:
        """Store *page*; return False if it cannot be stored."""
        if self._pages is None:
            writer = WarcWriter(
                directory=self._jobdir / CRITICAL_PAGES,
                prefix="critical",
                max_file_bytes=_WARC_FILE_BYTES,
                warcinfo=[("software", "webcrawl"), ("description", "pages that met an error")],
            )
            writer.open()
            self._crawler.signals.connect(writer.close, signal=signals.engine_stopped)
            self._pages = writer
        try:
            self._pages.write(page)
        except ValueError:  # its URL is too long
            return False
        return True

    def _end_if_too_many(self, url: str = "") -> None:
        """Add an error in a callback or download, and end the crawl if there are too many.

        *url* is the URL of the page, if there was one.
        """
        time = now()
        self._recent_errors.append((time, url))
        if not self._max_errors or len(self._recent_errors) < self._max_errors:
            return

        secs = time - self._recent_errors[0][0]
        if secs <= _BREAKER_SECS:
            # Pages with an error in a callback were answered, so they are fetched again as visits.
            # URLs with an error in a download ended with the outcome BUG, so they are retried.
            page_urls = [url for _, url in self._recent_errors if url]
            commands = self._refetch_commands(page_urls) if page_urls else []
            if len(page_urls) < len(self._recent_errors) and not self._crawler.settings["HIVE"]:
                commands.append(f"{COMMAND} frontier {quote(str(self._jobdir))} --retry {BUG}")
            self._end(f"{self._max_errors} unexpected errors within {secs:.0f} s", commands)

    def _replay_commands(self, module: object) -> list[str]:
        """Return the command that replays pages that were stored as WARC before *module* failed.

        The list is empty if the WARC pipeline comes after *module*, or if its files are moved away.
        """
        pipelines = self._crawler.engine.scraper.itemproc.middlewares  # in the order of processing
        before = pipelines[: pipelines.index(module)] if module in pipelines else ()
        stored = [pipeline.directory for pipeline in before if isinstance(pipeline, WarcPipeline)]
        if not stored or self._crawler.settings["OUTPUT_STORE"]:
            return []
        return [f"{COMMAND} replay {quote(str(stored[0]))}/*.warc.gz"]

    def _refetch_commands(self, urls: Iterable[str]) -> list[str]:
        """Write *urls* to a file, and return the command that fetches them again.

        The list is empty for a drone of a hive on several machines, and if the file cannot be
        written.
        """
        file = self._jobdir / CRITICAL_URLS
        jobdir = self._jobdir
        try:
            file.parent.mkdir(exist_ok=True)
            file.write_text("".join(f"{url}\n" for url in urls if url), encoding="utf-8")
        except OSError as refused:
            logger.error("The URLs of failed pages cannot be saved: %s", refused)  # noqa: TRY400  # the message is enough
            return []
        if self._crawler.settings["HIVE"]:
            # The command needs the directory of the hive, in which a drone's is drones/NAME. There
            # is none if the hive runs on several machines.
            if jobdir.parent.name != DRONES:
                return []
            jobdir = jobdir.parent.parent
        return [f"{COMMAND} frontier {quote(str(jobdir))} --due {quote(str(file))}"]

    def _end(self, why: str, commands: Sequence[str]) -> None:
        """End the crawl because of *why*; *commands* process the failed pages again."""
        if self._closing is not None or is_closing(self._crawler.engine):
            return
        quoted = " and ".join(f"`{command}`" for command in commands)
        step = f", get these pages again with {quoted}," if commands else ""
        sentence = (
            f"{why} (details: {self._jobdir / CRITICAL_LOG}). Fix the cause{step} and run the same "
            "command again."
        )
        logger.error("%s", sentence)
        self._crawler.stats.set_value("finish/error", sentence)

        process = process_of(self._crawler)
        if process is not None:
            # No further requests are sent, and URLs that now meet an error stay in their queues.
            process.pauses.hold("errors", sentence)
            process.parts.leases.completion.is_over_for_bugs = True
        self._closing = asyncio.ensure_future(
            self._crawler.engine.close_spider_async(reason="too_many_errors")
        )


def _exception_of(failure: Failure) -> BaseException:
    """Return the exception in *failure*."""
    assert failure.value is not None
    return failure.value


def _page_of_callback(response: Response | Any) -> Page | None:
    """Return the page whose callback got *response*; None unless it came from the frontier."""
    request = getattr(response, "request", None)
    fetch = None if request is None else request.meta.get("fetch")
    if fetch is None or not hasattr(response, "body"):
        return None
    return page_of(response, fetch)
