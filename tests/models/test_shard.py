"""All durable parts of a job together, through kills, power failures, full disks and restarts.

What must hold is in shard_judge.py and in ``ShardRig.sound`` and ``finish``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from shard_process import ELIMINATORS, WORKERS
from shard_reactor import LEASE_SECS
from shard_rig import ShardRig, one_crawl
from strategies import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import SearchStrategy

# A process that dies leaves the file open that it was writing: nobody closes it but the collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <_io.FileIO:pytest.PytestUnraisableExceptionWarning",
    "ignore:unclosed file:ResourceWarning",
)

STEPS: SearchStrategy[int] = st.integers(1, 30)


class ShardMachine(RuleBasedStateMachine):
    """Anything in any order, then the crawl goes on to its end."""

    eliminator = "disk"
    worker = "inline"

    @initialize(seed=st.integers(0, 9999), troubled=st.booleans())
    def begin(self, seed: int, troubled: bool) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.patch = pytest.MonkeyPatch()
        self.rig = ShardRig(
            Path(self.directory.name),
            seed=seed,
            eliminator=self.eliminator,
            worker=self.worker,
            patch=self.patch,
            hosts=4,
            pages=16,
            troubled=troubled,
        )

    @rule(steps=STEPS)
    def crawl_on(self, steps: int) -> None:
        for _ in range(steps):
            self.rig.do(self.rig.reactor.crawl_on)

    @rule(limit=st.integers(1, 5))
    def read_seeds(self, limit: int) -> None:
        self.rig.do(self.rig.reactor.read_seeds, limit)

    @rule()
    def next_request(self) -> None:
        self.rig.do(self.rig.reactor.next_request)

    @rule(pick=st.integers(0, 9), took=st.sampled_from([0.0, 0.5, 5.0]))
    def proceed(self, pick: int, took: float) -> None:
        self.rig.do(self.rig.reactor.proceed, pick, took)

    @rule(limit=st.sampled_from([1, 3, 256]))
    def work(self, limit: int) -> None:
        self.rig.do(self.rig.reactor.work, limit)

    @rule()
    def merge(self) -> None:
        self.rig.do(self.rig.reactor.merge)

    @rule()
    def let_worker_work(self) -> None:
        self.rig.do(self.rig.reactor.let_worker_work)

    @rule(seconds=st.sampled_from([0.1, 10.0, LEASE_SECS + 1]))
    def wait(self, seconds: float) -> None:
        self.rig.do(self.rig.reactor.wait, seconds)

    @rule()
    def prepare(self) -> None:
        self.rig.do(self.rig.reactor.prepare)

    @rule()
    def publish(self) -> None:
        self.rig.do(self.rig.reactor.publish)

    @rule()
    def forget(self) -> None:
        self.rig.do(self.rig.reactor.forget)

    @rule()
    def give_up_checkpoint(self) -> None:
        self.rig.do(self.rig.reactor.give_up_checkpoint)

    @rule()
    def stop(self) -> None:
        self.rig.do(self.rig.stop)

    @rule()
    def kill(self) -> None:
        self.rig.do(self.rig.kill)

    @rule()
    def cut_power(self) -> None:
        self.rig.do(self.rig.cut_power)

    @rule(
        kind=st.sampled_from(["kill", "power", "full"]),
        after=st.integers(1, 30),
        lasting=st.sampled_from([1, 500]),
    )
    def trouble(self, kind: str, after: int, lasting: int) -> None:
        self.rig.disk.arm(kind, after=after, lasting=lasting)

    @invariant()
    def sound(self) -> None:
        if hasattr(self, "rig"):
            self.rig.sound()

    def teardown(self) -> None:
        if not hasattr(self, "directory"):
            return
        try:
            if hasattr(self, "rig"):
                self.rig.finish()
        finally:
            if hasattr(self, "rig"):
                self.rig.close()
            self.patch.undo()
            self.directory.cleanup()


class HeldMachine(ShardMachine):
    worker = "held"


class BloomMachine(ShardMachine):
    eliminator = "bloom"
    worker = "held"


TestShard = ShardMachine.TestCase
TestShardWithASlowWorker = HeldMachine.TestCase
TestShardWithABloomFilter = BloomMachine.TestCase
TestShard.settings = examples(15, stateful_step_count=30)
TestShardWithASlowWorker.settings = examples(20, stateful_step_count=30)
TestShardWithABloomFilter.settings = examples(10, stateful_step_count=30)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("worker", WORKERS)
@pytest.mark.parametrize("eliminator", ELIMINATORS)
def test_no_url_is_lost_in_many_lives(
    tmp_path: Path, eliminator: str, worker: str, seed: int
) -> None:
    happened = one_crawl(tmp_path, seed=seed, eliminator=eliminator, worker=worker, steps=600)
    assert happened["lives"] > 3
    assert happened["checkpoints"] > 3


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShardRig]:
    rig = ShardRig(tmp_path, seed=2, eliminator="disk", worker="inline", patch=monkeypatch)
    yield rig
    rig.close()


def test_a_finished_page_stays_finished_when_the_crawl_is_killed_after_a_reboot(
    rig: ShardRig,
) -> None:
    rig.do(rig.cut_power)
    rig.drain()
    done = set(rig.judge.truth.done)
    contacts = rig.events["contacts"]
    rig.do(rig.kill)  # there was no checkpoint since the reboot
    rig.finish()
    assert rig.judge.truth.done == done
    assert rig.events["contacts"] == contacts


def test_a_page_whose_lease_expired_in_the_middle_is_no_duplicate_of_itself(
    rig: ShardRig,
) -> None:
    def fetch_until(stage: str) -> None:
        reactor = rig.reactor
        while not any(flight.stage == stage and flight.has_lease for flight in flights):
            if flights:
                reactor.proceed(len(flights) - 1, 0.1)
            else:
                reactor.read_seeds(100)
                reactor.merge()
                reactor.work(256)
                reactor.next_request() or reactor.wait_for_host()

    flights = rig.process.flights
    fetch_until("parse")
    late = flights[-1]
    rig.reactor.proceed(len(flights) - 1, 0.1)
    assert rig.judge.in_process
    rig.reactor.wait(LEASE_SECS + 1)
    rig.reactor.work(1)
    assert not rig.judge.in_process
    flights.remove(late)
    fetch_until("parse")
    rig.reactor.proceed(len(flights) - 1, 0.1)
    assert rig.events["duplicates"] == 0
    flights.append(late)
    rig.finish()
