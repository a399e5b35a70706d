"""The process of the shard model: the real parts of one job, without Scrapy around them.

Built as crawl/builder.py builds them, opened and closed as the scheduler does it. What stands for
Scrapy (statistics, the crawl's end, a worker that works when told to) is here too.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from host_rig import Records, host_rig
from scrapy.signalmanager import SignalManager
from seen_rig import HeldExecutor, InlineExecutor

from webcrawl.crawl.job.jobdir import Job
from webcrawl.crawl.lease.completion import Completion
from webcrawl.crawl.lease.dispatcher import Dispatcher
from webcrawl.crawl.lease.host_release import HostRelease
from webcrawl.crawl.lease.lease_requests import LeaseRequests
from webcrawl.crawl.lease.outcome_log import INFO_LOG, OutcomeLog
from webcrawl.crawl.lease.pickled_requests import PickledRequests
from webcrawl.crawl.lease.services import ProcessServices
from webcrawl.crawl.lease.side_downloads import SideDownloads
from webcrawl.crawl.links.reading import ReadingWatch
from webcrawl.crawl.links.submission import LinkRules, LinkSubmitter
from webcrawl.crawl.seeds import SeedReader
from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.crawl.shard.shard import ShardTables
from webcrawl.crawl.shard.shards import Shards
from webcrawl.frontier import (
    DepthRankPrioritizer,
    Entry,
    Frontier,
    FrontierPolicies,
    FrontierSizes,
    GeometricSelector,
    LargestDelay,
    back_queue,
    done_log,
    front_end,
    frontier,
    overflow,
)
from webcrawl.frontier import snapshot as frontier_snapshot
from webcrawl.hosts.budgets.depths import DepthBudgets
from webcrawl.seen import BloomEliminator, DiskEliminator, compaction, levels, run_scan, runs
from webcrawl.seen.bloom import BloomSet, filter_path
from webcrawl.seen.caches.clock import ClockCache
from webcrawl.seen.content import ContentSeen
from webcrawl.storage.fifo import DiskFifo
from webcrawl.storage.line_log import LineLog
from webcrawl.urls import HTTP_SCHEMES, host_of
from webcrawl.urls.filters.chain import FilterChain, scheme_filter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import pytest
    from scrapy import Request

    from webcrawl.crawl.job.jobdir import PreparedCheckpoint
    from webcrawl.crawl.lease.fetch import Fetch
    from webcrawl.seen import Eliminator

POLICY = LargestDelay(factor=10.0, floor=3.0, ceiling=120.0)
MAX_CRAWL_DELAY = 100.0
RETRY_TIMES = 2
WORKERS = ("inline", "held", "thread")
ELIMINATORS = ("disk", "bloom")


def make_everything_small(patch: pytest.MonkeyPatch) -> None:
    """So small that a crawl of a hundred URLs walks every path of the code."""
    make_queues_small(patch)
    patch.setattr(done_log, "_HELD_BACK", 3)
    patch.setattr(frontier, "_CONTACTS_PER_WRITE", 2)
    patch.setattr(frontier_snapshot, "_PIECE", 60)
    patch.setattr(compaction, "_SLICE_SECS", 0.0)
    patch.setattr(levels, "_MERGED_BLOCKS", 2)
    for module in (runs, run_scan):
        patch.setattr(module, "BLOCK", 4)
        patch.setattr(module, "BLOCK_BYTES", 32)
    patch.setattr(runs, "READ_BLOCKS", 2)
    patch.setattr(runs, "_SMALL_BLOCKS", 1)


def make_queues_small(patch: pytest.MonkeyPatch) -> None:
    """So that short queues are on disk, in many files, and few runs are merged; all files can be
    read by who has not called this."""
    patch.setattr(front_end, "CHUNK", 2)
    patch.setattr(back_queue, "INLINE", 2)
    patch.setattr(overflow, "CHUNK", 2)
    patch.setattr(overflow, "SEGMENT_BYTES", 150)
    assert DiskFifo.__init__.__kwdefaults__ is not None
    patch.setitem(DiskFifo.__init__.__kwdefaults__, "segment_bytes", 200)
    patch.setattr(levels, "FAN_OUT", 2)


class Stats(Counter[str]):
    """As much of Scrapy's statistics as the dispatcher needs."""

    def inc_value(self, name: str, count: int = 1) -> None:
        self[name] += count

    def set_value(self, name: str, value: int) -> None:
        self[name] = value


