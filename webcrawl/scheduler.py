"""The Mercator frontier as a Scrapy scheduler, which connects Scrapy's engine to a process.

``next_request`` is Mercator's "remove a URL from the frontier". crawl/dispatcher.py decides
what happens to that URL. Between requests, a slice of background work moves new URLs from the
eliminator to the frontier. The engine is woken when the next host is ready.

Job directory contents: see crawl/job/jobdir.py and crawl/shard/shard.py.

What survives: ``kill -9`` loses nothing, as every part logs before it answers. After a power loss
or a reboot, pages since the last checkpoint are fetched again.
"""

from __future__ import annotations

import asyncio
import logging
from functools import cached_property
from typing import Any, Protocol, Self, cast

from scrapy import Request, Spider
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.utils.asyncio import create_looping_call
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import Deferred

from webcrawl.clock import now
from webcrawl.configuration.decoding import UndecodableError
from webcrawl.configuration.values import component, flag
from webcrawl.crawl.engine._engine import (
    Alarm,
    bound_items,
    bypass_spider_middlewares,
    can_take_fast_path,
    check_engine,
    is_closing,
    keep_asking_for_waiting_pages,
    name_failed_closing,
    scraper_is_full,
    skip_closing,
    undo_failed_opening,
    wake,
    watch_requests,
)
from webcrawl.crawl.job.jobdir import resume_error
from webcrawl.crawl.job.state_directory import Part
from webcrawl.crawl.process import Process
from webcrawl.errors import FatalError
from webcrawl.net.limits import is_for_robots
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

logger = logging.getLogger(__name__)

# The background work between requests runs this often.
TICK_SECS = 0.05
# Interval of the background work while only repeat visits are left.
_IDLE_TICK_SECS = 10.0
# After this time ``next_request`` returns to the reactor, even if no URL could be fetched.
_SLICE_SECS = 0.01
# Seconds that an item may take if it reaches the processing modules after downloads were aborted.
_ITEM_SECS_AT_END = 1.0
# Hosts looked up in DNS at the same time: slow name servers must not keep workers idle.
_LOOKUPS_PER_WORKER = 4
# URLs in process for each worker: one being downloaded, and two that wait to be parsed, processed
# or stored. After a kill they are fetched again. More made no crawl faster (docs/why/decisions.md).
_IN_PROCESS_PER_WORKER = 3
# URLs that one call may find denied, or waiting for their robots.txt, before it returns to the
# reactor.
_DENIALS_PER_CALL = 64
# Errors of a job directory that cannot be used.
_OPENING_ERRORS = (FatalError, CorruptRecordError, NewerFormatError, UndecodableError, OSError)


class Companion(Protocol):
    """Part that connects a process to Redis: a drone of a hive, or a reader of live seeds."""

    process: Process

    def begin(self) -> None:
        """Start its tasks, once the process is open."""

    async def close(self) -> None:
        """End its tasks and connections, once the process is closed."""


