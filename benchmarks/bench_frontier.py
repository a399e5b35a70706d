"""Push and pop URLs through the whole frontier: `python benchmarks/bench_frontier.py`.

Every URL goes all the way: pushed in batches of a page's links, prioritized, written to the level
queues, moved to its host's queue, leased (contact journaled), released, finished (journaled).
Time is simulated: the clock moves on by 1/rate for each URL, so that with the default delay a
large number of hosts is snoozed at any moment, as in a crawl of that speed; nothing sleeps. Half
of them are popped with 100 contacts at a time, which tells what taking and giving back cost. A
second round does all four in turn, as a crawl in its steady state does.

With `--pauses 1000 20000 100000` it prints instead how long each step of a checkpoint holds the
reactor with so many back-end queues of 16 URLs in memory, every tenth with 50 more on disk, and
`--rests` hosts that rest without one, while the crawl goes on between the steps.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from webcrawl.frontier import (
    DepthRankPrioritizer,
    Entry,
    Frontier,
    FrontierParts,
    FrontierPolicies,
    FrontierSizes,
    GeometricSelector,
    LargestDelay,
    encode,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


class SimulatedClock:
    """Moves on by a fixed step for each URL."""

    def __init__(self) -> None:
        self.now = 1.7e9

    def __call__(self) -> float:
        return self.now


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
    frontier.contacts.release(lease.entry.host, rest=3.0, min_rest=0.0)
    frontier.leases.finish(lease)
    return 1


def pop_in_steps(frontier: Frontier, clock: SimulatedClock, urls: int, step: float) -> None:
    """As ``pop``, 100 contacts at a time, to tell what each call takes."""
    taking, ending, begun = [0.0, 0.0], [0.0, 0.0], now()
    popped = 0
    while popped < urls:
        leases = []
        for _ in range(100):
            lease = frontier.acquire()
            if lease is None:
                break
            clock.now += step
            leases.append(lease)
        begun = count(taking, begun)
        for lease in leases:
            frontier.contacts.release(lease.entry.host, rest=3.0, min_rest=0.0)
            frontier.leases.finish(lease)
        popped += len(leases)
        if len(leases) < 100:
            clock.now = max(clock.now, frontier.ready_at() or 0.0)
        begun = count(ending, begun)
    report("acquire", popped, *taking)
    report("release and finish", popped, *ending)


def now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def count(taken: list[float], begun: tuple[float, float]) -> tuple[float, float]:
    """Add what went by since *begun*, by the wall and of CPU, to *taken*; returns the time."""
    wall, cpu = now()
    taken[0] += wall - begun[0]
    taken[1] += cpu - begun[1]
    return wall, cpu


class SavedRests(dict[str, bytes]):
    """A rest store that has everything on disk at once."""

    def put(self, key: str, data: bytes) -> None:
        self[key] = data

    def unsaved_items(self) -> Iterable[tuple[str, bytes]]:
        return ()

    def written(self) -> Iterable[Path]:
        return ()


def pauses(directory: Path, queues: int, rests: int) -> None:
    """Make a frontier with so many *queues* and *rests*, and a checkpoint of it."""
    clock = SimulatedClock()
    frontier = Frontier(
        FrontierParts(
            path=directory / f"frontier-{queues}",
            clock=clock,
            policies=FrontierPolicies(
                prioritizer=DepthRankPrioritizer(levels=16),
                selector=GeometricSelector(rng=random.Random(1)),
                delay=LargestDelay(factor=10.0, floor=3.0, ceiling=120.0),
            ),
            sizes=FrontierSizes(queues=queues, max_queues=queues),
            rests=SavedRests(),
        )
    )
    frontier.open(None)
    for number in range(rests):
        name = f"www.resting{number:07d}.test"
        frontier.push([encode(Entry(f"https://{name}/", name))])
        lease = frontier.acquire()
        assert lease is not None
        frontier.contacts.release(name, rest=3600.0, min_rest=3600.0)
        frontier.leases.finish(lease)
    for number in range(queues):
        name = f"www.site{number:07d}.test"
        length = 66 if number % 10 == 0 else 16
        urls = (f"https://{name}/section/page-{index}.html" for index in range(length))
        frontier.push([encode(Entry(url, name, 1, 0, f"https://{name}/")) for url in urls])
    while frontier.refill(10_000):
        pass

    for turn in ("first", "next"):
        started = time.thread_time()
        pieces = frontier.parts.snapshot()
        began = since(started)
        started = time.thread_time()
        files = frontier.parts.written()
        listed = since(started)
        longest = total = size = changed = 0.0
        while True:
            started = time.thread_time()
            piece = next(pieces, None)
            took = since(started)
            longest, total = max(longest, took), total + took
            if piece is None:
                break
            size += len(piece)
            for _ in range(20):
                changed += pop(frontier, clock, 1e-3)
        started = time.thread_time()
        frontier.parts.forget()
        print(
            f"{queues:>8,} queues, {rests:,} rests, {turn} checkpoint: begin {began:.1f} ms, "
            f"list {len(files):,} files {listed:.1f} ms, {size / 1e6:.1f} MB encoded in "
            f"{total:.0f} ms, longest piece {longest:.1f} ms, {changed:,.0f} URLs popped "
            f"meanwhile, forget {since(started):.1f} ms"
        )
    assert len(frontier.leases) == 0
    frontier.close()


def since(started: float) -> float:
    """CPU milliseconds: other work on the machine is none of ours."""
    return (time.thread_time() - started) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=1_000_000)
    parser.add_argument("--urls", type=int, default=1_000_000, help="URLs of each round")
    parser.add_argument("--links", type=int, default=50, help="URLs of each push")
    parser.add_argument("--rate", type=float, default=1000.0, help="simulated pages per second")
    parser.add_argument("--delay", type=float, default=3.0, help="seconds between contacts")
    parser.add_argument("--max-queues", type=int, default=1_000_000)
    parser.add_argument("--pauses", type=int, nargs="+", metavar="QUEUES")
    parser.add_argument("--rests", type=int, default=1_000_000)
    options = parser.parse_args()
    if options.pauses:
        with tempfile.TemporaryDirectory() as directory:
            for queues in options.pauses:
                pauses(Path(directory), queues, options.rests)
        return
    rng = random.Random(1)
    clock = SimulatedClock()
    with tempfile.TemporaryDirectory() as directory:
        frontier = Frontier(
            FrontierParts(
                path=Path(directory) / "frontier",
                clock=clock,
                policies=FrontierPolicies(
                    prioritizer=DepthRankPrioritizer(levels=16),
                    selector=GeometricSelector(rng=rng),
                    delay=LargestDelay(factor=10.0, floor=options.delay, ceiling=120.0),
                ),
                sizes=FrontierSizes(queues=48, max_queues=options.max_queues),
            )
        )
        frontier.open(None)
        print(f"{options.hosts:,} hosts, {options.rate:,.0f} pages/s, {options.delay} s delay")
        pages = -(-options.urls // options.links)
        batches = [
            page_of_links(rng, options.hosts, serial, options.links) for serial in range(pages)
        ]
        print(f"{'':<34} {megabytes():.0f} MB with the input of one round in memory")

        pushing, begun = [0.0, 0.0], now()
        for batch in batches:
            frontier.push(batch)
        count(pushing, begun)
        urls = len(frontier)
        report("push", urls, *pushing)

        pop_in_steps(frontier, clock, urls // 2, 1 / options.rate)

        turns, begun = [0.0, 0.0], now()
        steady = 0
        for batch in batches:
            frontier.push(batch)
            done = 0
            while done < len(batch):
                done += pop(frontier, clock, 1 / options.rate)
            steady += done
        count(turns, begun)
        report("all four in turn", steady, *turns)
        for name, value in frontier.stats().items():
            print(f"  {name:<32} {value:>12,}")
        frontier.close()


if __name__ == "__main__":
    main()