class Crawler:
    """As much of Scrapy's as the dispatcher needs."""

    def __init__(self) -> None:
        self.stats = Stats()
        self.signals = SignalManager()
        self.spider = None


class CrawlStop:
    """As much of ``webcrawl.crawl.engine.stop.CrawlStop`` as works without Scrapy."""

    def __init__(self) -> None:
        self.has_begun = False

    def fail(self, error: Exception) -> None:
        assert isinstance(error, OSError)
        self.has_begun = True


class Attempt(NamedTuple):
    """What names an entry in the done log."""

    url: str
    number: int

    @classmethod
    def of(cls, entry: Entry) -> Attempt:
        return cls(entry.url, entry.attempts)


@dataclass(slots=True, eq=False)
class Flight:
    """A request on its way through downloader, spider and pipelines; *stage* is what is next."""

    request: Request
    fetch: Fetch
    sent_at: float
    stage: str = "download"

    @property
    def entry(self) -> Entry:
        return self.fetch.lease.entry

    @property
    def has_lease(self) -> bool:
        """Whether the URL is leased for it, not only the host."""
        return self.fetch.holds_url


class Machine(NamedTuple):
    """What a process finds where it begins."""

    jobdir: Path
    seeds: Path
    clock: Callable[[], float]
    boot: str


