"""The process of the shard model: an agent without an engine, whose worker works when told to."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_rig import agent_in, shard_of
from host_rig import Records
from seen_rig import HeldExecutor, InlineExecutor

from webcrawl.crawl.job.jobdir import Job
from webcrawl.crawl.seeds import SeedReader
from webcrawl.frontier import (
    Entry,
    FrontierSizes,
    LargestDelay,
    back_queue,
    done_log,
    front_end,
    frontier,
    overflow,
)
from webcrawl.frontier import snapshot as frontier_snapshot
from webcrawl.seen import BloomEliminator, DiskEliminator, compaction, levels, run_scan, runs
from webcrawl.seen.bloom import BloomSet, filter_path
from webcrawl.storage.fifo import DiskFifo

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import pytest
    from scrapy import Request

    from webcrawl.crawl.job.jobdir import PreparedCheckpoint
    from webcrawl.crawl.lease.fetch import Fetch

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


class Disk(DiskEliminator):
    """Its log is in many files."""

    def __init__(self, **options: Any) -> None:
        super().__init__(log_file_bytes=400, **options)


class Bloom(BloomEliminator):
    """It saves and grows often, and yet loses none of a few hundred URLs."""

    def __init__(self, **options: Any) -> None:
        super().__init__(log_file_bytes=400, save_after=150, **options)


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
        self.executor: Any = {
            "inline": InlineExecutor,
            "held": HeldExecutor,
            "thread": lambda: ThreadPoolExecutor(max_workers=1),
        }[worker]()
        queues = rng.randrange(1, 4)
        self.agent = agent = agent_in(
            machine.jobdir,
            clock=machine.clock,
            executor=lambda: self.executor,
            parts={
                "Job": partial(Job, read_boot_id=lambda: machine.boot),
                "FrontierSizes": partial(FrontierSizes, slice_size=rng.choice((1, 3, 64))),
                # What a host has shown is no part of a checkpoint, and the judge keeps no book.
                "HostRecords": lambda **_: Records(forgetful=True),
            },
            CHECKPOINTS_KEPT=0,
            FRONTIER_BACK_QUEUES=queues,
            FRONTIER_LEVELS=rng.randrange(1, 5),
            FRONTIER_RETRY_TIMES=RETRY_TIMES,
            HTTPPROXY_ENABLED=True,
            INFO_LOG_MAX_FILE_BYTES=1000,
            NOFOLLOW_OBEY=False,
            POLITENESS_MAX_CRAWL_DELAY=MAX_CRAWL_DELAY,
            POLITENESS_MAX_RETRY_AFTER_SECS=MAX_CRAWL_DELAY,
            REDIRECT_MAX_TIMES=100,
            SEEN_BLOOM_CAPACITY=100,
            SEEN_BLOOM_ERROR_RATE=1e-9,
            SEEN_ELIMINATOR=f"shard_process.{eliminator.capitalize()}",
        )
        self.shard = shard = shard_of(agent)
        self.job, self.stop, self.links = agent.job, agent.stop, agent.links
        self.intake = agent._intake
        self.frontier, self.eliminator, self.content = (
            shard.frontier,
            shard.eliminator,
            shard.content,
        )
        self.frontier.resize(queues=queues + rng.randrange(3), rests=1 << 16)
        self.content.resize(rng.randrange(2, 6))
        if isinstance(self.eliminator, DiskEliminator):
            self.eliminator.resize(buffer_size=rng.randrange(2, 10), cache_size=rng.randrange(1, 5))
        self.completion, self.dispatcher = agent.completion, agent.dispatcher
        self.seeds = SeedReader(
            sources=[str(machine.seeds)],
            spool_dir=machine.jobdir / "seeds",
            stdin=sys.stdin.buffer,
        )
        self.flights: list[Flight] = []
        self.prepared: PreparedCheckpoint | None = None
        self.is_published = False
        self.is_closed = False

    def open(self, facts: Mapping[str, Any]) -> None:
        """``Agent.open`` and the start of the spider."""
        self.job.open()
        self.agent._state.open()
        self.agent.outcome_log.open()
        state = self.job.shard("00")
        if not self.job.own.resumed or self.job.own.rebooted:
            state.facts = {**facts, "seed": self.job.seed}
            self.job.publish(self.job.prepare({}))
            self.job.forget()
        self.seeds.open(self.job.own.saved("seeds"))
        self.job.own.attach("seeds", self.seeds)

    def close(self) -> None:
        """The end of ``Agent.close``."""
        self.agent.outcome_log.close()
        self.agent._state.close(self.stop.fail)
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
