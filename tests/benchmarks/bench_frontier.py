"""Push and pop URLs through the whole frontier: `python tests/benchmarks/bench_frontier.py`.

Every URL goes all the way: pushed in batches of a page's links, prioritized, written to the level
queues, moved to its host's queue, leased (contact journaled), released, finished (journaled).
Time is simulated: the clock moves on by 1/rate for each URL, so that with the default delay a
large number of hosts is snoozed at any moment, as in a crawl of that speed; nothing sleeps. A
second round pushes and pops in turn, as a crawl in its steady state does.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from webcrawl.frontier import (
    DepthRankPrioritizer,
    Entry,
    Frontier,
    GeometricSelector,
    LargestDelay,
    encode,
)


class SimulatedClock:
    """Moves on by a fixed step for each URL."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def wall(self) -> float:
        return 1.7e9 + self.now


def page_of_links(rng: random.Random, hosts: int, serial: int, size: int) -> list[bytes]:
    """Encoded links of one page: four in five to its own host, as on the web."""
    own = rng.randrange(hosts)
    links = []
    for index in range(size):
        host = own if index % 5 else int(hosts * rng.random() ** 2)
        name = f"www.site{host:07d}.test"
        links.append(
            encode(
                Entry(
                    f"https://{name}/section/{serial}/page-{index}.html",
                    name,
                    1 + index % 4,
                    host + 1,
                    f"https://www.site{own:07d}.test/section/",
                    discovered_at=1.7e9,
                )
            )
        )
    return links


def megabytes() -> float:
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def report(what: str, urls: int, wall: float, cpu: float) -> None:
    print(
        f"{what:<34} {urls:>10,} URLs {urls / wall:>10,.0f}/s {urls / cpu:>10,.0f}/CPU-s "
        f"{wall:6.1f} s {cpu:6.1f} CPU-s {megabytes():7.0f} MB"
    )


def pop(frontier: Frontier, clock: SimulatedClock, step: float) -> int:
    """Acquire, release and finish one URL; 0 when none was ready and the clock moved instead."""
    lease = frontier.acquire()
    if lease is None:
        ready_at = frontier.ready_at()
        assert ready_at is not None
        clock.now = max(clock.now, ready_at)
        return 0
    clock.now += step
    frontier.release(lease.entry.host, rest=3.0, least=0.0)
    frontier.finish(lease)
    return 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=1_000_000)
    parser.add_argument("--urls", type=int, default=1_000_000, help="URLs of each round")
    parser.add_argument("--links", type=int, default=50, help="URLs of each push")
    parser.add_argument("--rate", type=float, default=1000.0, help="simulated pages per second")
    parser.add_argument("--delay", type=float, default=3.0, help="seconds between contacts")
    parser.add_argument("--max-queues", type=int, default=1_000_000)
    options = parser.parse_args()
    rng = random.Random(1)
    clock = SimulatedClock()
    with tempfile.TemporaryDirectory() as directory:
        frontier = Frontier(
            path=Path(directory) / "frontier",
            clock=clock,
            wall=clock.wall,
            prioritizer=DepthRankPrioritizer(levels=16),
            selector=GeometricSelector(rng=rng),
            delay=LargestDelay(factor=10.0, floor=options.delay, ceiling=120.0),
            queues=48,
            max_queues=options.max_queues,
        )
        frontier.open(None)
        print(f"{options.hosts:,} hosts, {options.rate:,.0f} pages/s, {options.delay} s delay")
        pages = -(-options.urls // options.links)
        batches = [
            page_of_links(rng, options.hosts, serial, options.links) for serial in range(pages)
        ]
        print(f"{'':<34} {megabytes():.0f} MB with the input of one round in memory")

        started = time.perf_counter(), time.process_time()
        for batch in batches:
            frontier.push(batch)
        pushed = time.perf_counter(), time.process_time()
        urls = len(frontier)
        report("push", urls, pushed[0] - started[0], pushed[1] - started[1])

        popped = 0
        while popped < urls // 2:
            popped += pop(frontier, clock, 1 / options.rate)
        half = time.perf_counter(), time.process_time()
        report("pop half of them", popped, half[0] - pushed[0], half[1] - pushed[1])

        began = time.perf_counter()
        snapshot = frontier.snapshot()
        took = time.perf_counter() - began
        paths = frontier.written()
        frontier.forget()
        print(
            f"{'snapshot':<34} {took * 1e3:.0f} ms, {len(snapshot) / 1e6:.1f} MB, "
            f"{len(paths)} files to sync"
        )

        began_wall, began_cpu = time.perf_counter(), time.process_time()
        steady = 0
        for batch in batches:
            frontier.push(batch)
            done = 0
            while done < len(batch):
                done += pop(frontier, clock, 1 / options.rate)
            steady += done
        report(
            "push and pop in turn",
            steady,
            time.perf_counter() - began_wall,
            time.process_time() - began_cpu,
        )
        for name, value in frontier.stats().items():
            print(f"  {name:<32} {value:>12,}")
        frontier.close()


if __name__ == "__main__":
    main()
