"""How fast the duplicate URL eliminator is against a large set of stored fingerprints.

    python benchmarks/bench_eliminator.py [--stored 10_000_000 100_000_000 1_000_000_000]

Stores fingerprints as sorted runs in a temporary directory (8 bytes each), then submits pages of 40
links, real URL strings that are hashed within the measured time, and takes the new ones out. It
runs as in the crawl: an event loop submits a page a turn, stops while the eliminator is full, takes
slices of 10 ms, as `Feeder` does, half of the time at most; merges run in the one worker thread;
cache and T have the default sizes of a crawl. Two streams:

crawl-like
    45 % of a page's links are navigation of its own site (Pareto over 5,000 pages of it; 300
    sites in flight get 90 % of the pages, 20,000 others the rest), 25 % lead to the popular pages
    of the whole web (Pareto), 15 % to pages stored long ago, 15 % were never seen. The cache knows
    about two thirds, fewer than the 80 % of Broder et al.
all-new
    No URL was ever seen: the worst case for every part.

The streams lie in files, as reading and splitting a page's links costs little next to making
them; that cost is within the measured time. Printed per stream:

- submissions a second until the last one was submitted, the same until everything new was taken
  out, and the same by a CPU second of the loop's thread; CPU seconds of all threads
- the process's peak memory, which is reached while it merges, and what it began with. VmHWM: the
  page cache does not count, mapped files would, but none are but the libraries
- by a watchdog how late a timer of the loop was that is due every millisecond, which is how long
  the loop was blocked: the 99th percentile and the most, and the most not counting the time that
  its thread or the worker waited for a core, which on a busy machine others had

Generating, storing and measuring are processes of their own, so that none counts another's memory.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import uvloop

from webcrawl.extensions.process_limits import return_large_blocks
from webcrawl.seen.caches.clock import ClockCache
from webcrawl.seen.eliminator import DiskEliminator
from webcrawl.seen.fingerprint import fingerprints
from webcrawl.seen.runs import write_run
from webcrawl.storage.record_log import HEADER_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from webcrawl.seen.runs import Fingerprints

LINKS = 40
KNOWN = 4_000_000  # stored fingerprints that belong to URLs the crawl-like stream can name
SHARES = (0.70, 0.20, 0.05, 0.05)  # of the stored fingerprints, one run each
SITES_IN_FLIGHT, SITES, PAGES_OF_SITE = 300, 20_000, 5_000
_SLICE_SECS, _SLICE_ENTRIES = 0.01, 256
_PAUSE_SECS = 0.001
_WATCH_SECS = 0.001


def old_url(n: int) -> str:
    """One of the URLs that were stored long ago."""
    return f"https://www.site{n % SITES:05d}.example.com/archive/{n}.html"


def crawl_like(rng: random.Random, submissions: int, known: int) -> Iterator[list[str]]:
    """Pages of links as the module docstring describes them."""
    pareto, choose, chance = rng.paretovariate, rng.randrange, rng.random
    fresh = 0
    for _ in range(submissions // LINKS):
        site = choose(SITES_IN_FLIGHT) if chance() < 0.9 else choose(SITES)
        links = []
        for _ in range(LINKS):
            kind = chance()
            if kind < 0.45:
                page = int(pareto(1.0)) % PAGES_OF_SITE
                links.append(f"https://www.site{site:05d}.example.com/section/{page}.html")
            elif kind < 0.70:
                links.append(f"https://popular.example.org/p/{int(pareto(0.6)) % 10**12}")
            elif kind < 0.85:
                links.append(old_url(choose(known)))
            else:
                fresh += 1
                links.append(f"https://www.site{site:05d}.example.com/article/{fresh}.html")
        yield links


def all_new(submissions: int) -> Iterator[list[str]]:
    """Pages of links that were never seen."""
    for first in range(0, submissions, LINKS):
        yield [
            f"https://www.new{n % SITES:05d}.example.com/article/{n}.html"
            for n in range(first, first + LINKS)
        ]


def write_stream(path: Path, name: str, submissions: int, known: int) -> None:
    """One page a line."""
    rng = random.Random(1)
    pages = all_new(submissions) if name == "all-new" else crawl_like(rng, submissions, known)
    with path.open("w") as file:
        for links in pages:
            file.write(" ".join(links) + "\n")


def pages_of(path: Path) -> Iterator[list[str]]:
    """The stream's pages again."""
    with path.open() as file:
        for line in file:
            yield line.split()


