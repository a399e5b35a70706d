"""A crawl in a process of its own, as a user starts it, on a disk that fails where it is told to.

    python tests/rigs/faulty_crawl.py ORDERS crawl web -a seeds=... -s JOBDIR=...

*ORDERS* is a file of ``Orders``. Everything behind it is Scrapy's command line. The process goes
through dying_disk.py with all that it does below ``Orders.root``, is told that the machine was
started as ``Orders.boot`` says, and keeps so little in memory that a crawl of some hundred pages
has files of every kind. When it ends, by itself or by the fault, what was synced until then is
in ``ORDERS.known``, and what was done to the disk in ``ORDERS.told``, see ``Told``.
"""

from __future__ import annotations

import os
import pickle
import random
import re
import resource
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest
from dying_disk import DyingDisk
from scrapy.cmdline import execute
from shard_process import make_queues_small

from webcrawl.crawl.job import state_directory

# What a file below JOBDIR is, by its path there.
_ROOMS = tuple(
    (re.compile(pattern), room)
    for pattern, room in (
        (r"checkpoints(/|$)", "kept"),
        (r"(CURRENT|manifest-\d+\.json)(\.tmp)?$", "manifest"),
        (r"snapshot-", "snapshot"),
        (r"shards/00/frontier/(front|back|parked|done)", r"\1"),
        (r"shards/00/seen/\d+\.run", "runs"),
        (r"shards/00/seen(/|$)", "urls"),
        (r"shards/00/(content|ranks|domains|hosts)", r"\1"),
        (r"(warc)(/|$)", r"\1"),
        (r"logs/info", "info"),
        (r"(logs/)?stats\.json", "stats"),
        (r"traps\.txt$", "traps"),
    )
)


class Fault(msgspec.Struct, frozen=True):
    """*kind* as in dying_disk.py, at the *after*-th *call* on a file of *room*; for ``full`` and
    ``broken``, *lasting* calls of any kind. ``limit``: from the beginning no file may grow beyond
    *after* bytes, which holds for SQLite, too. Empty: none."""

    kind: str = ""
    call: str = ""
    room: str = ""
    after: int = 1
    lasting: int = 1


class Orders(msgspec.Struct, frozen=True):
    """*known*: a file with what earlier processes have synced; none: all that is there."""

    root: Path
    jobdir: Path
    boot: Path
    seed: int = 0
    fault: Fault = Fault()
    known: Path | None = None


class Told(msgspec.Struct, frozen=True):
    """How often each call was made on each room's files, and whether any of them failed."""

    calls: list[tuple[str, str, int]]
    has_failed: bool


def room_of(path: str, jobdir: Path) -> str:
    """The room of *path*, or ``job`` for the directories between them."""
    below = os.path.relpath(path, jobdir)
    for pattern, room in _ROOMS:
        found = pattern.match(below)
        if found:
            return found.expand(room)
    return "job"


class FaultyProcess:
    """This process."""

    def __init__(self, orders_file: Path) -> None:
        self._orders_file = orders_file
        self._orders = orders = msgspec.json.decode(
            orders_file.read_bytes(), type=Orders, dec_hook=lambda kind, value: kind(value)
        )
        self._calls: Counter[tuple[str, str]] = Counter()
        self._patch = patch = pytest.MonkeyPatch()
        make_queues_small(patch)
        patch.setattr(state_directory, "_BOOT_ID", orders.boot)
        self._disk = disk = DyingDisk(orders.root, patch=patch, rng=random.Random(orders.seed))
        if orders.known is not None:
            disk.power.go_on(pickle.loads(orders.known.read_bytes()))
        disk.end = self._end
        disk.counts = self._counts
        self._arm(orders.fault)

    def _arm(self, fault: Fault) -> None:
        if fault.kind == "limit":
            # A write beyond it is told by an error, not by a signal: Python ignores that.
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (fault.after, hard))
        elif fault.kind:
            self._disk.arm(fault.kind, after=fault.after, lasting=fault.lasting)

    def _counts(self, call: str, path: str) -> bool:
        found = call, room_of(path, self._orders.jobdir)
        self._calls[found] += 1
        return found == (self._orders.fault.call, self._orders.fault.room)

    def tell(self) -> None:
        """Write down what is known of the disk at the end of this process."""
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        calls = [(*call, count) for call, count in self._calls.items()]
        told = Told(calls=calls, has_failed=self._disk.was_full or self._disk.dead)
        with self._disk.untracked():
            self._orders_file.with_suffix(".known").write_bytes(
                pickle.dumps(self._disk.power.known)
            )
            self._orders_file.with_suffix(".told").write_bytes(msgspec.json.encode(told))

    def _end(self) -> NoReturn:
        """No thread does anything more, also none that is in SQLite."""
        self.tell()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


if __name__ == "__main__":
    process = FaultyProcess(Path(sys.argv[1]))
    try:
        execute(["scrapy", *sys.argv[2:]])
    finally:
        process.tell()
