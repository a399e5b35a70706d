"""A crawl in virtual time in a process of its own, on a disk and among servers that fail as told.

    python tests/rigs/crawls/faulty_crawl.py ORDERS crawl web -a seeds=... -s JOBDIR=...

*ORDERS* is a file of ``Orders``. Everything behind it is Scrapy's command line. The process goes
through dying_disk.py with all that it does below ``Orders.root``, is told that the machine was
started as ``Orders.boot`` says, and keeps so little in memory that a crawl of some hundred pages
has files of every kind. When it ends, by itself or by the fault, what was synced until then is
in ``ORDERS.known``, and what was done to the disk in ``ORDERS.told``, see ``Told``.
"""

import functools
import os
import pickle
import random
import re
import resource
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from dying_disk import DyingDisk
from faults import HOST_FAULTS, Episode, FaultyWeb, ProcessFaults
from scrapy.cmdline import execute
from scrapy.core.engine import ExecutionEngine

from webcrawl import clock, scheduler
from webcrawl.crawl import health
from webcrawl.crawl.job import state_directory
from webcrawl.extensions import repeated_lines
from webcrawl.frontier import back_queue, contacts, done_log, due, front_end, overflow, snapshot
from webcrawl.revisit import visits
from webcrawl.seen import compaction, levels
from webcrawl.sim.loop import BEGAN
from webcrawl.sim.process import simulate
from webcrawl.simweb import bodies, farm, preset, replies
from webcrawl.simweb.host_spec import Behaviour, RobotsKind
from webcrawl.simweb.text_stock import stock
from webcrawl.storage.fifo import DiskFifo

# The scheduler's in an idle second: most of what that takes.
_TICK_SECS = 0.5
# What a file below JOBDIR is, by its path there.
_ROOMS = tuple(
    (re.compile(pattern), room)
    for pattern, room in (
        (r"checkpoints(/|$)", "kept"),
        (r"(CURRENT|manifest-\d+\.json)(\.tmp)?$", "manifest"),
        (r"snapshot-", "snapshot"),
        (r"shards/\d\d/frontier/(front|back|parked|due|done)", r"\1"),
        (r"shards/\d\d/seen/\d+\.run", "runs"),
        (r"shards/\d\d/seen(/|$)", "urls"),
        (r"shards/\d\d/(content|ranks|domains|hosts)", r"\1"),
        (r"(warc)(/|$)", r"\1"),
        (r"logs/info", "info"),
        (r"(logs/)?stats\.json", "stats"),
        (r"traps\.txt$", "traps"),
    )
)

#: Some of them.
ROOMS = (
    *("kept", "manifest", "snapshot", "front", "back", "parked", "done", "runs", "urls", "content"),
    *("ranks", "domains", "hosts", "warc", "info", "stats", "job"),
)


class Fault(msgspec.Struct, frozen=True):
    """*kind* as in dying_disk.py, at the *after*-th *call* on a file of *room*, either of which is
    any if empty; for ``full`` and ``broken``, *lasting* calls of any kind. ``limit``: from the
    beginning no file may grow beyond *after* bytes, which holds for SQLite, too. ``step``: the
    process is killed in turn *after* of its loop. Empty: none."""

    kind: str = ""
    call: str = ""
    room: str = ""
    after: int = 1
    lasting: int = 1


class Orders(msgspec.Struct, frozen=True):
    """*known*: a file with what earlier processes have synced; none: all that is there. The servers
    are those of *world*, parameters of simweb, whose faults end at *faults_end*, in seconds of the
    simulation, or are those of the *script*; the process begins at *began*, the machine at
    *booted*. It has to end within *longest* seconds. While it only waits, it checks for work
    every *idle* seconds; 0: as often as Scrapy and the product do. Visits are due by hours of
    *hour* seconds. *lies* as in ``FaultyWeb``."""

    root: Path
    jobdir: Path
    boot: Path
    access_log: Path
    world: dict[str, Any]
    seed: int = 0
    fault: Fault = Fault()
    known: Path | None = None
    longest: float = 1000.0
    faults_seed: int = 0
    faults_end: float = 0.0
    script: tuple[Episode, ...] = ()
    began: float = 0.0
    booted: float = 0.0
    hour: float = 3600.0
    idle: float = 0.0
    lies: str = ""


class Told(msgspec.Struct, frozen=True):
    """How often each call was made on each room's files, whether any of them failed or the process
    was killed, at which second of the simulation it ended, after how many turns of its loop, and
    the most memory that it had, in bytes. *is_endless*: it had not ended when it should have."""

    calls: list[tuple[str, str, int]]
    has_failed: bool
    ended: float
    turns: int
    memory_bytes: int
    is_endless: bool = False


class ScriptedFaults(ProcessFaults):
    """Those of *script*: of the ``network``, or a ``Behaviour`` or ``RobotsKind`` of a host, each
    ``host`` or each ``name``."""

    def __init__(self, script):
        super().__init__(0, end=0.0)
        self._script = script

    def episodes(self, name, among):
        kind = "host" if among is HOST_FAULTS else name.partition(" of ")[0]
        found = [one for one in self._script if one.name in (kind, name)]
        if kind == "network":
            return found
        return [one._replace(fault=_fault(one.fault)) for one in found]


def _fault(value):
    is_robots = value in {*RobotsKind}
    return ("robots", RobotsKind(value)) if is_robots else ("behaviour", Behaviour(value))


