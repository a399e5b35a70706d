"""The Mercator frontier as a Scrapy scheduler.

``next_request`` is Mercator's "remove a URL from the frontier"; what becomes of that URL is
crawl/dispatcher.py's. Between requests a slice of background work moves new URLs from the
eliminator to the frontier, and the engine is woken when the next host is ready.

Job directory contents: see crawl/jobdir.py. The durable parts are ``shards/00/frontier``
(frontier/), ``shards/00/seen`` and ``content`` (seen/), ``ranks`` and ``domains`` (the seeds'), the
seed cursor.

What survives: ``kill -9`` loses nothing, as every part logs before it answers. After a power
loss or a reboot, pages since the last checkpoint are fetched again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Self, cast

from scrapy.core.scheduler import BaseScheduler
from scrapy.utils.asyncio import create_looping_call
from scrapy.utils.defer import deferred_from_coro

from webcrawl.clock import now
from webcrawl.crawl._engine import (
    Alarm,
    abort_downloads,
    bound_items,
    check_engine,
    go_on_for_pages_in_process,
    is_closing,
    never_opened,
    scraper_is_full,
    takes_fast_path,
    undo_failed_opening,
    wake,
    watch_requests,
)
from webcrawl.crawl.checkpointer import Checkpointer
from webcrawl.crawl.completion import Completion, HostRelease
from webcrawl.crawl.dispatcher import Dispatcher
from webcrawl.crawl.feeder import Inflow
from webcrawl.crawl.item_limit import ItemLimit
from webcrawl.crawl.lease_requests import LeaseRequests
from webcrawl.crawl.opening import open_parts
from webcrawl.crawl.request_codec import RequestCodec
from webcrawl.crawl.side_downloads import SideDownloads
from webcrawl.crawl.statistics import Figures, PolitenessBound
from webcrawl.crawl.stop import CrawlStop, unopened
from webcrawl.crawl.totals import Totals
from webcrawl.errors import FatalError
from webcrawl.frontier import encode
from webcrawl.hosts.budgets.depths import Depths
from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import ThreadPoolExecutor
    from tempfile import TemporaryDirectory

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from webcrawl.crawl.fetch import Fetch
    from webcrawl.crawl.host_knowledge import HostKnowledge
    from webcrawl.crawl.jobdir import Job, Part
    from webcrawl.crawl.outcome_log import OutcomeLog
    from webcrawl.crawl.reading import ReadingWatch
    from webcrawl.crawl.seeds import Seed
    from webcrawl.crawl.seeds.ranks import HostRanks
    from webcrawl.crawl.sitemaps import Sitemaps
    from webcrawl.crawl.statistics import State
    from webcrawl.crawl.submission import LinkSubmitter
    from webcrawl.frontier import Frontier
    from webcrawl.frontier.admission import Admission
    from webcrawl.items import Page
    from webcrawl.seen.content import ContentSeen
    from webcrawl.seen.interface import Eliminator
    from webcrawl.urls import Link
    from webcrawl.urls.registered_domain import SuffixList

logger = logging.getLogger(__name__)

# The background work between requests runs this often.
TICK_SECS = 0.05
# A call that finds much to be decided and nothing to be sent lets the reactor breathe after this.
_SLICE_SECS = 0.01
# What an item may take that reaches the processing modules when the downloads were aborted.
_ITEM_SECS_AT_END = 1.0
# What a broken or damaged disk makes the parts raise.
_DISK_ERRORS = (OSError, CorruptRecordError)
# Hosts that are looked up at once: name servers that are slow must not keep workers idle.
_LOOKUPS_PER_WORKER = 4
# How many URLs one call may find denied by robots.txt before it lets the reactor breathe.
_DENIALS_PER_CALL = 64


class MercatorScheduler(BaseScheduler):
    """``SCHEDULER``. All of it runs in the reactor thread but merges and checkpoint writes."""

    def __init__(
        self,
        *,
        crawler: Crawler,
        job: Job,
        temporary: TemporaryDirectory[str] | None,
        frontier: Frontier,
        eliminator: Eliminator,
        content: ContentSeen,
        tables: Mapping[str, HostRanks],
        links: LinkSubmitter,
        hosts: HostKnowledge,
        outcome_log: OutcomeLog,
        admission: Admission,
        sitemaps: Sitemaps,
        suffixes: SuffixList,
        executor: ThreadPoolExecutor,
        lease_secs: float,
        grace_secs: float,
        item_secs: float,
        reading: ReadingWatch,
        workers: int,
    ) -> None:
        """*temporary* is the directory of *job* if nothing of it is to stay when the crawl ends:
        then there are no checkpoints, and ordinary Requests wait in memory, as with Scrapy."""
        self._crawler = crawler
        self._job = job
        self._temporary = temporary
        self._frontier = frontier
        self._eliminator = eliminator
        self._content = content
        self._tables = tables
        self._links = links
        self._hosts = hosts
        self._outcome_log = outcome_log
        self._suffixes = suffixes
        self._executor = executor
        self._lease_secs = lease_secs
        self._grace_secs = grace_secs
        self._item_secs = item_secs
        self._workers = workers
        self._stats = crawler.stats
        self._spider = spider = cast("Spider", crawler.spider)
        self._codec = RequestCodec(
            spider=spider,
            stats=self._stats,
            fingerprinter=crawler.request_fingerprinter,
            key_of=hosts.key_of,
            form=links.form,
            in_memory=temporary is not None,
        )
        self._stop = CrawlStop(crawler=crawler, jobdir=job.path)
        self.pauses = hosts.pauses
        self.reading = reading
        self._inflow = Inflow(
            eliminator=eliminator,
            admission=admission,
            frontier=frontier,
            workers=workers,
            clock=now,
        )
        self.side_downloads = SideDownloads(frontier=frontier, key_of=hosts.key_of, clock=now)
        self._requests = LeaseRequests(crawler=crawler, codec=self._codec, sitemaps=sitemaps)
        self._completion = Completion(
            crawler=crawler,
            frontier=frontier,
            hosts=hosts,
            content=content,
            host_release=HostRelease(
                frontier=frontier,
                hosts=hosts,
                stats=crawler.stats,
                reading=reading,
                stop=self._stop,
                wake=lambda: wake(crawler.engine),
            ),
            requests=self._requests,
            outcome_log=outcome_log,
            stop=self._stop,
        )
        self._dispatcher = Dispatcher(
            frontier=frontier,
            hosts=hosts,
            admission=admission,
            side_downloads=self.side_downloads,
            requests=self._requests,
            completion=self._completion,
            sitemaps=sitemaps,
            reading=reading,
        )
        self._totals = Totals(stats=self._stats, clock=now)
        self._bound = PolitenessBound(frontier=frontier, workers=workers, clock=hosts.clock)
        self._figures = Figures(
            spider=spider.name,
            crawler=self._crawler,
            frontier=frontier,
            eliminator=eliminator,
            content=content,
            links=links,
            hosts=hosts,
            admission=admission,
            bound=self._bound,
            pauses=self.pauses,
            completion=self._completion,
            totals=self._totals,
        )
        self._checkpoints = Checkpointer(
            job=job,
            signals=crawler.signals,
            stats=self._stats,
            facts=self._figures.facts,
            stop=self._stop,
        )
        self._tick = create_looping_call(self._work)
        self._alarm = Alarm(crawler=crawler, clock=hosts.clock)
        self._items = ItemLimit(clock=now, stats=self._stats)
        self._is_open = False
        self._stopping_since: float | None = None
        self._had_pending = True

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        from webcrawl.crawl.builder import scheduler_parts  # noqa: PLC0415  # it imports every room

        return cls(crawler=crawler, **scheduler_parts(crawler))

    # --- Scrapy's interface

    def open(self, spider: Spider) -> None:
        """Lock the job directory and take up the crawl where the last checkpoint and the logs
        after it left it. Blocks: this is start-up. Raises FatalError with one sentence."""
        try:
            check_engine(self._crawler.engine)
            self._job.open(spider=spider.name)
            open_parts(
                job=self._job,
                frontier=self._frontier,
                eliminator=self._eliminator,
                content=self._content,
                tables=self._tables,
                links=self._links,
                hosts=self._hosts,
                suffixes=self._suffixes,
            )
            self._outcome_log.open()
            self.reading.open()
            self._totals.open(self._job.saved("totals"))
            self._job.attach("totals", self._totals)
            self._inflow.open(awaits_seeds=getattr(spider, "reads_seeds", False))
            if self._temporary is None and (not self._job.resumed or self._job.rebooted):
                # The word of the logs is good for as long as the machine runs that wrote them.
                self._checkpoints.make_first()
        except (FatalError, CorruptRecordError, NewerFormatError, OSError) as error:
            self._job.close()
            if self._temporary is not None:
                self._temporary.cleanup()
            never_opened(self._crawler.engine)
            if isinstance(error, FatalError):
                raise
            raise unopened(error, self._job.path) from error
        self._is_open = True
        undo_failed_opening(self._crawler.engine, self._undo)
        watch_requests(self._crawler.engine, self._completion.done)
        go_on_for_pages_in_process(self._crawler.engine, lambda: bool(self.side_downloads))
        if takes_fast_path(self._crawler.settings):
            from webcrawl.crawl._fast_path import take_fast_path  # noqa: PLC0415  # of one Scrapy only

            take_fast_path(self._crawler.engine)
        bound_items(self._crawler.engine, self._items.bound)
        self._stop.listen()
        self._completion.listen()
        loop = asyncio.get_running_loop()
        self._eliminator.on_merged = lambda: loop.call_soon_threadsafe(self._work)
        self._tick.start(TICK_SECS, now=False)
        if self._job.resumed:
            self._stats.set_value("job/resumed", 1)
        logger.info("%s", self._figures.beginning(self._job), extra={"spider": spider})

    async def _undo(self) -> None:
        """Close everything of a crawl that could not begin, as a processing module could not: there
        is nothing to save, and no crawl that a disk that fails now could end."""
        self._stop.has_begun = True
        await self._close("never begun")

    def close(self, reason: str) -> Deferred[None]:
        """Make the last checkpoint and close everything; a failure leaves the previous one."""
        return deferred_from_coro(self._close(reason))

    async def _close(self, reason: str) -> None:
        if not self._is_open:
            return
        self._is_open = False
        if self._tick.running:
            self._tick.stop()
        self._alarm.cancel()
        try:
            await self._checkpoints.wait()
            if self._temporary is None and await self._checkpoints.make():
                logger.info("Crawl state saved (%s)", reason, extra={"spider": self._spider})
        finally:
            self._figures.publish()
            await asyncio.to_thread(self._executor.shutdown)
            parts: list[Any] = [self._frontier, self._eliminator, self._content]
            # The frontier's rests are with the last.
            parts += [*self._tables.values(), self._outcome_log, self._hosts]
            for part in parts:
                try:
                    part.close()
                except _DISK_ERRORS as error:
                    self._stop.fail(error)
            self.reading.close()
            self._job.close()
            if self._temporary is not None:
                await asyncio.to_thread(self._temporary.cleanup)

    def has_pending_requests(self) -> bool:
        """Whether anything waits, is leased, or may come to the frontier yet. O(1)."""
        return bool(len(self._frontier) or self._frontier.leased or self._inflow.may_bring)

    def enqueue_request(self, request: Request) -> bool:
        """Take an ordinary Request of a spider or middleware; False when it is a duplicate.

        It goes through the eliminator like a link (answering True when that takes time to
        know), or past it with ``dont_filter``. Its priority is the prioritizer's business.
        """
        adopted = self._requests.adopt(request)
        if adopted is None:
            return False
        try:
            if adopted.dont_filter:
                self._frontier.requeue(self._codec.entry(adopted, rank_of=self._links.rank_of))
                return True
            seen_as = self._codec.fingerprint(adopted)
            if self._eliminator.certainly_seen(seen_as):
                self._stats.inc_value("dupefilter/filtered")
                return False
            entry = self._codec.entry(adopted, rank_of=self._links.rank_of)
            self._eliminator.submit([seen_as], lambda _: encode(entry))
        except _DISK_ERRORS as error:
            # It is lost with what it came of, which therefore is not finished: see CrawlStop.
            self._stop.fail(error)
        return True

    def next_request(self) -> Request | None:
        """The next request that politeness allows, or None; then the engine is woken in time."""
        deadline = now() + _SLICE_SECS
        most = _LOOKUPS_PER_WORKER * self._workers
        try:
            for _ in range(_DENIALS_PER_CALL):
                if (
                    self.pauses
                    or self._links.awaits_seeds
                    or self._completion.host_release.looking_up >= most
                ):
                    return None  # whoever ends that wakes the engine
                full = scraper_is_full(self._crawler.engine)
                lease = self.side_downloads.acquire() if full else self._frontier.acquire()
                if lease is None and full:
                    return None  # the next slice of background work wakes the engine
                if lease is None:
                    self._inflow.is_starving = True
                    self._alarm.set(self._frontier.ready_at())
                    return None
                request = self._dispatcher.dispatch(lease)
                if request is not None:
                    return request
                if now() >= deadline:
                    break  # a hostile robots.txt takes milliseconds for each URL
        except Exception as error:  # noqa: BLE001  # the engine would go on without that lease
            self._stop.fail(error)
            return None
        self._alarm.set(0.0)  # at once
        return None

    # --- for spiders and extensions

    def saved(self, name: str) -> bytes | None:
        """The last checkpoint's state of the part *name* that the spider brings along."""
        return self._job.saved(name)

    def attach(self, name: str, part: Part) -> None:
        """Save *part* (the seed cursor) with every checkpoint from now on."""
        self._job.attach(name, part)

    @property
    def is_full(self) -> bool:
        """Whether the eliminator asks those who feed it to pause."""
        return self._eliminator.is_full

    @property
    def is_ending(self) -> bool:
        """Whether the crawl is being closed: who feeds it must stop, and loses nothing by it."""
        return not self._is_open or self._stop.has_begun or is_closing(self._crawler.engine)

    def submit_seeds(self, seeds: Sequence[Seed]) -> None:
        """Submit a batch of seeds; on disk when this returns, unless the crawl ``is_ending``."""
        try:
            self._links.submit_seeds(seeds)
        except _DISK_ERRORS as error:
            self._stop.fail(error)

    def seeds_are_read(self) -> None:
        """There are no more seeds."""
        self._links.awaits_seeds = False
        self._inflow.is_fed = True

    def submit_page(self, page: Page, fetch: Fetch, links: Sequence[Link] | None = None) -> bool:
        """Submit *links*, which are of *page*, or all that it has; on disk when this returns. False
        when the disk is full: the page's URL then goes back, and the crawl ends."""
        entry = fetch.lease.entry
        depths = Depths.of_entry(entry)
        try:
            refused = self._links.submit_page(page, links, chain=entry.chain, depths=depths)
        except _DISK_ERRORS as error:
            self._completion.not_stored(fetch, error)
            return False
        fetch.page.redirect_target, fetch.page.redirect_refused = page.redirect_target, refused
        return True

    def is_seen(self, fetch: Fetch, document: int) -> bool:
        """The content-seen test: see ``Completion.is_seen``."""
        return self._completion.is_seen(fetch, document)

    def is_first_there(self, fetch: Fetch, place: int) -> bool:
        """As ``Completion.is_first_there``."""
        return self._completion.is_first_there(fetch, place)

    def try_bugs_again(self) -> None:
        """URLs that were given up for a bug are for the next run: see crawl/completion.py."""
        try:
            self._completion.try_bugs_again()
        except _DISK_ERRORS as error:
            self._stop.fail(error)

    def start_checkpoint(self) -> None:
        """Begin a checkpoint unless one is being made, nothing of the crawl is to stay, or it is
        being closed, which makes one at its end; returns at once."""
        if not self.is_ending and self._temporary is None:
            self._checkpoints.start()

    def publish(self) -> None:
        """Put the figures of all parts into the stats."""
        if self._is_open:
            self._figures.publish()

    def state(self) -> State:
        """What the crawl is doing now."""
        return self._figures.state()

    # --- background work

    def _work(self) -> None:
        """A slice of what goes on between requests: URLs on their way to the frontier, leases that
        nobody gave back, what is known of hosts."""
        if not self._is_open:
            return
        if is_closing(self._crawler.engine):
            self._hurry_up()
        try:
            self._inflow.work()
            idle_secs = self.side_downloads.idle_secs
            self._completion.expire(self._lease_secs, spares_pages=idle_secs <= self._lease_secs)
            if idle_secs > self._item_secs:  # modules may wait for downloads
                self._items.cut(self._item_secs)
            self._hosts.work()
            self._bound.look()
        except Exception as error:  # noqa: BLE001  # a looping call that raised never comes back
            self._stop.fail(error)
            return
        self._wake_engine()

    def _wake_engine(self) -> None:
        """Wake it when a host is ready, and when the last URL turned out to be a duplicate:
        then nothing else would tell it that the crawl has finished."""
        ready_at = self._frontier.ready_at()
        pending = self.has_pending_requests()
        ready = ready_at is not None and ready_at <= self._hosts.clock()
        if ready or (self._had_pending and not pending):
            wake(self._crawler.engine)
        self._had_pending = pending

    def _hurry_up(self) -> None:
        """The engine waits for the downloads and items under way: after a while, no longer."""
        at = now()
        if self._stopping_since is None:
            self._stopping_since = at
            if self.side_downloads:
                self._completion.put_back_pages()  # they may have waited for one
            self.side_downloads.close()
        elif at - self._stopping_since >= self._grace_secs:
            abort_downloads(self._crawler.engine)
            self._items.cut(_ITEM_SECS_AT_END, at_end=True)


def is_mercator(kind: type) -> bool:
    """Whether *kind* is this scheduler's class or made of it. ``issubclass`` would not tell:
    Scrapy's metaclass takes every scheduler for one of every class of schedulers."""
    return MercatorScheduler in kind.__mro__


def scheduler_of(crawler: Crawler) -> MercatorScheduler | None:
    """The scheduler of a crawl that is open; None when it is another one."""
    scheduler = crawler.engine.scheduler
    return cast("MercatorScheduler", scheduler) if is_mercator(type(scheduler)) else None
