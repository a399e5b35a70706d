"""What it takes to publish a shard to a checkpoint store, and to adopt it.

    PYTHONPATH=. python benchmarks/bench_store.py --store /mnt/elsewhere/store

Makes a shard of some 100 MB: front-end segments, a thousand short back-end files, runs, ranks, host
records. Publishes it, then again with little new, and fetches it; seconds of wall time and of CPU,
and megabytes that went to the store.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from webcrawl.crawl.job.jobdir import Job
from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.hive.store.store import CheckpointStore, HiveFacts
from webcrawl.hosts.records import HostRecord, HostRecords
from webcrawl.seen.runs import write_run
from webcrawl.storage.fifo import DiskFifo

if TYPE_CHECKING:
    from collections.abc import Callable


class Queue:
    """A queue as a part of a checkpoint."""

    def __init__(self, path: Path, **sizes: int) -> None:
        self._queue = DiskFifo(path=path, **sizes)
        self._queue.open(None)
        self.written, self.forget = self._queue.written, self._queue.forget

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self._queue.snapshot())

    def fill(self, start: int, count: int) -> None:
        self._queue.push_many(
            b"http://host%d.test/some/path/%060d.html" % (n % 9999, n)
            for n in range(start, start + count)
        )


class Bench:
    """The shard below *root*, and its store."""

    def __init__(self, root: Path, url: str, executor: ThreadPoolExecutor) -> None:
        self._job = Job(path=root / "job")
        self._job.open()
        self._root = root
        state = self._job.shard("00")
        self._path = state.path
        self._front = [Queue(self._path / f"front{n}") for n in range(10)]
        self._back = [
            Queue(self._path / f"back/{n:04d}", chunk=16, segment_bytes=1 << 20)
            for n in range(1000)
        ]
        self._ranks = HostRanks(path=self._path / "ranks")
        self._ranks.open(None)
        parts = [*self._front, *self._back, self._ranks]
        for n, part in enumerate(parts):
            state.attach(f"part{n}", part)
        self._records = HostRecords(
            path=self._path / "hosts", size=100_000, robots_size=9, executor=executor
        )
        self._records.open()
        self._store = CheckpointStore(url=url)
        self._store.found(HiveFacts(shards=64, politeness_key="host"), "")

    def make(self) -> None:
        for queue in self._front:
            queue.fill(0, 60_000)
        for queue in self._back:
            queue.fill(0, 60)
        self._ranks.add_many([(f"h{n}.test", n + 1) for n in range(500_000)])
        (self._path / "seen").mkdir()
        for n in range(4):
            words = np.random.default_rng(n).integers(0, 1 << 63, 900_000, dtype=np.uint64)
            write_run(self._path / f"seen/{n + 1:06d}.run", [np.unique(words)]).close()
        for n in range(20_000):
            self._records.put(HostRecord(f"host{n}.test", took=[0.1] * 5, pages=1))
        self._records.flush()

    def go_on(self, number: int) -> None:
        """What a minute of one of 64 shards brings."""
        for queue in self._front:
            queue.fill(60_000 + number * 600, 600)
        for queue in self._back[number * 50 : number * 50 + 50]:
            queue.fill(60, 32)
        for n in range(200):
            self._records.put(HostRecord(f"host{n * 7}.test", pages=number + 2))
        self._records.flush()

    def publish(self, what: str, token: int) -> None:
        self._job.publish(self._job.prepare({}))
        told = _timed(
            lambda: self._store.publish(
                self._path,
                shard=0,
                token=token,
                drone="d",
                released=False,
                copy_hosts=self._records.copy_to,
            )
        )
        print(f"{what}: {told[0]}, {told[1] / 1e6:.1f} MB uploaded")
        self._job.forget()

    def fetch(self) -> None:
        newest = self._store.newest(0)
        assert newest is not None
        target = self._root / "other/shards/00"
        told, _ = _timed(lambda: self._store.fetch(newest, target, token=2, before=0) and 0)
        print(f"fetched, {len(newest.files)} files, {len(newest.objects)} objects: {told}")

    def close(self) -> None:
        self._records.close()
        self._ranks.close()
        self._job.close()


def _timed(work: Callable[[], int]) -> tuple[str, int]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return f"{wall:.2f} s, {cpu:.2f} s of CPU", result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", help="directory or URL (default: a directory beside the shard)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(max_workers=1) as executor:
        root = Path(name)
        bench = Bench(root, options.store or str(root / "store"), executor)
        bench.make()
        bench.publish("the first time", 1)
        for number in range(3):
            bench.go_on(number)
            bench.publish("with little new", 1)
        bench.fetch()
        bench.publish("under the next lease", 2)
        bench.close()


if __name__ == "__main__":
    main()
