"""The agent: what is per process of a crawl, over any number of shards.

A crawl may span several agents (the word is UbiCrawler's and BUbiNG's). The agent owns the job
directory, what all hosts have in common (resolver, guard, exclusions, pauses, outage), a lease's
way out and back, and the executors that work for all shards. The scheduler is its side to Scrapy's
engine; the spider and the extensions call it for the rest.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from webcrawl.clock import now
from webcrawl.configuration.values import flag
from webcrawl.crawl.engine._engine import is_closing, wake
from webcrawl.crawl.figures.outlook import sample_of
from webcrawl.crawl.figures.statistics import CrawlStatistics
from webcrawl.crawl.job.checkpointer import Checkpointer
from webcrawl.crawl.job.saved_settings import given
from webcrawl.crawl.job.state_directory import shard_name
from webcrawl.crawl.job.totals import Totals, added
from webcrawl.crawl.lease.completion import Completion
from webcrawl.crawl.lease.dispatcher import Dispatcher
from webcrawl.crawl.lease.host_release import HostRelease
from webcrawl.crawl.lease.item_limit import ItemLimit
from webcrawl.crawl.lease.lease_requests import LeaseRequests
from webcrawl.crawl.lease.plain_requests import NotPlainError
from webcrawl.crawl.lease.request_codec import RequestCodec
from webcrawl.crawl.lease.side_downloads import SideDownloads
from webcrawl.crawl.links.link_counts import LinkCounts
from webcrawl.crawl.links.page_intake import PageIntake, PageResult, PageState
from webcrawl.crawl.seeds.seed_reader import SPOOL_NAME
from webcrawl.crawl.shard.shards import NotHeldError
from webcrawl.crawl.shard_lifecycle import ShardLifecycle
from webcrawl.doctor.doctor import Doctor
from webcrawl.doctor.histogram import latencies_of
from webcrawl.doctor.record import Record
from webcrawl.doctor.states import CrawlState, State
from webcrawl.errors import FatalError
from webcrawl.frontier import Supply
from webcrawl.hosts.budgets.depths import Depths
from webcrawl.revisit.change import text_fingerprint_of
from webcrawl.revisit.history import history_of
from webcrawl.signals import JOB_IS_VOID
from webcrawl.storage.record_log import DISK_ERRORS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from scrapy import Request, Spider

    from webcrawl.crawl.figures.statistics import HasStats
    from webcrawl.crawl.job.state_directory import StateDirectory
    from webcrawl.crawl.job_state import JobState
    from webcrawl.crawl.lease.fetch import Fetch
    from webcrawl.crawl.lease.services import ProcessServices
    from webcrawl.crawl.links.page_intake import Find, SlowLinks
    from webcrawl.crawl.links.remote_shards import RemoteShards
    from webcrawl.crawl.seeds import Seed
    from webcrawl.crawl.shard.live_settings import LiveSettings
    from webcrawl.crawl.shard.shard import Shard
    from webcrawl.doctor.diagnosis import Diagnosis
    from webcrawl.frontier import Entry
    from webcrawl.items import Page
    from webcrawl.urls import Link

logger = logging.getLogger(__name__)

# Stats that are not 0 when there is something in the job.
_CONTENT = (
    *("seen/submitted", "frontier/waiting", "frontier/leased", "frontier/parked"),
    *("frontier/finished", "item_scraped_count"),
)
# How often the doctor looks at the crawl: while it goes on, and while it waits for visits or seeds.
_LOOK_SECS = 1.0
_IDLE_LOOK_SECS = 10.0
# How often a process that waits for the shard with the seeds' cursor looks for it.
_SEEDS_LOOK_SECS = 0.1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AgentHooks:
    """What other processes of a crawl have a say in; the defaults are those of a lone process.

    may_contact: whether hosts may be contacted now; asked before each URL is handed out, and again
        when its request is about to be sent.
    may_end: whether the crawl may end when nothing is left to do here.
    checkpoint_due: called when a checkpoint is due by the clock; None: it is begun.
    published: awaited with each checkpoint, while all files are there that it names. What it
        raises is logged, and the checkpoint is good all the same.
    supply: how soon other processes have something to fetch, for reputation rounds.
    reported: parts whose figures are put into the stats, too.
    processes: the number of those that share CONTACTS_MAX and BANDWIDTH_MAX.
    """

    may_contact: Callable[[], bool] = lambda: True
    may_end: Callable[[], bool] = lambda: True
    checkpoint_due: Callable[[], None] | None = None
    published: Callable[[], Awaitable[None]] | None = None
    supply: Callable[[], Supply] = lambda: Supply.NONE
    reported: Sequence[HasStats] = ()
    processes: Callable[[], int] = lambda: 1


class Agent:
    """One process of a crawl. All of it runs in the reactor thread, except for merges and fsync.

    *hooks* are what other processes of the crawl have a say in.
    """

    _next_look: asyncio.TimerHandle | None = None

    def __init__(
        self,
        *,
        state: JobState,
        services: ProcessServices,
        live: LiveSettings,
        hooks: AgentHooks,
    ) -> None:
        self._hooks = hooks
        self.may_contact = hooks.may_contact
        self.checkpoint_due = hooks.checkpoint_due or self.start_checkpoint
        self._remote = state.shards.remote
        # Requests that came before the first shard did.
        self._early: list[Request] = []
        self._state = state
        self.job = state.resources.job
        self._temporary = state.resources.temporary
        self.rules = state.rules
        self.politeness_key = state.rules.key
        self.pauses = state.rules.pauses
        self.rates = state.rules.rates
        self.rates.processes = hooks.processes
        self.rules_files = state.rules_files
        self.shards = shards = state.shards
        self.links = state.links
        self.crawler = crawler = services.crawler
        self.spider = cast("Spider", crawler.spider)
        self.stats = crawler.stats
        self.outcome_log = services.outcome_log
        self.reading = services.reading
        self.stop = services.stop
        self.live = live
        self.codec = RequestCodec(
            spider=self.spider,
            stats=self.stats,
            fingerprinter=crawler.request_fingerprinter,
            key_of=self.rules.key_of,
            comparison_form=self.links.comparison_form,
            in_memory=self._temporary is not None,
            only_plain=self._remote is not None,
        )
        self.side_downloads = SideDownloads(shards=shards, key_of=self.rules.key_of, clock=now)
        self.items = ItemLimit(clock=now, crawler=crawler)
        self.fail = self.stop.fail
        self.end = self.stop.ask
        self.read_steps = self.reading.steps
        self.hand_over = self.items.hand_over
        self._intake = PageIntake(
            links=self.links, fail=self.stop.fail, text=text_fingerprint_of(crawler.settings)
        )
        self._requests = LeaseRequests.from_crawler(crawler, codec=self.codec, items=self.items)
        host_release = HostRelease(services=services, wake=self.wake)
        self.completion = Completion(
            services=services, host_release=host_release, requests=self._requests
        )
        self.failed_in_a_row = self.completion.rows
        self.dispatcher = Dispatcher(
            services=services,
            side_downloads=self.side_downloads,
            requests=self._requests,
            completion=self.completion,
            links=self.links,
        )
        self.totals = Totals(
            stats=self.stats,
            clock=now,
            of_shards=lambda: added(*[shard.frontier.crawl_counts for shard in shards]),
        )
        self._doctor = Doctor(clock=now, latencies=latencies_of(crawler))
        self._link_counts = LinkCounts()
        #: Whose figures are put into the stats.
        self.reported: list[HasStats] = [
            *(shards, self.pauses, self._link_counts, self._doctor),
            *hooks.reported,
        ]
        self.statistics = CrawlStatistics(self)
        self.activity = self.statistics.state
        self._checkpoints = Checkpointer(
            job=self.job,
            signals=crawler.signals,
            stats=self.stats,
            facts=self.facts,
            stop=self.stop,
            on_published=hooks.published,
        )
        self.lifecycle = ShardLifecycle(state=state, on_come=self.wake, on_go=self._forget_shard)
        self._score: Callable[[Page], int] | None = None
        self.is_open = False
        #: Whether what is left is the last checkpoint: nothing is under way any more.
        self.is_over = False
        self._has_content = False
        self._spool = self.job.path / "seeds" / SPOOL_NAME  # of standard input, read only once

    # --- its life

    def open(self, *, awaits_seeds: bool, on_merged: Callable[[], None]) -> None:
        """Lock the job directory and take up the crawl where the last checkpoint and the logs
        after it left it. *awaits_seeds*: the spider is going to call ``seeds_are_read``.
        *on_merged* is called soon after an eliminator has merged. Blocks. Raises as
        ``JobState.open``."""
        self.job.open(spider=self.spider.name)
        if self._temporary is None and self.job.path.stat().st_mode & 0o022:
            logger.warning(
                "JOBDIR %s may be written to by others, and who can write there runs code in this "
                "crawl, as pickled Requests are read from there: chmod go-w",
                self.job.path,
            )
        self.lifecycle.open(awaits_seeds=awaits_seeds, on_merged=on_merged)
        self.outcome_log.open()
        self.reading.open()
        self.totals.open(self.job.own.saved("totals"))
        self.job.own.attach("totals", self.totals)
        if self._temporary is None and self.job.is_behind:
            # The word of the logs is good for as long as the machine runs that wrote them.
            self._checkpoints.make_first()
        if self.job.own.resumed:
            self.stats.set_value("job/resumed", 1)
        self.is_open = True
        loop = asyncio.get_running_loop()
        self._next_look = loop.call_later(_LOOK_SECS, self._look, now() + _LOOK_SECS)

    @property
    def is_temporary(self) -> bool:
        """Whether nothing of the crawl is kept when it ends."""
        return self._temporary is not None

    def give_back(self) -> None:
        """``open`` has failed, or all is closed: give the directory back. Blocks."""
        self.job.close()
        if self._temporary is not None:
            self._temporary.cleanup()
        if self.is_void:
            self.crawler.signals.send_catch_log(JOB_IS_VOID, job=self.job)

    @property
    def is_void(self) -> bool:
        """Whether the job began in this run, which has ended before a URL was submitted."""
        is_lone = self._temporary is None and self._remote is None
        return is_lone and not self.job.own.resumed and not self._has_content

    async def close(self, reason: str) -> None:
        """Make the last checkpoint and close everything; a failure leaves the previous one. The
        directory stays locked until ``give_back``."""
        self.is_open = False
        if self._next_look is not None:
            self._next_look.cancel()
        try:
            await self._checkpoints.wait()
            if reason != "finished" and not self.stop.has_begun:
                self.completion.try_rows_again()
            self.is_over = True
            stats = {**self.stats.get_stats(), **self.shards.stats()}
            self._has_content = any(map(stats.get, _CONTENT)) or self._spool.exists()
            if self._temporary is None and not self.is_void and await self._checkpoints.make():
                logger.info("Crawl state saved (%s)", reason, extra={"spider": self.spider})
        finally:
            self.statistics.publish()
            await asyncio.to_thread(self._state.resources.merging.shutdown)
            self.outcome_log.close()
            self._state.close(self.stop.fail)
            self.reading.close()

    # --- checkpoints

    async def until_no_checkpoint(self) -> None:
        """Return when no checkpoint is being made: one that is begun in the same turn of the loop
        has what is there then."""
        await self._checkpoints.settle()

    async def checkpoint(self) -> bool:
        """Make a checkpoint of the present, after one that is being made; whether it was made."""
        return await self._checkpoints.make_another()

    def start_checkpoint(self) -> None:
        """Begin a checkpoint unless one is being made, nothing of the crawl is to stay, or it is
        being closed, which makes one at its end; returns at once."""
        if not self.is_ending and self._temporary is None:
            self._checkpoints.start()

    def wake(self) -> None:
        """Let the engine ask for requests."""
        wake(self.crawler.engine)

    def _forget_shard(self, shard: Shard) -> None:
        self.completion.forget_shard(shard)
        self.side_downloads.refuse_leaving()

    def work(self) -> None:
        """A slice of what goes on between requests: URLs on their way to the frontiers, leases
        that were not given back, host records. Raises what they raise."""
        self.shards.drain(self._hooks.supply())
        self.side_downloads.refuse_leaving()
        lease_secs = self.live.lease_secs
        spares_pages = self.side_downloads.idle_secs <= lease_secs
        self.completion.expire(lease_secs, spares_pages=spares_pages)
        if self.pauses or self.is_ending:
            self.completion.host_release.release_found()
        for file in self.rules_files.values():
            file.reload_if_changed()
        self.rules.outage.work()

    def diagnosis(self) -> Diagnosis:
        """What binds the crawl now."""
        return self._doctor.diagnosis()

    def state(self) -> State:
        """What the process does now."""
        if self.is_ending:
            return State(CrawlState.STOPPING)
        if self.pauses:
            return State(CrawlState.PAUSED, " ".join(self.pauses.sentences))
        if self.shards.awaits_seeds:
            return State(CrawlState.STARTING, "all seeds are read first")
        if waits_for := self.waits_for:
            return State(CrawlState.WAITING, waits_for, self.shards.next_due or 0.0)
        return State(CrawlState.RUNNING)

    def record(self) -> Record:
        """What the doctor says, to be kept."""
        return Record.of(
            self.activity(),
            state=self.state(),
            diagnosis=self.diagnosis(),
            projection=self.projection(),
            shards=Counter(str(shard.state) for shard in self.shards),
        )

    def look_ahead(self) -> str:
        """Take a sample of the crawl, and say when it will have come to its end, or how fresh it
        can be kept; "" while nothing can be said."""
        projection = self._doctor.projection
        if self.is_open and not self.pauses:
            projection.add(sample_of(self.shards, self.live.quotas))
        return projection.words()

    def projection(self) -> str:
        """What ``look_ahead`` said last."""
        return self._doctor.projection.words()

    def _look(self, due: float) -> None:
        """Let the doctor look at the crawl, and again in a while; this look was *due* then."""
        self._doctor.look(self.activity(), now() - due)
        secs = _IDLE_LOOK_SECS if self.waits_for else _LOOK_SECS
        loop = asyncio.get_running_loop()
        self._next_look = loop.call_later(secs, self._look, now() + secs)

    def close_side_downloads(self) -> None:
        """The crawl is being closed: pages whose processing may have waited for a download go
        back, to be fetched and processed whole by the next run."""
        if self.side_downloads:
            self.completion.put_back_pages()
        self.side_downloads.close()

    # --- requests

    def enqueue(self, request: Request) -> bool:
        """Take an ordinary Request of a spider or middleware; False when it is a duplicate.

        It goes through the eliminator like a link (answering True when that takes time to
        know), or past it with ``dont_filter``. Its priority is the prioritizer's business.
        """
        adopted = self._requests.adopt(request)
        if not len(self.shards):
            self._early.append(adopted)
            return True
        try:
            if self._remote is not None:
                return self._enqueue_in_hive(adopted, self._remote)
            shard = self.shards.of(adopted.url)
            name = None if adopted.dont_filter else self.codec.fingerprint(adopted)
            if name is not None and shard.eliminator.certainly_seen(name):
                self.stats.inc_value("dupefilter/filtered")
                return False
            shard.enqueue(self.codec.entry(adopted, self.items.page), name)
        except DISK_ERRORS as error:
            # It is lost with what it came of, which therefore is not finished: see CrawlStop.
            self.stop.fail(error)
        except NotHeldError:
            pass  # as what it came of, whose shard is another process's
        return True

    def visit(self, entry: Entry) -> None:
        """Take *entry*, of a URL that was finished before: past the eliminator, if the filters of
        seeds let it pass."""
        if self.links.refuses_seed(entry.url):
            return
        try:
            if self._remote is not None:
                self._remote.enqueue(replace(entry, host=self.rules.key_of(entry.url)), None)
            else:
                self.shards.of(entry.url).enqueue(entry, None)
        except DISK_ERRORS as error:
            self.stop.fail(error)
        except NotHeldError:
            pass  # who holds it finds the item again

    def enqueue_early(self) -> None:
        """Take the Requests that came before there was a shard."""
        early, self._early = self._early, []
        for request in early:
            self.enqueue(request)

    def _enqueue_in_hive(self, request: Request, remote: RemoteShards) -> bool:
        """Which page it came of is not known, and that page's checkpoint must not be published
        before it: so also for a shard of this process it goes by *remote*. False if it cannot.
        """
        try:
            entry = self.codec.entry(request, self.items.page)
        except NotPlainError as error:
            logger.warning(
                "%s is refused, as a hive cannot send it: %s. Put plain data into its meta and "
                "cb_kwargs; see docs/hive.md and the stat hive/requests/refused",
                request,
                error,
                extra={"spider": self.spider},
            )
            self.stats.inc_value("hive/requests/refused")
            return False
        # All processes of a hive begin with the same requests.
        is_filtered = not request.dont_filter or request.meta.get("is_start_request")
        remote.enqueue(entry, self.codec.fingerprint(request) if is_filtered else None)
        return True

    # --- for spiders and extensions

    @property
    def is_full(self) -> bool:
        """Whether sources of URLs should pause."""
        return self.shards.is_full or (self._remote is not None and self._remote.is_full)

    @property
    def has_pending(self) -> bool:
        """Whether anything waits, is leased, or may come to a frontier yet, or the crawl may not
        end for another reason. O(shards)."""
        return self.shards.may_bring or not self._hooks.may_end()

    @property
    def waits_for(self) -> str:
        """What the process waits for, as it has nothing left and may not end; "" otherwise."""
        if self.shards.may_bring or self._hooks.may_end():
            return ""
        next_at = self.shards.next_due
        if next_at is not None:
            at = datetime.fromtimestamp(next_at, UTC)
            return f"visits from {at:%Y-%m-%d %H:%M} UTC"
        return "seeds" if self._remote is None else "other drones or seeds"

    @property
    def is_ending(self) -> bool:
        """Whether the crawl is being closed: what feeds it must stop, and loses nothing by it."""
        return not self.is_open or self.stop.has_begun or is_closing(self.crawler.engine)

    async def seed_states(self) -> AsyncIterator[StateDirectory]:
        """The states that have the cursor of the seeds, each when seeds are to be read.

        That of the job; of a process that does not hold all shards that of shard 0, whenever it
        comes to hold it, until the crawl may end.
        """
        if self._remote is None:
            yield self.job.own
            return
        read: StateDirectory | None = None
        while not (self.is_ending or self._hooks.may_end()):
            if shard_name(0) in self.job.shards:
                state = self.job.shard(shard_name(0))
                if state is not read and self.may_read_seeds(state):
                    read = state
                    yield state
            await asyncio.sleep(_SEEDS_LOOK_SECS)

    def may_read_live_seeds(self) -> bool:
        """Whether seeds may be read that come while the crawl goes on: by whoever holds shard 0."""
        return not self.is_full and self.may_read_seeds(self.job.own)

    def may_read_seeds(self, state: StateDirectory) -> bool:
        """Whether seeds may be read whose cursor is in *state*."""
        first = self.shards.held(0)
        is_leaving = self._remote is not None and (first is None or first.is_leaving)
        return not (self.is_ending or state.is_dropped or is_leaving)

    def submit_seeds(self, seeds: Sequence[Seed]) -> None:
        """Submit a batch of seeds; on disk when this returns, unless the crawl ``is_ending``."""
        try:
            self.links.submit_seeds(seeds)
        except DISK_ERRORS as error:
            self.stop.fail(error)

    def seeds_are_read(self) -> None:
        """There are no more seeds."""
        if self._remote is not None:
            self._remote.seeds_are_read()
            return
        self.lifecycle.awaits_seeds = False
        for shard in self.shards:
            shard.seeds_are_known()

    def read_page(
        self, page: Page, fetch: Fetch, find: Find
    ) -> tuple[Sequence[Link], SlowLinks | None]:
        """As ``PageIntake.read``; *find* is cut off if it takes too long."""

        def watched(page: Page) -> SlowLinks | None:
            with self.reading.of(page.url):
                return find(page)

        content = fetch.lease.shard.content
        history = history_of(fetch.lease.entry)
        page.origin = fetch
        links, slow = self._intake.read(
            page, watched, content=content, result=fetch.page, history=history
        )
        if fetch.page.claim and slow is None and not fetch.page.is_duplicate:
            self._link_counts.add(page.links_found, len(links))
        result = fetch.page
        if self._score is not None and result.state is PageState.STORED and not result.score:
            with self.reading.of(page.url):
                result.score = self._score(page)
        return links, slow

    def submit_found(self, page: Page, links: Sequence[Link]) -> None:
        """Submit *links*, which a processing module found in *page*; on disk when this returns,
        unless the crawl ``is_ending``."""
        if page.origin is not None:
            self.submit_page(page, page.origin, links)
        else:  # one that a module or a spider made
            depths, result = Depths(), PageResult()
            self._intake.submit(page, links, result=result, chain=b"", depths=depths)

    def score_by(self, score: Callable[[Page], int]) -> None:
        """From now on *score*, of a processing module, scores pages. FatalError if one does."""
        if self._score is not None:
            raise FatalError("Two processing modules have a method score: leave one of them out.")
        self._score = score

    def submit_page(self, page: Page, fetch: Fetch, links: Sequence[Link]) -> bool:
        """As ``PageIntake.submit``; on disk when this returns."""
        entry = fetch.lease.entry
        depths = Depths.of_entry(entry)
        return self._intake.submit(page, links, result=fetch.page, chain=entry.chain, depths=depths)

    def hold_for_bugs(self, sentence: str) -> None:
        """The crawl ends because of errors of the program, as *sentence* says: nothing more is
        fetched, and the next run tries again what met one."""
        self.pauses.hold("errors", sentence)
        self.completion.try_bugs_again()

    def publish(self) -> None:
        """Put the figures of all parts into the stats."""
        if self.is_open:
            self.statistics.publish()

    def facts(self) -> Mapping[str, Any]:
        """Facts of the crawl for a checkpoint's manifest, for people and for a later run. The stats
        are brought up to date, as the totals are saved with it."""
        self.statistics.publish()
        settings = self.crawler.settings
        facts = {"spider": self.spider.name, "revisits": flag(settings, "REVISIT")}
        return {**facts, **self._state.facts(), "settings": given(settings)}
