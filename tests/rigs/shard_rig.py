"""A whole shard without Scrapy: all durable parts of a job together, through lives of every end.

``ShardRig`` lets a ``Reactor`` (shard_reactor.py) drive a ``Process`` (shard_process.py) as the
scheduler, the dispatcher and the checkpointer drive its parts, on a fake clock and a disk that may
die at any call (dying_disk.py), over a small web (shard_world.py). The ``Judge`` (shard_judge.py)
is told of all that happens, and whatever must not happen is an AssertionError.
"""

from __future__ import annotations

import itertools
import json
import random
import shutil
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from dying_disk import DyingDisk, Killed
from shard_judge import Judge
from shard_process import (
    RETRY_TIMES,
    Machine,
    Process,
    make_everything_small,
)
from shard_reactor import Clock, Reactor
from shard_world import World

from webcrawl.errors import FatalError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# What the machine needs to come back after a power failure.
REBOOT_SECS = 30.0


class ShardRig:
    """Processes of one job below *directory*, one after the other; *seed* makes the web and chance.

    *troubled*: the first process may die while it opens the job.
    Operations are done by ``do``: each may find the process dead or its disk full, and then
    another process has begun when ``do`` returns.
    """

    def __init__(
        self,
        directory: Path,
        *,
        seed: int,
        eliminator: str,
        worker: str,
        patch: pytest.MonkeyPatch,
        hosts: int = 5,
        pages: int = 24,
        troubled: bool = False,
    ) -> None:
        make_everything_small(patch)
        self.rng = random.Random(seed)
        self.world = World(seed, hosts=hosts, pages=pages, retry_times=RETRY_TIMES)
        self.judge = Judge(self.world)
        self.events: Counter[str] = Counter()
        self.clock = Clock()
        self._eliminator = eliminator
        self._worker = worker
        self._directory = directory
        self._seeds_file = directory / "seeds.csv"
        ranked = enumerate(self.world.seeds, start=1)
        self._seeds_file.write_text("".join(f"{rank},{url}\n" for rank, url in ranked))
        self._disks = itertools.count()
        root = self._new_root()
        root.mkdir()
        self.disk = DyingDisk(root, patch=patch, rng=self.rng)
        if troubled:
            self.trouble()
        self._begin()

    def _new_root(self) -> Path:
        return self._directory / f"disk-{next(self._disks)}"

    @property
    def jobdir(self) -> Path:
        return self.disk.root / "crawls" / "web"

    @property
    def process(self) -> Process:
        """The one that lives, or has just died."""
        return self.reactor.process

    # --- the ends of a process

    def do(self, operation: Callable[..., Any], *args: Any) -> Any:
        """Do *operation*; if the process ends in it, begin another."""
        result = None
        try:
            result = operation(*args)
        except Killed:
            assert self.disk.dead
        except OSError as error:
            if not self.disk.was_full:
                raise
            self.process.stop.fail(error)
            self.judge.settle_finish()
        if self.process.stop.has_begun and not self.disk.dead:
            try:
                self._end()
            except Killed:
                assert self.disk.dead
        if self.disk.dead:
            self._bury()
        if self.process.is_closed:
            self._begin()
        return result

    def stop(self) -> None:
        """SIGTERM: downloads end or are given up, and a last checkpoint is made."""
        reactor = self.reactor
        reactor.land()
        reactor.publish()
        reactor.forget()
        if not self.process.stop.has_begun:
            reactor.checkpoint()
            self._close()
            self.events["stops"] += 1

    def _end(self) -> None:
        """The disk is full: as ``stop``, but no checkpoint is begun."""
        self.events["full disks"] += 1
        self.reactor.land()
        try:
            self.reactor.publish()
            self.reactor.forget()
        except OSError as error:
            self.process.stop.fail(error)
        self._close()

    def _close(self) -> None:
        self.process.close()
        assert self.disk.open_files == []

    def kill(self) -> None:
        """kill -9, here."""
        self.disk.dead = True

    def cut_power(self) -> None:
        """A power failure, here."""
        self.disk.arm("power", after=1)
        self.disk.dead = True

    def trouble(self) -> None:
        """Something will happen before long."""
        kind = self.rng.choices(("kill", "power", "full"), (6, 2, 2))[0]
        after = int(2 ** self.rng.uniform(0, 7))
        self.disk.arm(kind, after=after, lasting=self.rng.choice((1, 5, 500)))

    def _bury(self) -> None:
        """The process is dead. What it leaves are its files, or what the disk has of them."""
        process = self.process
        process.is_closed = True
        if isinstance(process.executor, ThreadPoolExecutor):
            process.executor.shutdown()
        lost_power = self.disk.armed == "power"
        self.disk.bury()
        process.seeds.close()
        if not lost_power:
            self.events["kills"] += 1
            self.judge.settle_finish()
            self.clock.now += self.rng.choice((0.0, 0.0, 1.0, 20.0, 200.0))
            return
        self.events["power failures"] += 1
        before = self.disk.root
        self.disk.lose_power(self._new_root())
        shutil.rmtree(before)
        self.judge.remember(self._live_checkpoint())
        self.clock.reboot(takes=REBOOT_SECS)

    def _live_checkpoint(self) -> int:
        """The number of the checkpoint that the next process will find, 0 for none. The shard's: a
        publication that died may have left the job with an older one."""
        shard = self.jobdir / "shards" / "00"
        try:
            name = (shard / "CURRENT").read_text().strip()
        except FileNotFoundError:
            return 0
        number: int = json.loads((shard / name).read_text())["facts"]["checkpoint"]
        return number

    def _begin(self) -> None:
        """The same command again, until it runs."""
        while True:
            self.judge.restarted(now=self.clock.now)
            machine = Machine(
                jobdir=self.jobdir,
                seeds=self._seeds_file,
                clock=self.clock,
                boot=f"boot {self.clock.boots}",
            )
            process = Process(
                machine, eliminator=self._eliminator, worker=self._worker, rng=self.rng
            )
            self.reactor = Reactor(
                process,
                judge=self.judge,
                world=self.world,
                clock=self.clock,
                rng=self.rng,
                events=self.events,
            )
            self.disk.before_fsync = self.reactor.go_on
            try:
                process.open({"checkpoint": self.judge.promise()})
                break
            except Killed:
                self._bury()
            except (OSError, FatalError) as error:
                if not self.disk.was_full or not isinstance(error.__cause__ or error, OSError):
                    raise
                self.events["could not begin"] += 1
                self.disk.dead = True
                self._bury()
        self.events["lives"] += 1
        if self.rng.random() < 0.5 and not self.disk.armed and not self.disk.was_full:
            self._account_for_files()
            self.check()

    # --- what always holds

    def check(self) -> None:
        """Every part that can check itself is sound."""
        shard = self.process.shard
        for part in (shard.frontier, shard.eliminator, shard.content):
            assert part.check() == []

    def sound(self) -> None:
        """Nothing is kept that is not needed."""
        process, flights = self.process, self.process.flights
        assert process.frontier.leased == sum(flight.has_lease for flight in flights)
        assert process.frontier._leases._hosts.keys() == self.judge.truth.contacts.keys()
        assert process.content._in_process == self.judge.in_process
        assert len(process.content._committed) <= 20
        assert len(process.completion.under_way) <= len(flights)
        assert len(self.disk.open_files) <= 40

    def _account_for_files(self) -> None:
        """A process that has just begun has deleted whatever nothing names."""
        self.process.executor.submit(int).result()  # the worker has done what it was given
        logs = self.jobdir / "logs"  # for people, who delete them
        found = {path for path in self.jobdir.rglob("*") if path.is_file()}
        found = {path for path in found if path.parent != logs}
        left = found - self.process.named_files()
        assert not left, f"nothing names {sorted(map(str, left))}"

    # --- a whole crawl

    def live(self, steps: int) -> None:
        """*steps* of a crawl at random, with ends of all kinds."""
        rng = self.rng
        for _ in range(steps):
            reactor, what = self.reactor, rng.random()
            if what < 0.90:
                self.do(reactor.crawl_on)
            elif what < 0.97:
                step = (reactor.prepare, reactor.publish, reactor.forget, reactor.checkpoint)
                self.do(rng.choice(step))
            elif what < 0.973:
                self.do(reactor.give_up_checkpoint)
            elif what < 0.976:
                self.do(self.stop)
            elif what < 0.98:
                self.do(self.kill)
            elif what < 0.982:
                self.do(self.cut_power)
            elif not self.disk.armed:
                self.trouble()
            self.sound()

    def drain(self) -> None:
        """The crawl goes on to its end, undisturbed."""
        self.disk.disarm()
        deadline = time.monotonic() + 60
        while not self.process.seeds.exhausted or self.process.has_pending_requests:
            assert time.monotonic() < deadline, "the crawl does not come to its end"
            self.do(self._drain_some)
        self.sound()
        self.check()
        assert not self.process.frontier._finished.size

    def _drain_some(self) -> None:
        reactor = self.reactor
        reactor.read_seeds(100)
        reactor.merge()
        reactor.let_worker_work()
        reactor.work(256)
        while reactor.next_request():
            pass
        while reactor.process.flights:
            reactor.proceed(0, 0.1)
        reactor.wait_for_host()
        if self._worker == "thread":
            time.sleep(0.0002)

    def finish(self) -> None:
        """Drain, compare with what had to be done, and run the finished job again."""
        self.drain()
        reachable, done = self.world.reachable(), self.judge.truth.done
        assert not reachable - done, f"lost: {sorted(reachable - done)}"
        assert not done - reachable
        for _ in range(2):
            self.do(self.stop)
            assert not self.process.has_pending_requests
            assert not self.do(self.reactor.next_request)
            assert self.process.seeds.exhausted
            self._account_for_files()
            self.check()

    def close(self) -> None:
        """Give everything back, in whatever state it is."""
        if not self.process.is_closed:
            self.disk.dead = True
            self._bury()
        self.disk.close()


def one_crawl(
    directory: Path, *, seed: int, eliminator: str, worker: str, steps: int
) -> Counter[str]:
    """A crawl of *steps* in many lives, then to its end; what happened in it."""
    with pytest.MonkeyPatch.context() as patch:
        rig = ShardRig(
            directory,
            seed=seed,
            eliminator=eliminator,
            worker=worker,
            patch=patch,
            troubled=seed % 3 == 0,
        )
        try:
            rig.live(steps)
            rig.finish()
        finally:
            rig.close()
        return rig.events
