"""Visits at scale: a frontier whose finished URLs are due over 90 days.

    python benchmarks/bench_revisits.py --urls 1000000 --directory /tmp

Makes a frontier with so many finished URLs, 100 of each host, each due at a time drawn by lot, and
publishes a snapshot. Then a new process opens it from a cold disk and goes on at a moment when a
part of them is due: it hands out the first visit, and a million others (``--visits``), each of
which is finished, and due again. Hosts rest for as long as 100 visits a second take to come round.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from bench_restart import drop

from webcrawl.frontier import (
    DepthRankPrioritizer,
    Entry,
    Frontier,
    FrontierPolicies,
    FrontierSizes,
    GeometricSelector,
    LargestDelay,
    encode,
)
from webcrawl.frontier.due import due_at
from webcrawl.revisit.history import CHANGED, History, encode_history, history_of
from webcrawl.revisit.policies import Greedy
from webcrawl.revisit.visits import Visits
from webcrawl.simweb.pages import WORDS
from webcrawl.storage.fifo import length_of

_NUMBER, _SHAPES = b"12345678", 100_000
_BEGAN, _DAY = 1.795e9, 86_400
_PER_HOST, _SLICE = 100, 64
# Visits a second, seconds for which a host rests, seconds between checkpoints.
_RATE, _REST, _CHECKPOINT = 100, 3.0, 60.0
# Entries between two checkpoints while the frontier is made.
_PUBLISHED = 1_000_000


class Clock:
    now = _BEGAN

    def __call__(self) -> float:
        return self.now


def frontier_in(directory: Path, clock: Clock) -> Frontier:
    policies = FrontierPolicies(
        prioritizer=DepthRankPrioritizer(levels=16),
        selector=GeometricSelector(rng=random.Random(1)),
        delay=LargestDelay(factor=10.0, floor=3.0, ceiling=120.0),
    )
    sizes = FrontierSizes(queues=600, max_queues=100_000)
    return Frontier(path=directory / "frontier", clock=clock, policies=policies, sizes=sizes)


def entry_of(rng: random.Random, number: int) -> Entry:
    """A URL of 70 bytes in the mean, and the history of its document: 64 bytes, and validators for
    a third."""
    lot = rng.getrandbits
    host = f"www.{WORDS[number % 256]}-{number // 256}.example"
    words = [WORDS[lot(8)] for _ in range(3)]
    at, tag, date = _BEGAN - lot(22), "", ""
    if not lot(8) % 3:
        tag, date = f'"{lot(64):x}"', "Thu, 26 Nov 2026 03:56:46 GMT"
    history = History(
        *(at + 0.5, lot(64), False, tag, date, lot(64), lot(64), int(at), lot(22), lot(5), lot(4)),
        *(lot(22), lot(22)),
    )
    url = f"https://{host}/{words[0]}/2026/11/{words[1]}-{WORDS[lot(8)]}-{words[2]}-{_NUMBER.decode()}.html"
    return Entry(url, host, 3, via=f"https://{host}/{words[0]}/", history=encode_history(history))


def publish(frontier: Frontier, path: Path) -> None:
    """A checkpoint, but for its manifest."""
    with path.open("wb") as file:
        file.writelines(frontier.snapshot())
    for written in frontier.written():
        fd = os.open(written, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
    frontier.forget()


def make(directory: Path, urls: int) -> None:
    clock, rng = Clock(), random.Random(2)
    frontier = frontier_in(directory, clock)
    frontier.open(None)
    hosts = -(-urls // _PER_HOST)
    # Each is many, but for a number of eight digits.
    shapes = [
        encode(entry_of(rng, rng.randrange(hosts))).partition(_NUMBER) for _ in range(_SHAPES)
    ]
    for number in range(urls):
        before, _, after = shapes[int(rng.random() * _SHAPES)]
        entry = b"%b%08d%b" % (before, number, after)
        frontier.due.push(entry, _BEGAN + 90 * _DAY * rng.random())
        if number % _PUBLISHED == 0:
            publish(frontier, directory / "snapshot")
    publish(frontier, directory / "snapshot")
    frontier.close()
    told("made", frontier, urls)


def go_on(directory: Path, visits: int) -> None:
    clock = Clock()
    frontier = frontier_in(directory, clock)
    began = time.perf_counter()
    frontier.open((directory / "snapshot").read_bytes())
    names = sorted(frontier.due.snapshot().items(), key=lambda one: due_at(one[0]))
    sums = itertools.accumulate(length_of(fifo) for _, fifo in names)
    enough = next((n for n, known in enumerate(sums) if known >= visits), len(names) - 1)
    clock.now = due_at(names[enough][0])
    told(f"open, {len(names)} queues, {time.perf_counter() - began:.2f} s", frontier, 1)
    known = Visits(
        policy=Greedy(7 * _DAY), first=7 * _DAY, shortest=_DAY, longest=90 * _DAY, clock=clock
    )
    done, published = 0, clock.now
    before = _written()
    while done < visits:
        frontier.due.work(_SLICE, lambda batch: (batch, {}))
        lease = frontier.acquire()
        if lease is None:
            ready_at = frontier.ready_at()
            assert ready_at is not None
            clock.now = max(clock.now, ready_at)
            continue
        entry = lease.entry
        frontier.release(entry.host, rest=_REST, min_rest=0.0)
        found = CHANGED if done % 8 == 0 else "unchanged"
        history = history_of(entry)
        assert history is not None
        frontier.finish(lease, due=known.next(entry, history, found, outcome="http_200"))
        if not done:
            told(f"first visit after {time.perf_counter() - began:.2f} s", frontier, 1)
        done += 1
        clock.now += 1 / _RATE
        if clock.now >= published + _CHECKPOINT:
            published = clock.now
            publish(frontier, directory / "snapshot")
    told(f"visits, {(_written() - before) / visits:.0f} bytes written each", frontier, visits)


def _written() -> int:
    """Bytes of all calls that write, of this process."""
    return int(re.search(r"wchar: (\d+)", Path("/proc/self/io").read_text())[1])


def told(what: str, frontier: Frontier, urls: int) -> None:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu = usage.ru_utime + usage.ru_stime
    files = [path for path in frontier.path.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    print(
        f"{what}: {len(frontier.due):,} due, {cpu:,.2f} s of CPU ({cpu / urls * 1e6:,.1f} us "
        f"each), {usage.ru_maxrss / 1024:,.0f} MB at most, {size / 1e6:,.0f} MB in {len(files)} "
        "files",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--visits", type=int, default=1_000_000)
    parser.add_argument("--directory", type=Path, help="where to make it (default: a new one)")
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open:
        go_on(options.open, min(options.visits, options.urls))
        return
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        # In a process of its own, as its peak of memory would count as that of its children.
        with ProcessPoolExecutor(1) as maker:
            maker.submit(make, Path(directory), options.urls).result()
        drop(Path(directory))
        subprocess.run([sys.executable, *sys.argv, "--open", directory], check=True)


if __name__ == "__main__":
    main()