def faults_of(seed, end, script):
    """Those of *script*, if there is one."""
    return ScriptedFaults(script) if script else ProcessFaults(seed, end=end)


@functools.cache
def room_of(path, jobdir):
    """The room of *path*, or ``job`` for the directories between them."""
    below = os.path.relpath(path, jobdir)
    for pattern, room in _ROOMS:
        found = pattern.match(below)
        if found:
            return found.expand(room)
    return "job"


def _make_small(patch):
    """So that short queues are on disk, in many files, few runs are merged, and all that is done in
    pieces has many; the files can be read by who has not called this."""
    patch.setattr(front_end, "CHUNK", 2)
    patch.setattr(back_queue, "INLINE", 2)
    patch.setattr(overflow, "CHUNK", 2)
    patch.setattr(overflow, "SEGMENT_BYTES", 150)
    patch.setattr(due, "_CHUNK", 2)
    patch.setattr(due, "_MIN_AHEAD", 4)
    patch.setitem(DiskFifo.__init__.__kwdefaults__, "segment_bytes", 200)
    patch.setattr(done_log, "_MAX_WAITING", 3)
    patch.setattr(contacts, "_CONTACTS_PER_WRITE", 2)
    patch.setattr(snapshot, "_PIECE", 60)
    patch.setattr(compaction, "_SLICE_SECS", 0.0)
    patch.setattr(levels, "FAN_OUT", 2)
    patch.setattr(levels, "_MERGED_BLOCKS", 2)


def share_text(patch):
    """Let all simulated webs have the same words: their text is made before a process is forked."""
    for module in (bodies, farm, replies):
        patch.setattr(module, "stock", lambda _: stock(1))


class FaultyProcess:
    """This process."""

    def __init__(self, orders_file):
        self._orders_file = orders_file
        self._orders = orders = msgspec.json.decode(
            orders_file.read_bytes(), type=Orders, dec_hook=lambda kind, value: kind(value)
        )
        self._calls = Counter()
        self._patch = patch = pytest.MonkeyPatch()
        _make_small(patch)
        share_text(patch)
        patch.setattr(scheduler, "TICK_SECS", _TICK_SECS)
        if orders.idle:
            patch.setattr(scheduler, "_IDLE_TICK_SECS", orders.idle)
            patch.setattr(health, "_IDLE_EXAMINE_SECS", orders.idle)
            patch.setattr(repeated_lines, "_SECS", orders.idle)
            patch.setattr(ExecutionEngine, "_SLOT_HEARTBEAT_INTERVAL", orders.idle)
        patch.setattr(state_directory, "_BOOT_ID", orders.boot)
        patch.setattr(due, "_HOUR", orders.hour)
        patch.setattr(visits, "_SHORTEST", orders.hour)
        self._disk = disk = DyingDisk(orders.root, patch=patch, rng=random.Random(orders.seed))
        if orders.known is not None:
            disk.power.go_on(pickle.loads(orders.known.read_bytes()))
        disk.end = self._end
        disk.counts = self._counts
        log = orders.access_log.open("ab", buffering=0)  # as the servers of another machine
        faults = faults_of(orders.faults_seed, orders.faults_end, orders.script)
        self._web = FaultyWeb(preset(**orders.world), log=log, faults=faults, lies=orders.lies)
        self._loop = loop = simulate(orders.seed, self._web, began=orders.began)
        clock.take_from(
            boot=lambda: loop.time() - orders.booted,
            wall=lambda: BEGAN + loop.time() + faults.wall(loop.time()),
        )
        self._is_killed = self._is_endless = False
        self._loop.on_turn = self._turn
        self._arm(orders.fault)

    def _arm(self, fault):
        if fault.kind == "limit":
            # A write beyond it is told by an error, not by a signal: Python ignores that.
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (fault.after, hard))
        elif fault.kind and fault.kind != "step":
            self._disk.arm(fault.kind, after=fault.after, lasting=fault.lasting)

    def _turn(self, turn):
        orders = self._orders
        if orders.fault.kind == "step" and turn == orders.fault.after:
            self._is_killed = True
            self._end()
        if self._loop.time() > orders.began + orders.longest:
            self._is_endless = True
            self._end()

    def _counts(self, call, path):
        found = call, room_of(path, self._orders.jobdir)
        self._calls[found] += 1
        fault = self._orders.fault
        return fault.call in ("", found[0]) and fault.room in ("", found[1])

    def tell(self):
        """Write down what is known of the disk at the end of this process."""
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        calls = [(*call, count) for call, count in self._calls.items()]
        told = Told(
            calls=calls,
            has_failed=self._disk.was_full or self._disk.dead or self._is_killed,
            ended=self._loop.time(),
            turns=self._loop.turns,
            memory_bytes=1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
            is_endless=self._is_endless,
        )
        with self._disk.untracked():
            self._orders_file.with_suffix(".known").write_bytes(
                pickle.dumps(self._disk.power.known)
            )
            self._orders_file.with_suffix(".told").write_bytes(msgspec.json.encode(told))

    def over(self):
        """The process has come to its end, but perhaps not all servers to that of their answers."""
        self._web.hang_up()
        self.tell()

    def _kill(self):
        self._is_killed = True
        self._end()

    def _end(self):
        """Nothing is done any more."""
        self.over()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


if __name__ == "__main__":
    process = FaultyProcess(Path(sys.argv[1]))
    try:
        execute(["scrapy", *sys.argv[2:]])
    finally:
        process.over()
