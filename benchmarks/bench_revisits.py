"""Visits at scale: a frontier whose finished URLs are due over 90 days.

    PYTHONPATH=. python benchmarks/bench_revisits.py --urls 1000000 --directory /tmp

Makes a frontier with so many finished URLs, 100 of each host, each due at a time drawn by lot, and
publishes a snapshot. Then a new process opens it from a cold disk and goes on at a moment when a
million (``--visits``) or more are due: each is handed out, finished, and due again by the policy,
with a checkpoint every minute. Hosts rest for 3 s, and time goes on by 10 ms with each visit.
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

from bench_frontier import SimulatedClock
from bench_restart import drop

from webcrawl import frontier as rooms
from webcrawl.frontier.due import due_at
from webcrawl.revisit.history import CHANGED, History, encode_history, history_of
from webcrawl.revisit.policies import Greedy
from webcrawl.revisit.visits import Visits
from webcrawl.simweb.pages import WORDS
from webcrawl.storage.fifo import length_of

_DAY = 86_400
_PER_HOST = 100
# Entries are made of so many, which differ in a number.
_SHAPES, _NUMBER = 100_000, "12345678"
# While the frontier is made there is a checkpoint after so many.
_PUBLISHED = 1_000_000


def frontier_in(directory: Path, clock: SimulatedClock) -> rooms.Frontier:
    policies = rooms.FrontierPolicies(
        prioritizer=rooms.DepthRankPrioritizer(levels=16),
        selector=rooms.GeometricSelector(rng=random.Random(1)),
        delay=rooms.LargestDelay(factor=10.0, floor=3.0, ceiling=120.0),
    )
    sizes = rooms.FrontierSizes(queues=600, max_queues=100_000)
    return rooms.Frontier(
        rooms.FrontierParts(
            path=directory / "frontier", clock=clock, policies=policies, sizes=sizes
        )
    )


def entry_of(rng: random.Random, number: int, now: float) -> bytes:
    """An entry of 240 bytes in the mean: a URL of 70, one more of its host that linked to it, a
    history of 64, and validators of 45 for a third."""
    lot = rng.getrandbits
    host = f"www.{WORDS[number % 256]}-{number // 256}.example"
    words = [WORDS[lot(8)] for _ in range(4)]
    at, tag, date = now - lot(22), "", ""
    if not lot(8) % 3:
        tag, date = f'"{lot(64):x}"', "Thu, 26 Nov 2026 03:56:46 GMT"
    times = int(at), lot(22), lot(5), lot(4), lot(22), lot(22)
    history = History(at + 0.5, lot(64), False, tag, date, lot(64), lot(64), *times)
    url = f"https://{host}/{words[0]}/2026/11/{'-'.join(words[1:])}-{_NUMBER}.html"
    via = f"https://{host}/{words[0]}/"
    return rooms.encode(rooms.Entry(url, host, 3, via=via, history=encode_history(history)))


def publish(frontier: rooms.Frontier, path: Path) -> None:
    """A checkpoint, but for its manifest."""
    path.write_bytes(b"".join(frontier.parts.snapshot()))
    for written in frontier.parts.written():
        fd = os.open(written, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
    frontier.parts.forget()


def make(directory: Path, urls: int) -> None:
    clock, rng = SimulatedClock(), random.Random(2)
    frontier = frontier_in(directory, clock)
    frontier.open(None)
    numbers = [rng.randrange(-(-urls // _PER_HOST)) for _ in range(_SHAPES)]
    shapes = [entry_of(rng, one, clock.now).partition(_NUMBER.encode()) for one in numbers]
    for number in range(urls):
        before, _, after = shapes[int(rng.random() * _SHAPES)]
        at = clock.now + 90 * _DAY * rng.random()
        frontier.due.push(b"%b%08d%b" % (before, number, after), at)
        if number % _PUBLISHED == 0:
            publish(frontier, directory / "snapshot")
    publish(frontier, directory / "snapshot")
    tell("made", frontier, urls)


def go_on(directory: Path, visits: int) -> None:
    clock = SimulatedClock()
    frontier = frontier_in(directory, clock)
    began = time.perf_counter()
    frontier.open((directory / "snapshot").read_bytes())
    tell(f"open after {time.perf_counter() - began:.2f} s", frontier, visits)
    names = sorted(frontier.due.snapshot().items(), key=lambda one: due_at(one[0]))
    sums = itertools.accumulate(length_of(fifo) for _, fifo in names)
    enough = next((n for n, known in enumerate(sums) if known >= visits), len(names) - 1)
    clock.now = published = due_at(names[enough][0])
    week = 7.0 * _DAY
    known = Visits(policy=Greedy(week), first=week, shortest=_DAY, longest=90 * _DAY)
    done, before = 0, written()
    while done < visits:
        frontier.due.work(64, lambda batch: (batch, {}))
        if (lease := frontier.acquire()) is None:
            clock.now = max(clock.now, frontier.ready_at() or 0.0)
            continue
        frontier.contacts.release(lease.entry.host, rest=3.0, min_rest=0.0)
        found = CHANGED if done % 8 == 0 else "unchanged"
        history = history_of(lease.entry) or History()
        due = known.next(lease.entry, history, found, outcome="http_200", at=clock.now)
        frontier.leases.finish(lease, due=due)
        if not done:
            tell(f"first visit after {time.perf_counter() - began:.2f} s", frontier, visits)
        done += 1
        clock.now += 0.01
        if clock.now >= published + 60:
            published = clock.now
            publish(frontier, directory / "snapshot")
    tell(f"visits, {(written() - before) / visits:.0f} bytes written each", frontier, visits)


def written() -> int:
    """Bytes of all calls that write, of this process."""
    return int(re.findall(r"wchar: (\d+)", Path("/proc/self/io").read_text())[0])


def tell(what: str, frontier: rooms.Frontier, number: int) -> None:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu = usage.ru_utime + usage.ru_stime
    sizes = [
        path.stat().st_size for path in frontier.parked.path.parent.rglob("*") if path.is_file()
    ]
    print(
        f"{what}: {len(frontier.due):,} due, {cpu:,.2f} s of CPU ({cpu / number * 1e6:,.1f} us each"
        f"), {usage.ru_maxrss / 1024:,.0f} MB, {sum(sizes) / 1e6:,.0f} MB in {len(sizes)} files",
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