def store(path: Path, stored: int, known: int) -> None:
    """Write *stored* fingerprints as runs into *path*, *known* of them of real URLs.

    With a snapshot that names them and an empty URL log: whoever opens it takes up these runs.
    """
    rng = np.random.default_rng(2)
    words = np.empty(known, dtype=np.uint64)
    for start in range(0, known, 1 << 20):
        end = min(known, start + (1 << 20))
        words[start:end] = fingerprints(map(old_url, range(start, end)))
    known_parts = np.split(words, (np.cumsum(SHARES[:-1]) * known).astype(int))
    path.mkdir(parents=True)
    runs = []
    for number, (share, part) in enumerate(zip(SHARES, known_parts, strict=True), 1):
        part.sort()
        run = write_run(path / f"{number:06d}.run", ranges(rng, int(stored * share), part))
        runs.append((number, run.count))
        run.close()
    active = (1, HEADER_SIZE, HEADER_SIZE)
    snapshot = msgspec.msgpack.encode(("disk", 1, runs, (), None, active))
    (path / "snapshot").write_bytes(snapshot)


def ranges(rng: np.random.Generator, count: int, part: Fingerprints) -> Iterator[Fingerprints]:
    """*count* increasing random words with *part* among them, a slice of their range each."""
    pieces = max(1, count >> 21)
    bounds = [(piece << 64) // pieces for piece in range(pieces)] + [(1 << 64) - 1]
    for low, high in itertools.pairwise(bounds):
        mine = part[np.searchsorted(part, np.uint64(low)) : np.searchsorted(part, np.uint64(high))]
        filler = rng.integers(low, high, max(0, count // pieces - len(mine)), dtype=np.uint64)
        words = np.concatenate((mine, filler))
        words.sort()
        yield words[np.concatenate(([True], words[1:] > words[:-1]))]


class Watchdog:
    """How late a timer of the running loop is that is due every millisecond, in seconds.

    *late* by the clock; *own_late* without what this thread, and *worker*, which may hold the
    interpreter's lock meanwhile, waited for a core.
    """

    def __init__(self, worker: int) -> None:
        self.late: list[float] = []
        self.own_late: list[float] = []
        self._loop = asyncio.get_running_loop()
        threads = threading.get_native_id(), worker
        self._schedstats = [
            os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY) for thread in threads
        ]
        self._set()

    def _set(self) -> None:
        self.waited, self._worker_waited = map(_waited, self._schedstats)
        self._due = time.perf_counter() + _WATCH_SECS
        self._timer = self._loop.call_later(_WATCH_SECS, self._tick)

    def _tick(self) -> None:
        late = time.perf_counter() - self._due
        waited = self.waited + self._worker_waited
        self._set()
        self.late.append(late)
        self.own_late.append(late - (self.waited + self._worker_waited - waited))

    def close(self) -> None:
        self._timer.cancel()
        for file in self._schedstats:
            os.close(file)


def _waited(schedstat: int) -> float:
    """Seconds that a thread was ready to run and had no core."""
    return int(os.pread(schedstat, 64, 0).split()[1]) / 1e9


class Feed:
    """The crawl's part: pages are submitted and what is new is taken, in turns of the loop."""

    def __init__(self, eliminator: DiskEliminator, pages: Iterator[list[str]]) -> None:
        self.submitted = self.taken = 0
        self.paused = 0.0
        self.done: asyncio.Future[float] = asyncio.Future()
        self.empty: asyncio.Future[None] = asyncio.Future()
        self._eliminator = eliminator
        self._pages = pages
        self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._page)
        self._loop.call_later(_SLICE_SECS, self._slices)
        eliminator.on_merged = lambda: self._loop.call_soon_threadsafe(self._slice)

    def _page(self) -> None:
        if self._eliminator.is_full:
            self.paused += _PAUSE_SECS
            self._loop.call_later(_PAUSE_SECS, self._page)
        elif links := next(self._pages, None):
            self._eliminator.submit(fingerprints(links), lambda i: links[i].encode())
            self.submitted += len(links)
            self._loop.call_soon(self._page)
        else:
            self.done.set_result(time.perf_counter())

    def _slices(self) -> None:
        if not self.empty.done():  # else it is closed
            self._slice()
            self._loop.call_later(_SLICE_SECS, self._slices)

    def _slice(self) -> None:
        """As ``Feeder.work``, without the gates and the frontier behind it."""
        deadline = time.perf_counter() + _SLICE_SECS
        while batch := self._eliminator.take(_SLICE_ENTRIES):
            self.taken += len(batch)
            if time.perf_counter() >= deadline:
                break
        if self.done.done():
            self._eliminator.merge()
            if not self._eliminator.waiting and not self.empty.done():
                self.empty.set_result(None)


def measure(seen: Path, stream: Path, title: str, cache_size: int, buffer_size: int) -> None:
    """Submit all of *stream* and print what it took."""
    return_large_blocks()
    for left in seen.glob("discovered-*.log"):  # of another stream
        left.unlink()
    uvloop.run(_measure(seen, stream, title, cache_size, buffer_size))


async def _measure(seen: Path, stream: Path, title: str, cache_size: int, buffer_size: int) -> None:
    began = peak_mb()
    with ThreadPoolExecutor(max_workers=1) as executor:
        cache = ClockCache(size=cache_size)
        eliminator = DiskEliminator(
            path=seen, executor=executor, cache=cache, buffer_size=buffer_size
        )
        eliminator.open((seen / "snapshot").read_bytes())
        cpu, own_cpu, started = time.process_time(), time.thread_time(), time.perf_counter()
        watchdog = Watchdog(executor.submit(threading.get_native_id).result())
        feed = Feed(eliminator, pages_of(stream))
        submit_secs = await feed.done - started
        submit_own_cpu = time.thread_time() - own_cpu
        await feed.empty
        secs, all_cpu = time.perf_counter() - started, time.process_time() - cpu
        all_own_cpu = time.thread_time() - own_cpu
        watchdog.close()
        stats = eliminator.stats()
        eliminator.close()
    submitted, late = feed.submitted, watchdog.late
    print(
        f"{title}: {submitted:,} submissions\n"
        f"  submitted  {submitted / submit_secs:12,.0f} a second, "
        f"{submitted / submit_own_cpu:,.0f} a CPU second of the loop's thread, "
        f"{feed.paused:.1f} s paused\n"
        f"  taken too  {submitted / secs:12,.0f} a second, "
        f"{submitted / all_own_cpu:,.0f} a CPU second of the loop's thread, "
        f"{feed.taken:,} new\n"
        f"  {all_cpu:.2f} CPU s in all ({1e6 * all_cpu / submitted:.2f} us each) in {secs:.2f} s, "
        f"the loop's thread waited {watchdog.waited:.2f} s for a core\n"
        f"  {stats['seen/cache/hits'] / submitted:.1%} cache hits, "
        f"{stats['seen/buffer/hits'] / submitted:.1%} buffer hits, "
        f"{stats['seen/merge/count']} merges in {stats['seen/merge/seconds']:.2f} s, "
        f"{stats['seen/compact/count']} compactions in {stats['seen/compact/seconds']:.2f} s\n"
        f"  peak memory {peak_mb():,.0f} MB, {began:,.0f} before the beginning\n"
        f"  loop late by {1e3 * percentile(late, 0.99):.1f} ms (p99), {1e3 * max(late):.1f} ms "
        f"at most, {1e3 * max(watchdog.own_late):.1f} ms without waiting for a core",
        flush=True,
    )


def percentile(values: list[float], share: float) -> float:
    """The value that *share* of *values* are not above."""
    return sorted(values)[int(share * (len(values) - 1))]


def peak_mb() -> float:
    """The process's peak resident memory since it began."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return float("nan")


def in_process(step: Callable[..., None], *values: object) -> None:
    """Call *step* in a process of its own; exits when that fails."""
    process = multiprocessing.get_context("spawn").Process(target=step, args=values)
    process.start()
    process.join()
    if process.exitcode:
        sys.exit(f"{step.__name__} failed")


def main() -> None:
    from scrapy.settings import Settings  # not in the measured processes

    from webcrawl.configuration.memory_budget import sizes

    size = sizes(Settings())
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--stored", type=int, nargs="+", default=[100_000_000])
    parser.add_argument("--submit", type=int, default=16_000_000)
    parser.add_argument("--cache", type=int, default=size["SEEN_CACHE_SIZE"])
    parser.add_argument("--buffer", type=int, default=size["SEEN_BUFFER_SIZE"])
    parser.add_argument("--directory", type=Path, help="where to put up to 12 GB per billion")
    arguments = parser.parse_args()
    known = min(KNOWN, min(arguments.stored) // 2)
    work = Path(tempfile.mkdtemp(prefix="bench-eliminator-", dir=arguments.directory))
    try:
        needed = 12 * max(arguments.stored) + 300 * arguments.submit
        free = shutil.disk_usage(work).free
        if free < needed:
            sys.exit(f"{work} needs {needed / 1e9:.1f} GB, {free / 1e9:.1f} are free")
        print(f"cache {arguments.cache:,}, T {arguments.buffer:,}", flush=True)
        for name in ("crawl-like", "all-new"):
            in_process(write_stream, work / name, name, arguments.submit, known)
        for stored in arguments.stored:
            in_process(store, work / "seen", stored, known)
            for name in ("crawl-like", "all-new"):
                title = f"{name} against {stored:,}"
                in_process(
                    measure, work / "seen", work / name, title, arguments.cache, arguments.buffer
                )
            shutil.rmtree(work / "seen")
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
