"""One running process of a crawl: its parts, from opening to closing.

A crawl may span several processes, and a process holds any number of the crawl's shards. It owns
the job directory, everything that all hosts share (resolver, guard, exclusions, pauses, outage),
the code that hands out and takes back leases, and the executors that work for all shards. The
scheduler connects it to Scrapy's engine. Spiders and extensions use three of its parts: `intake`
accepts what they submit, `health` says how the crawl is doing, and `stop` ends it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from scrapy import Spider

from webcrawl.clock import now
from webcrawl.configuration.values import component, flag
from webcrawl.crawl.engine._engine import wake
from webcrawl.crawl.figures.counts import is_unused
from webcrawl.crawl.health import HasStats, Health
from webcrawl.crawl.intake import Intake
from webcrawl.crawl.job.checkpointer import Checkpointer
from webcrawl.crawl.job.saved_settings import settings_to_save
from webcrawl.crawl.job.totals import PREFIX, Totals, sum_counts
from webcrawl.crawl.job_state import JobState
from webcrawl.crawl.lease.services import ProcessServices
from webcrawl.crawl.leases import Leases
from webcrawl.crawl.seeds.seed_reader import SPOOL_NAME
from webcrawl.crawl.shard.shard import Shard
from webcrawl.crawl.shard_lifecycle import ShardLifecycle
from webcrawl.crawl.task.page_reader import PageReader
from webcrawl.frontier import Supply
from webcrawl.net.fence import Fence
from webcrawl.rights.purposes import purpose_of
from webcrawl.seen.fingerprint import fingerprint
from webcrawl.signals import JOB_IS_VOID

logger = logging.getLogger(__name__)

# If all of these stats are 0, the job has no content.
_CONTENT = (
    "seen/submitted",
    "frontier/waiting",
    "frontier/leased",
    "frontier/parked",
    "frontier/finished",
    "item_scraped_count",
)


@dataclass(frozen=True, kw_only=True)
class ProcessHooks:
    """Callbacks through which a hive takes part in decisions; the defaults suit a lone process.

    fence: asked before each URL is handed out, and again when something is about to be sent for it;
        None: hosts may always be contacted.
    may_end: whether the crawl may end when nothing is left to do here.
    checkpoint_due: called when it is time for a checkpoint; None: one is started.
    published: awaited with each checkpoint, while all files named by it exist. Its errors are
        logged, and the checkpoint is valid anyway.
    supply: how soon other processes will have URLs to fetch, for reputation rounds.
    reported: more parts whose statistics are put into the stats.
    processes: the number of processes that share CONTACTS_MAX and BANDWIDTH_MAX.
    awaits: what the crawl waits for when nothing is left to do here, as a noun.
    """

    fence: Fence | None = None
    may_end: Callable[[], bool] = lambda: True
    checkpoint_due: Callable[[], None] | None = None
    published: Callable[[], Awaitable[None]] | None = None
    supply: Callable[[], Supply] = lambda: Supply.NONE
    reported: Sequence[HasStats] = ()
    processes: Callable[[], int] = lambda: 1
    awaits: Callable[[], str] = lambda: "seeds"


@dataclass(frozen=True, kw_only=True)
class ProcessParts:
    """Parts of a process that the scheduler, control commands and a hive use."""

    state: JobState
    services: ProcessServices
    hooks: ProcessHooks
    leases: Leases
    lifecycle: ShardLifecycle


class Process:
    """One process of a crawl. Everything runs in the reactor thread, except merges and fsync.

    *hooks* let other processes of the crawl take part in decisions. *reader* makes Pages of
    responses.
    """

    def __init__(
        self,
        *,
        state: JobState,
        services: ProcessServices,
        hooks: ProcessHooks,
        reader: PageReader,
    ) -> None:
        crawler = services.crawler
        self._hooks = hooks
        self._services = services
        self._state = state
        # A job directory is for one spider and one purpose.
        self._crawl = {
            "spider": cast("Spider", crawler.spider).name,
            "purpose": purpose_of(crawler.settings),
        }
        self._temporary = state.resources.temporary
        self.stop = services.stop
        job = state.resources.job
        self.job = job
        shards = state.shards
        self.shards = shards
        self.pauses = state.rules.pauses
        state.rules.rates.processes = hooks.processes
        leases = Leases(
            services=services,
            links=state.links,
            wake=self._wake,
            is_temporary=self._temporary is not None,
            reader=reader,
        )
        lifecycle = ShardLifecycle(state=state, on_adopt=self._wake, on_abandon=self._forget_shard)
        self.parts = ProcessParts(
            state=state, services=services, hooks=hooks, leases=leases, lifecycle=lifecycle
        )
        self.intake = Intake(
            state=state,
            services=services,
            leases=leases,
            lifecycle=lifecycle,
            may_end=hooks.may_end,
        )
        self._totals = Totals(
            stats=crawler.stats,
            clock=now,
            of_shards=lambda: sum_counts(*[shard.frontier.counts.crawl for shard in shards]),
            is_over=lambda: self.stop.is_over,
        )
        self.health = Health(
            state=state,
            services=services,
            completion=leases.completion,
            may_end=hooks.may_end,
            awaits=hooks.awaits,
            reported=[shards, self.pauses, reader.link_counts, *hooks.reported],
            totals=self._totals,
        )
        self.checkpoints = Checkpointer(
            job=job,
            signals=crawler.signals,
            stats=crawler.stats,
            facts=self._facts,
            stop=self.stop,
            on_published=hooks.published,
            on_due=hooks.checkpoint_due,
            is_temporary=self._temporary is not None,
        )
        self._job_has_content = False
        self._seed_spool = job.path / "seeds" / SPOOL_NAME  # copy of standard input

    def open(self, *, awaits_seeds: bool, on_merged: Callable[[], None]) -> None:
        """Lock the job directory and resume from the last checkpoint and the logs after it.

        *awaits_seeds*: the spider will call ``note_all_seeds_read``. *on_merged* is called
        soon after an eliminator has merged. Blocks. Raises as ``JobState.open``.
        """
        job = self.job
        services = self._services
        job.open(**self._crawl)
        if self._temporary is None and job.path.stat().st_mode & 0o022:
            logger.warning(
                "Other users may write to JOBDIR %s: they can change what this crawl does and, "
                "unless it is a hive's, run code in it by a pickled Request. Fix: chmod go-w %s",
                job.path,
                job.path,
            )
        if self._temporary is None:
            # In a hive, the files of the drones need different names.
            suffix = "" if self.shards.remote is None else f"-{job.path.name}"
            open_feeds = component("JOB_FEEDS", services.crawler.settings["JOB_FEEDS"])
            open_feeds(
                services.crawler, job.path, suffix, self.stop.fail, is_resumed=job.own.resumed
            )
        self.parts.lifecycle.open(awaits_seeds=awaits_seeds, on_merged=on_merged)
        services.outcome_log.open()
        services.reading.open()
        if (renderer := services.renderer) is not None:
            warning = renderer.open(
                # The pages of a hive belong to shards, which this process does not hold yet.
                forgets=job.own.rebooted or job.kept.is_copy or self.shards.remote is not None,
                take_up=self._take_up_page,
            )
            if warning:
                logger.warning("%s", warning)
            renderer.resume()
        self._totals.open(job.own.saved_snapshot("totals"))
        job.own.attach("totals", self._totals)
        if self._temporary is None and job.is_behind:
            # The logs can be trusted only until the machine that wrote them reboots.
            self.checkpoints.make_first()
        if job.own.resumed:
            services.crawler.stats.set_value("job/resumed", 1)
        self.stop.is_open = True
        self.health.open()

    def _take_up_page(self, url: str, key: int) -> bool:
        """Take up the rendered page *url*; return False if its entry, with this key, is finished.

        Until it is, links of its own domain do not make the URL new.
        """
        shard = self.shards.of(url)
        if key in shard.frontier.finished:
            return False
        shard.intake.foreign_in_process.add(fingerprint(self._state.links.comparison_form(url)))
        return True

    def release_directory(self) -> None:
        """Unlock the job directory after ``open`` failed or ``close`` returned. Blocks.

        A temporary directory is deleted. The signal JOB_IS_VOID says that a new job directory has
        nothing in it that must be kept.
        """
        self.job.close()
        if self._temporary is not None:
            self._temporary.cleanup()
        if self._is_job_void:
            self._services.crawler.signals.send_catch_log(JOB_IS_VOID, job=self.job)

    @property
    def _is_job_void(self) -> bool:
        """Return whether this run started the job and ended before any URL was submitted."""
        is_lone = self._temporary is None and self.shards.remote is None
        return is_lone and not self.job.own.resumed and not self._job_has_content

    async def close(self, reason: str) -> None:
        """Make the last checkpoint and close everything; a failure leaves the previous checkpoint.

        The directory stays locked until ``release_directory``.
        """
        services = self._services
        stop = self.stop
        stop.is_open = False
        self.health.close()

        try:
            await self.checkpoints.wait()  # until the one that may be under way is complete
            stop.is_over = True
            stats = {**services.crawler.stats.get_stats(), **self.shards.stats()}
            self._job_has_content = any(map(stats.get, _CONTENT)) or self._seed_spool.exists()
            if self._temporary is None and not self._is_job_void and await self.checkpoints.make():
                spider = services.crawler.spider
                logger.info("Crawl state saved (%s)", reason, extra={"spider": spider})
        finally:
            self.health.publish(always=True)
            # A merge may take minutes, so the reactor must not wait for it.
            await asyncio.to_thread(self._state.resources.merging.shutdown)
            services.outcome_log.close()
            self._state.close(stop.fail)
            services.reading.close()
            if services.renderer is not None:
                services.renderer.close()

    def work(self) -> None:
        """Do a slice of background work.

        Moves URLs to the frontiers, lets leases expire, writes host records, and reads files of
        rules that have changed. Raises the errors of these steps, such as OSError.
        """
        leases = self.parts.leases
        rules = self._state.rules
        if self._services.renderer is not None and not self.stop.is_ending:
            self._services.renderer.work()
        self.shards.work(self._hooks.supply())
        leases.side_downloads.refuse_leaving()
        lease_secs = self._services.live.lease_secs
        # The callback of a page may have waited for a side download until a short time ago.
        spares_pages = leases.side_downloads.idle_secs <= lease_secs
        leases.completion.expire(lease_secs, spares_pages=spares_pages)
        # No URL is handed out now, so the hosts that were looked up would stay in process.
        if self.pauses or self.stop.is_ending:
            leases.completion.host_release.release_resolved()
        for file in self._state.rules_files.values():
            file.reload_if_changed()
        rules.outage.work()

    def _wake(self) -> None:
        """Make the engine ask the scheduler for requests."""
        wake(self._services.crawler.engine)

    def _forget_shard(self, shard: Shard) -> None:
        """Ignore the results of leases of *shard*, which has left this process."""
        self.parts.leases.completion.forget_shard(shard)
        if self._services.renderer is not None:
            self._services.renderer.forget_shard(shard.number)
        self.parts.leases.side_downloads.refuse_leaving()

    def _facts(self) -> Mapping[str, Any]:
        """Return facts about the crawl for a checkpoint's manifest, for people and the next run.

        Brings the stats up to date first, because the totals are saved with the checkpoint.
        """
        self.health.publish(always=True)
        crawler = self._services.crawler
        facts = {**self._crawl, "revisits": flag(crawler.settings, "REVISIT")}
        is_last = self.stop.is_over and self.shards.remote is None
        # A job that has contacted no host yet starts over in the next run, with all of its seeds.
        if is_last and is_unused(crawler.stats.get_stats(), PREFIX):
            facts["starts_over"] = True
        return {**facts, **self._state.facts(), "settings": settings_to_save(crawler.settings)}
