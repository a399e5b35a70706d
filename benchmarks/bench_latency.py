"""Latency under load: how long URLs wait though their hosts are ready, and idle workers meanwhile.

    PYTHONPATH=. python benchmarks/bench_latency.py [--pages N] [--hosts N] [--delay SECS]

A crawl of the simulated web in this process, with everything on and a pause of *delay* seconds
after each contact, so that hosts / delay is the most that politeness allows in a second. Where that
is less than the crawler can do, what is measured is the scheduling; with a pause of zero it is the
backlog. The frontier and the event loop are wrapped from outside.

**Latency** of a dispatch, which is the moment when the frontier hands a URL out (to be fetched, or
to have its host looked up or its robots.txt fetched first): the time since the URL was discovered
and its host was ready, whichever came last. Discovered: its page's links were taken, before the
eliminator. Ready: the rest after the host's last contact is over; a host without one always is.
The two cases are reported apart: in the first the URL came through eliminator, gates and front end
to a host that was ready; in the second it had waited for its host, or for others of its host.

**Starvation**: the event loop sleeps, a worker is idle, and a host is ready by the frontier's own
word (``Frontier.ready_at``, which is also now while the front end may have other hosts). A loop
that is busy is not starving anybody: it is what the workers wait for. Counted is the part of each
sleep that was meant to go on after the host was ready; that the system wakes a sleeper late is not
the crawler's doing. Sleeps meant to be a millisecond too long or less are the resolution of timers.
This needs the selector of asyncio's own event loop, in place of uvloop.

On a machine that others use, too, latency is theirs as well: the last lines say how much later than
meant the system woke the loop, and how long its turns took against their CPU time.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from scrapy import signals
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.settings import Settings

from webcrawl.frontier.entry import NO_URLS
from webcrawl.scheduler import agent_of
from webcrawl.simweb import preset, start_in_process, write_seeds

_RESOLUTION = 0.001


class Trace:
    """An extension that notes what the frontier hands out, and how the event loop sleeps."""

    def __init__(self, crawler):
        self.crawler = crawler
        self.discovery: list[float] = []  # seconds since a URL was discovered, its host being ready
        self.readiness: list[float] = []  # since its host was ready
        self.starved: list[float] = []
        self.sleeps = 0
        self.woken_late: list[float] = []
        self.turns: list[tuple[float, float]] = []  # seconds and CPU-seconds of the loop's turns
        self.busy = 0.0  # worker-seconds
        self._ready_since: dict[str, float] = {}
        self._looked_at = self._cpu_at = 0.0
        crawler.signals.connect(self.opened, signal=signals.spider_opened)
        crawler.signals.connect(self.stopped, signal=signals.engine_stopped)

    from_crawler = classmethod(lambda cls, crawler: cls(crawler))

    def opened(self):
        self.engine = self.crawler.engine
        (shard,) = agent_of(self.crawler).shards
        self.frontier = shard.frontier
        self.workers = self.crawler.settings.getint("CONCURRENT_REQUESTS")
        self._acquire, self._release = self.frontier.acquire, self.frontier.release
        self.frontier.acquire, self.frontier.release = self.acquire, self.release
        self.cpu, self.wall = time.process_time(), time.perf_counter()
        self._looked_at, self._cpu_at = time.monotonic(), time.thread_time()
        self._selector = asyncio.get_running_loop()._selector
        self._select = self._selector.select
        self._selector.select = self.select

    def acquire(self, host: str | None = None) -> Any:
        lease = self._acquire(host)
        if lease is not None and lease.entry.kind not in NO_URLS:
            entry = lease.entry
            # The two clocks are read in one breath: discovered_at is epoch seconds.
            now, discovered = time.monotonic(), entry.discovered_at - time.time()
            ready = self._ready_since.get(entry.host, -math.inf) - now
            waited = self.discovery if discovered > ready else self.readiness
            waited.append(-max(discovered, ready))
        return lease

    def release(self, host: str, *, rest: float, **more: Any) -> None:
        self._release(host, rest=rest, **more)
        self._ready_since[host] = time.monotonic() + rest

    def select(self, timeout: float | None = None) -> Any:
        active = len(self.engine.downloader.active)
        begin = time.monotonic()
        self.turns.append((begin - self._looked_at, time.thread_time() - self._cpu_at))
        self.busy += active * self.turns[-1][0]
        ready_at = None
        if (timeout is None or timeout > 0) and active < self.workers and self.is_under_way:
            ready_at = self.frontier.ready_at()
        found = self._select(timeout)
        end = time.monotonic()
        self.busy += active * (end - begin)
        self._looked_at, self._cpu_at = end, time.thread_time()
        self.sleeps += timeout is None or timeout > 0
        if timeout is not None:
            self.woken_late.append(end - begin - timeout)
        if ready_at is not None:
            meant = end if timeout is None else min(end, begin + timeout)
            starved = meant - max(begin, ready_at)
            if starved > _RESOLUTION:
                self.starved.append(starved)
        return found

    @property
    def is_under_way(self) -> bool:
        """Whether the crawl hands out URLs: not before it has begun, nor while it ends."""
        slot = self.engine._slot
        return slot is not None and slot.closing is None

    def stopped(self):
        self._selector.select = self._select
        cpu, wall = time.process_time() - self.cpu, time.perf_counter() - self.wall
        pages = self.crawler.stats.get_value("item_scraped_count", 0)
        print(
            f"{pages} pages in {wall:.1f} s, {pages / wall:.0f} a second; CPU at {cpu / wall:.0%}; "
            f"{self.busy / wall:.1f} of {self.workers} workers busy"
        )
        print(f"{'latency, ms':28}{'dispatches':>11}{'p50':>9}{'p90':>9}{'p99':>9}{'longest':>9}")
        for title, waited in (
            ("since the URL's discovery", self.discovery),
            ("since its host was ready", self.readiness),
            ("both", self.discovery + self.readiness),
        ):
            print(f"{title:28}{len(waited):11}" + "".join(f"{ms:9.1f}" for ms in quantiles(waited)))
        print(
            f"starvation: {len(self.starved)} of {self.sleeps} sleeps of the event loop, "
            f"{sum(self.starved):.3f} s together, {max(self.starved, default=0) * 1000:.0f} ms the "
            "longest"
        )
        took, cpu = max(self.turns)
        in_turns, in_cpu = (sum(seconds) / wall for seconds in zip(*self.turns, strict=True))
        print(
            f"the system woke the loop {max(self.woken_late) * 1000:.0f} ms late at most; its "
            f"longest turn took {took * 1000:.0f} ms, {cpu * 1000:.0f} of them of CPU; all turns "
            f"took {in_turns:.0%} of the time, {in_cpu:.0%} of CPU"
        )


def quantiles(seconds: list[float]) -> list[float]:
    """p50, p90, p99 and the longest, in ms."""
    ordered = sorted(seconds) or [math.nan]
    return [
        1000 * ordered[min(int(len(ordered) * q), len(ordered) - 1)] for q in (0.5, 0.9, 0.99, 1)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--hosts", type=int, default=3000)
    parser.add_argument("--delay", type=float, default=10.0, help="seconds after each contact")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    # A tenth of the hosts are seeds; the others are discovered while the crawl is under way.
    world = preset(
        "bench",
        hosts=options.hosts,
        seed_share=0.1,
        mean_pages=50.0,
        max_pages=500,
        http_port=0,
        https_port=0,
    )
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as scratch,
        start_in_process(world, log_path=None, pool_bytes=1 << 30) as web,
    ):
        os.sched_setaffinity(web.pid, {cores[0]})
        os.sched_setaffinity(0, {cores[-1]})
        seeds = Path(scratch, "seeds.txt")
        write_seeds(web.world, seeds)
        settings = Settings()
        settings.setmodule("webcrawl.settings", priority="project")
        settings.setdict(
            {
                "ASYNCIO_EVENT_LOOP": "asyncio.SelectorEventLoop",
                "DNS_SERVERS": web.dns,
                "ALLOW_PRIVATE_ADDRESSES": True,
                "POLITENESS_DELAY_FACTOR": 0,
                "POLITENESS_MIN_DELAY": options.delay,
                "CHECKPOINT_INTERVAL_SECS": 10,
                "SUMMARY_ENABLED": False,
                "LOG_LEVEL": "WARNING",
                "JOBDIR": str(Path(scratch, "job")),
                "CLOSESPIDER_ITEMCOUNT": options.pages,
            },
            priority="cmdline",
        )
        settings.set(
            "EXTENSIONS", {**settings.getdict("EXTENSIONS"), Trace: 2000}, priority="cmdline"
        )
        process = AsyncCrawlerProcess(settings)
        process.crawl("web", seeds=str(seeds))
        process.start()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    main()