class MercatorScheduler(BaseScheduler):
    """``SCHEDULER``: serves the requests of *process* to Scrapy's engine."""

    def __init__(self, process: Process, drone: Companion | None = None) -> None:
        self.process = process
        #: Connects the process to a hive or reads live seeds; None without either.
        self.drone = drone
        services = process.parts.services
        leases = process.parts.leases
        #: Context manager around code that parses a document: see crawl/links/reading.py.
        self.reading = services.reading
        crawler = services.crawler
        self._crawler = crawler
        # Called by processing modules.
        self.submit_found = leases.reader.submit_found
        self.score_by = leases.reader.score_by
        self._completion = leases.completion
        self._dispatcher = leases.dispatcher
        self._shards = process.shards
        self._side_downloads = leases.side_downloads
        self._rates = services.rules.rates
        self._items = leases.items
        self._live = services.live
        self._stop = process.stop
        self._job = process.job
        self._health = process.health
        self._hooks = process.parts.hooks
        self._tick = create_looping_call(self._work)
        self._alarm = Alarm(crawler=crawler, clock=now)
        # When the engine began to close; None until then.
        self._stopping_since: float | None = None
        # The result of ``has_pending_requests`` in the last slice of background work.
        self._had_pending_requests = True

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the scheduler and its process: in a hive, with live seeds, or on its own.

        Raises FatalError for an invalid setting.
        """
        settings = crawler.settings
        if settings.get("HIVE") or flag(settings, "LIVE_SEEDS"):
            feature = "HIVE" if settings.get("HIVE") else "LIVE_SEEDS"
            build_companion = component(feature, settings["HIVE_BUILDER"], verb="needs")
            companion: Companion = build_companion(crawler)
            return cls(companion.process, companion)
        from webcrawl.crawl.builder import ProcessBuilder, should_keep_open  # noqa: PLC0415  # imports every package
        from webcrawl.crawl.process import ProcessHooks  # noqa: PLC0415  # likewise

        stays_open = should_keep_open(crawler)
        return cls(ProcessBuilder(crawler).process(ProcessHooks(may_end=lambda: not stays_open)))

    @cached_property
    def _engine(self) -> Any:
        return self._crawler.engine

    # --- Scrapy's interface

    def open(self, spider: Spider) -> None:
        """Lock the job directory and resume from the last checkpoint and the logs after it.

        Blocks: this is start-up. Raises FatalError with one sentence.
        """
        process = self.process
        engine = self._engine
        try:
            check_engine(engine)
            process.open(awaits_seeds=getattr(spider, "reads_seeds", False), on_merged=self._work)
        except _OPENING_ERRORS as error:
            process.release_directory()
            skip_closing(engine)
            if isinstance(error, FatalError):
                raise
            raise resume_error(error, self._job.path) from error

        undo_failed_opening(engine, self._undo_open)
        name_failed_closing(engine, self._note_unclosed_module)
        watch_requests(engine, self._completion.done)
        keep_asking_for_waiting_pages(engine, lambda: bool(self._side_downloads))
        bypass_spider_middlewares(engine, is_for_robots)
        if can_take_fast_path(self._crawler.settings):
            from webcrawl.crawl.engine._fast_path import take_fast_path  # noqa: PLC0415  # of one Scrapy only

            take_fast_path(engine)

        doctor = self._health.doctor
        bound_items(engine, self._items.bound, doctor.watch if doctor else lambda process: process)
        self._stop.listen()
        self._completion.listen()
        if self.drone is not None:
            self.drone.begin()
        self._tick.start(TICK_SECS, now=False)

        logger.info("%s", self._describe_start(), extra={"spider": spider})
        if not self._stores_pages(engine.scraper.itemproc):
            logger.info(
                "This crawl stores no pages: no module in ITEM_PIPELINES writes them, as WARC would"
            )

    def _stores_pages(self, processor: Any) -> bool:
        """Return whether a feed or a module of *processor*, the item processor, may store pages.

        An empty ``output`` says that a module stores none. Modules and item processors without that
        attribute are the user's own, and may.
        """
        modules = getattr(processor, "middlewares", [processor])
        return bool(self._crawler.settings["FEEDS"]) or any(
            getattr(module, "output", "unknown") for module in modules
        )

    def _describe_start(self) -> str:
        """Describe whether the crawl is new or resumed, and from where."""
        job = self._job
        path = job.path.absolute()
        stats = self._shards.stats()
        if self.process.parts.state.resources.temporary is not None:
            return "New crawl; nothing of it is kept, because it has no JOBDIR"
        if not job.own.resumed:
            return f"New crawl in {path}"

        note = ""
        if job.own.rebooted:
            note = "; after a reboot, pages since the last checkpoint are fetched again"
        return (
            f"Resuming the crawl in {path}; URLs waiting: {stats.get('frontier/waiting', 0)}, "
            f"not yet checked for duplicates: {stats.get('seen/waiting', 0)}{note}"
        )

    def _note_unclosed_module(self) -> None:
        if not self._stop.has_begun:
            self._crawler.stats.set_value("finish/cause", "module_not_closed")

    async def _undo_open(self) -> None:
        """Close everything after a processing module failed to open.

        There is nothing to save, and no running crawl that a disk error would have to end.
        """
        self._stop.has_begun = True
        await self._close("never begun")

    def close(self, reason: str) -> Deferred[None]:
        """Make the last checkpoint and close everything; a failure leaves the previous one."""
        return deferred_from_coro(self._close(reason))

    async def _close(self, reason: str) -> None:
        """Close the process and the drone, and then release the job directory."""
        if self._stop.is_open:
            if self._tick.running:
                self._tick.stop()
            self._alarm.cancel()
            try:
                await self.process.close(reason)
            finally:
                if self.drone is not None:
                    await self.drone.close()
                # In a hive, the next process in this directory continues as the same drone. So the
                # directory stays locked until this process has left the hive.
                await asyncio.to_thread(self.process.release_directory)

    def has_pending_requests(self) -> bool:
        """Return whether the crawl must continue. O(shards).

        True while URLs wait, are leased, or may still reach a frontier, or while a hook keeps the
        crawl open.
        """
        return self._shards.has_pending or not self._hooks.may_end()

    def enqueue_request(self, request: Request) -> bool:
        """Accept an ordinary Request of a spider or middleware; return False for a duplicate."""
        return self.process.intake.enqueue(request)

    def next_request(self) -> Request | None:
        """Return the next request that politeness allows, or None if there is none now.

        After None, the engine is woken when a request may be ready. Also returns None after 64
        URLs that may not be fetched now, or after 10 ms, so that the reactor can run. While too
        many pages are in process, only side downloads are served.
        """
        pauses = self.process.pauses
        dispatcher = self._dispatcher
        shards = self._shards
        # In a hive, this fence is closed when the process may no longer own its hosts.
        fence = self._hooks.fence
        deadline = now() + _SLICE_SECS
        workers = self._live.workers
        host_release = self._completion.host_release
        engine = self._engine
        downloader = engine.downloader

        try:
            in_process = len(self._completion.under_way)
            is_full = in_process >= _IN_PROCESS_PER_WORKER * workers or scraper_is_full(engine)
            max_lookups = _LOOKUPS_PER_WORKER * workers
            # Each turn leases one URL. If nothing is to be sent for it, the next one is tried.
            for _ in range(_DENIALS_PER_CALL):
                is_busy = host_release.looking_up >= max_lookups or downloader.needs_backout()
                if pauses or is_busy or not (fence is None or fence.is_open()):
                    return None  # the engine is woken when that ends
                rates_ready_at = self._rates.ready_at
                is_rate_limited = rates_ready_at > 0.0 and rates_ready_at > now()
                if is_full or is_rate_limited:
                    # A side download may be waiting for one of these hosts.
                    host_release.release_resolved()
                if is_rate_limited:
                    self._alarm.set(rates_ready_at)
                    return None
                # The lease of a host whose addresses were just found comes first.
                resolved = host_release.next_resolved()
                # Side downloads also run while too many pages are in process, because some of these
                # pages wait for them.
                lease = resolved or (self._side_downloads if is_full else shards.ready).acquire()
                if lease is None:
                    if not is_full:  # otherwise the next slice of background work wakes the engine
                        shards.turns.is_starving = any(shard.can_hand_out for shard in shards)
                        self._alarm.set(shards.ready.ready_at())
                    return None
                request = (dispatcher.dispatch if resolved is None else dispatcher.resume)(lease)
                if request is not None:
                    return request
                if now() >= deadline:
                    break  # a hostile robots.txt takes milliseconds for each URL
        except Exception as error:  # noqa: BLE001  # the engine would continue without that lease
            self._stop.fail(error)
            return None
        self._alarm.set(0.0)  # immediately
        return None

    def attach(self, name: str, part: Part) -> bytes | None:
        """Include *part*, the state of a processing module, in checkpoints under *name*.

        Returns the state last saved under that name, or None.
        """
        job_state = self._job.own
        saved = job_state.saved_snapshot(name)
        job_state.attach(name, part)
        return saved

    # --- background work

    def _work(self) -> None:
        """Do a slice of background work. Called at intervals, and when an eliminator has merged."""
        if not self._stop.is_open:
            return

        if is_closing(self._engine):
            self._hurry_up()
        try:
            self.process.work()
            item_secs = self._live.item_secs
            # A module that waits for a side download is not overdue.
            if self._side_downloads.idle_secs > item_secs:
                self._items.cut(item_secs)
        except Exception as error:  # noqa: BLE001  # a looping call that raises is never repeated
            self._stop.fail(error)
            return

        if self._tick.running:
            # A drone may get URLs from other processes at any time.
            is_waiting = self.drone is None and bool(self._health.waits_for)
            self._tick.interval = _IDLE_TICK_SECS if is_waiting else TICK_SECS
        self._wake_engine()

    def _wake_engine(self) -> None:
        """Wake the engine if a host is ready, or if the last URL has just been finished.

        When the last URL turns out to be a duplicate, nothing else would tell the engine that the
        crawl has finished.
        """
        ready_at = self._shards.ready.ready_at()
        has_pending = self.has_pending_requests()
        is_ready = ready_at is not None and ready_at <= now()
        if is_ready or (self._had_pending_requests and not has_pending):
            wake(self._engine)
        self._had_pending_requests = has_pending

    def _hurry_up(self) -> None:
        """After the grace period, abort the downloads and items that the engine waits for."""
        time_now = now()
        if self._stopping_since is None:
            self._stopping_since = time_now
            self.process.parts.leases.close_side_downloads()
        elif time_now - self._stopping_since >= self._live.grace_secs:
            self._completion.abort_downloads()
            self._items.cut(_ITEM_SECS_AT_END, at_end=True)


def is_mercator(scheduler_class: type) -> bool:
    """Return whether *scheduler_class* is this scheduler's class or derived from it.

    ``issubclass`` cannot tell: Scrapy's metaclass makes every scheduler a subclass of every
    scheduler class.
    """
    return MercatorScheduler in scheduler_class.__mro__


def process_of(crawler: Crawler) -> Process | None:
    """Return the process of an open crawl; None with another scheduler."""
    scheduler = crawler.engine.scheduler
    return cast("MercatorScheduler", scheduler).process if is_mercator(type(scheduler)) else None
