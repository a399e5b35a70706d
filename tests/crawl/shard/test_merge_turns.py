"""Which shard merges, and when; fake shards, as a real merge ends when it likes."""

from types import SimpleNamespace

import pytest

from webcrawl.crawl.shard.merge_turns import MergeTurns

WORKERS = 4


class Merging:
    """Stands for an eliminator: a merge takes *secs* and ends when it is told to."""

    def __init__(self, waiting, *, secs=0.0):
        self.waiting = waiting
        self.last_merge_secs = secs
        self.merging = False
        self.merges = 0

    def merge(self):
        self.merging = True
        self.merges += 1

    def end(self):
        self.merging = False


class Process:
    """Shards whose eliminators have so many URLs *waiting*."""

    def __init__(self, clock, *waiting, front=0, secs=0.0):
        self.turns = MergeTurns(clock=clock)
        self.eliminators = [Merging(count, secs=secs) for count in waiting]
        self.shards = [
            SimpleNamespace(
                number=number,
                is_abandoned=False,
                live=SimpleNamespace(workers=WORKERS),
                frontier=SimpleNamespace(front=SimpleNamespace(size=front)),
                eliminator=eliminator,
            )
            for number, eliminator in enumerate(self.eliminators)
        ]

    def work(self):
        """Which shards are merging after a slice of background work."""
        self.turns.work(self.shards)
        return [number for number, one in enumerate(self.eliminators) if one.merging]


def test_a_merge_is_begun_when_workers_are_idle_or_front_ends_low(clock):
    process = Process(clock, 9, 0, front=WORKERS // 2)
    assert process.work() == []
    process.turns.is_starving = True
    assert process.work() == [0]
    process.eliminators[0].end()
    assert process.work() == []  # it had been told once
    process.shards.pop()
    assert process.work() == [0]


def test_merges_take_a_tenth_of_the_time_in_all(clock):
    process = Process(clock, 9, 9, 9, secs=1.0)
    begun = 0
    for _ in range(2000):
        clock.advance(0.05)
        for number in process.work():
            process.eliminators[number].end()
            begun += 1
    assert begun == pytest.approx(10, abs=1)
    assert not process.turns.is_within(-1.0)


def test_shards_merge_in_turn_and_one_at_a_time(clock):
    process = Process(clock, 9, 9, 0, 9)
    order = []
    for _ in range(7):
        (number,) = process.work()
        assert process.work() == [number]
        process.eliminators[number].end()
        order.append(number)
    assert order == [0, 1, 3, 0, 1, 3, 0]


def test_a_shard_that_has_gone_holds_up_no_other(clock):
    process = Process(clock, 9, 9)
    assert process.work() == [0]
    process.shards.pop(0).is_abandoned = True
    assert process.work() == [0, 1]


def test_a_shard_that_merges_by_itself_is_left_alone(clock):
    process = Process(clock, 9, 9)
    process.eliminators[0].merge()
    assert process.work() == [0, 1]
    assert process.eliminators[0].merges == 1