class Process:
    """One process of the crawl, with settings by *rng*: they may change between two."""

    def __init__(
        self, machine: Machine, *, eliminator: str, worker: str, rng: random.Random
    ) -> None:
        shard = machine.jobdir / "shards" / "00"
        queues = rng.randrange(1, 4)
        self.executor: Any = {
            "inline": InlineExecutor,
            "held": HeldExecutor,
            "thread": lambda: ThreadPoolExecutor(max_workers=1),
        }[worker]()
        self.job = Job(path=machine.jobdir, read_boot_id=lambda: machine.boot)
        self.frontier = Frontier(
            path=shard / "frontier",
            clock=machine.clock,
            policies=FrontierPolicies(
                prioritizer=DepthRankPrioritizer(levels=rng.randrange(1, 5)),
                selector=GeometricSelector(rng=random.Random(rng.random())),
                delay=POLICY,
            ),
            sizes=FrontierSizes(
                queues=queues,
                max_queues=queues + rng.randrange(3),
                slice_size=rng.choice((1, 3, 64)),
            ),
        )
        self.eliminator = self._eliminator(eliminator, shard / "seen", rng)
        self.content = ContentSeen(
            path=shard / "content", executor=self.executor, buffer_size=rng.randrange(2, 6)
        )
        self.stop = CrawlStop()
        crawler = Crawler()
        self.outcome_log = OutcomeLog(
            crawler=crawler,  # type: ignore[arg-type]  # as much of it as is needed
            log=LineLog(path=machine.jobdir / INFO_LOG, max_bytes=1000),
            comparison_form=str,
            clock=machine.clock,
        )
        # What a host has shown is no part of a checkpoint, and the judge keeps no such book.
        hosts = host_rig(
            policy=POLICY,
            clock=machine.clock,
            records=Records(forgetful=True),
            crawl_delay_cap=MAX_CRAWL_DELAY,
            longest_retry_after=MAX_CRAWL_DELAY,
            retry_times=RETRY_TIMES,
        )
        tables = ShardTables(
            seen=self.eliminator,
            content=self.content,
            ranks=HostRanks(path=shard / "ranks", capacity=16),
            domains=HostRanks(path=shard / "domains"),
        )
        self.shard = hosts.shard(self.frontier, tables)
        shards = Shards([self.shard])
        rules = LinkRules(
            filters=FilterChain([scheme_filter(HTTP_SCHEMES)]),
            seed_filters=FilterChain([scheme_filter(HTTP_SCHEMES)]),
            comparison_form=str,
            max_redirects=100,
            obeys_nofollow=False,
            depth_budgets=DepthBudgets(),
        )
        self.links = LinkSubmitter(sink=shards, rules=rules, clock=machine.clock)
        services = ProcessServices(
            shards=shards,
            crawler=crawler,  # type: ignore[arg-type]  # likewise
            rules=hosts.rules,
            outcome_log=self.outcome_log,
            reading=ReadingWatch(jobdir=machine.jobdir, max_secs=1.0),
            stop=self.stop,  # type: ignore[arg-type]  # likewise
            pickled=PickledRequests(),
        )
        requests = LeaseRequests(
            crawler=crawler,  # type: ignore[arg-type]  # likewise
            codec=None,  # type: ignore[arg-type]  # for ordinary Requests only
            items=None,  # type: ignore[arg-type]  # for the callback of robots.txt only
            sitemap_bytes=1,
            page_bytes=1,
        )
        self.completion = Completion(
            services=services,
            host_release=HostRelease(services=services, wake=lambda: None),
            requests=requests,
        )
        self.dispatcher = Dispatcher(
            services=services,
            side_downloads=SideDownloads(shards=shards, key_of=host_of, clock=machine.clock),
            requests=requests,
            completion=self.completion,
            links=self.links,
        )
        self.seeds = SeedReader(
            sources=[str(machine.seeds)],
            spool_dir=machine.jobdir / "seeds",
            stdin=sys.stdin.buffer,
        )
        self.flights: list[Flight] = []
        self.prepared: PreparedCheckpoint | None = None
        self.is_published = False
        self.is_closed = False

    def _eliminator(self, kind: str, path: Path, rng: random.Random) -> Eliminator:
        if kind == "bloom":
            return BloomEliminator(
                path=path,
                executor=self.executor,
                capacity=100,
                error_rate=1e-9,
                log_file_bytes=400,
                save_after=150,
            )
        return DiskEliminator(
            path=path,
            executor=self.executor,
            cache=ClockCache(size=rng.randrange(1, 5)),
            buffer_size=rng.randrange(2, 10),
            log_file_bytes=400,
        )

    def open(self, facts: Mapping[str, Any]) -> None:
        """``Agent.open`` and the start of the spider."""
        self.job.open()
        state = self.job.shard("00")
        self.shard.open(state)
        self.outcome_log.open()
        if not self.job.own.resumed or self.job.own.rebooted:
            state.facts = {**facts, "seed": self.job.seed}
            self.job.publish(self.job.prepare({}))
            self.job.forget()
        self.seeds.open(self.job.own.saved("seeds"))
        self.job.own.attach("seeds", self.seeds)

    def close(self) -> None:
        """The end of ``Agent.close``."""
        self.executor.shutdown()
        self.outcome_log.close()
        self.shard.close(self.stop.fail)
        self.seeds.close()
        self.job.close()
        self.is_closed = True

    @property
    def has_pending_requests(self) -> bool:
        """``MercatorScheduler.has_pending_requests``."""
        return self.shard.may_bring

    def named_files(self) -> set[Path]:
        """Every file that the checkpoint it began with may name, or that it may have made since."""
        path = self.job.path
        shard = path / "shards" / "00"
        named = {path / "LOCK", *shard.glob("*/ranks.log")}
        # A publication may have died in the middle; the next one cleans up.
        for state in (path, shard):
            named.update(*map(state.glob, ("manifest-*", "snapshot-*", "CURRENT*")))
        log = self.frontier._log
        named.update(map(log._file, range(log._kept_from, log.number + 1)))
        spilled = [
            queue.overflow for queue in self.frontier._back._table.values() if queue.overflow
        ]
        for fifo in [*self.frontier._front._fifos, *spilled]:
            named.update(map(fifo._file, range(fifo._head_segment, fifo._tail_segment + 1)))
        urls = self.eliminator._log
        named.update(map(urls.file, range(urls._published_first, urls._number + 1)))
        for part in (self.content, self.eliminator._set):
            if isinstance(part, BloomSet):
                named.update(filter_path(part._path, part._saved + n) for n in (0, 1))
            else:
                found = part._levels
                named.update(found._published, map(found._file, range(1, found._next)))
        return named
