"""How fast the duplicate URL eliminator is against a large set of stored fingerprints.

    python tests/benchmarks/bench_eliminator.py [--stored 100_000_000] [--submit 8_000_000]

Stores fingerprints as sorted runs in a temporary directory (8 bytes each), then submits pages of
40 links, real URL strings that are hashed within the measured time, and takes the new ones out as
the scheduler does. Two streams:

crawl-like
    45 % of a page's links are navigation of its own site (Pareto over 5,000 pages of it; 300
    sites in flight get 90 % of the pages, 20,000 others the rest), 25 % lead to the popular pages
    of the whole web (Pareto), 15 % to pages stored long ago, 15 % were never seen. With 2^16
    cached fingerprints that gives about 66 % cache hits, fewer than the 80 % of Broder et al.
all-new
    No URL was ever seen: the worst case for every part.

The streams lie in files, as reading and splitting a page's links costs little next to making
them; that cost is within the measured time. Printed per stream: submissions a second until the
last one was submitted, the same until everything new was taken out, CPU seconds of all threads,
the process's peak memory (VmHWM: shared pages count, the page cache does not), the longest call.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from webcrawl.seen.cache import ClockCache
from webcrawl.seen.eliminator import DiskEliminator
from webcrawl.seen.fingerprint import fingerprints
from webcrawl.seen.runs import Run, write_run
from webcrawl.storage.records import HEADER_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webcrawl.seen.runs import Fingerprints

LINKS = 40
KNOWN = 4_000_000  # stored fingerprints that belong to URLs the crawl-like stream can name
SHARES = (0.70, 0.20, 0.05, 0.05)  # of the stored fingerprints, one run each
SITES_IN_FLIGHT, SITES, PAGES_OF_SITE = 300, 20_000, 5_000


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
    """Write *stored* fingerprints as runs into *path*, *known* of them of real URLs."""
    rng = np.random.default_rng(2)
    words = np.empty(known, dtype=np.uint64)
    for start in range(0, known, 1 << 20):
        end = min(known, start + (1 << 20))
        words[start:end] = fingerprints(map(old_url, range(start, end)))
    known_parts = np.split(words, (np.cumsum(SHARES[:-1]) * known).astype(int))
    path.mkdir(parents=True)
    for number, (share, part) in enumerate(zip(SHARES, known_parts, strict=True), 1):
        part.sort()
        write_run(path / f"{number:06d}.run", ranges(rng, int(stored * share), part))


def ranges(rng: np.random.Generator, count: int, part: Fingerprints) -> Iterator[Fingerprints]:
    """*count* increasing random words with *part* among them, a slice of their range each."""
    pieces = max(1, count >> 21)
    bounds = [(piece << 64) // pieces for piece in range(pieces)] + [(1 << 64) - 1]
    for low, high in itertools.pairwise(bounds):
        mine = part[np.searchsorted(part, np.uint64(low)) : np.searchsorted(part, np.uint64(high))]
        filler = rng.integers(low, high, max(0, count // pieces - len(mine)), dtype=np.uint64)
        yield np.union1d(mine, filler)


def measure(seen: Path, stream: Path, name: str) -> None:
    """Submit all of *stream* and print one line."""
    with ThreadPoolExecutor(max_workers=1) as executor:
        eliminator = DiskEliminator(
            path=seen, executor=executor, cache=ClockCache(size=2**16), buffer_size=2**21
        )
        eliminator.open(snapshot_of(seen))
        stored = eliminator.stats()["seen/fingerprints"]
        clock = time.perf_counter
        longest = submitted = taken = 0
        cpu, own_cpu, started = time.process_time(), time.thread_time(), clock()
        for number, links in enumerate(pages_of(stream)):
            before = clock()
            eliminator.submit(fingerprints(links), lambda i: links[i].encode())  # noqa: B023  # called within submit
            longest = max(longest, clock() - before)
            submitted += len(links)
            if number % 8 == 0:
                before = clock()
                taken += len(eliminator.take(256))
                longest = max(longest, clock() - before)
        submit_secs = clock() - started
        submit_cpu, own_cpu = time.process_time() - cpu, time.thread_time() - own_cpu
        while eliminator.waiting:
            before = clock()
            eliminator.merge()
            got = len(eliminator.take(256))
            longest = max(longest, clock() - before)
            taken += got
            if not got:
                time.sleep(0.001)
        all_secs, all_cpu = clock() - started, time.process_time() - cpu
        stats = eliminator.stats()
        eliminator.close()
    print(
        f"{name}: {submitted:,} submissions against {stored:,} stored\n"
        f"  submitted  {submitted / submit_secs:12,.0f} a second  "
        f"{submit_cpu:.2f} CPU s  ({1e6 * submit_cpu / submitted:.2f} us each)\n"
        f"             {submitted / own_cpu:12,.0f} a CPU second of the submitting thread\n"
        f"  taken too  {submitted / all_secs:12,.0f} a second  {all_cpu:.2f} CPU s  "
        f"{taken:,} new\n"
        f"  {stats['seen/cache/hits'] / submitted:.1%} cache hits, "
        f"{stats['seen/buffer/hits'] / submitted:.1%} buffer hits, "
        f"{stats['seen/merge/count']} merges in {stats['seen/merge/seconds']:.2f} s, "
        f"{stats['seen/compact/count']} compactions in {stats['seen/compact/seconds']:.2f} s\n"
        f"  peak memory {peak_mb():,.0f} MB, longest call {longest * 1000:.1f} ms",
        flush=True,
    )


def snapshot_of(seen: Path) -> bytes:
    """A snapshot that names the runs that ``store`` wrote and an empty URL log."""
    runs = []
    for path in sorted(seen.glob("*.run")):
        run = Run.open(path)
        runs.append((int(path.stem), run.count))
        run.close()
    active = (1, HEADER_SIZE, HEADER_SIZE)
    return msgspec.msgpack.encode(("disk", 1, runs, (), None, active))


def peak_mb() -> float:
    """The process's peak resident memory since it began."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--stored", type=int, default=100_000_000)
    parser.add_argument("--submit", type=int, default=8_000_000)
    parser.add_argument("--directory", type=Path, help="where to put up to 3 GB")
    arguments = parser.parse_args()
    known = min(KNOWN, arguments.stored // 2)
    work = Path(tempfile.mkdtemp(prefix="bench-eliminator-", dir=arguments.directory))
    # Each step in a process of its own, so that none counts another's memory.
    context = multiprocessing.get_context("spawn")
    try:
        for name in ("crawl-like", "all-new"):
            for step, values in (
                (store, (work / "seen", arguments.stored, known)),
                (write_stream, (work / "stream", name, arguments.submit, known)),
                (measure, (work / "seen", work / "stream", name)),
            ):
                process = context.Process(target=step, args=values)
                process.start()
                process.join()
                if process.exitcode:
                    sys.exit(1)
            shutil.rmtree(work / "seen")
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
