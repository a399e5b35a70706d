"""When a checkpoint is made and when it must not be; what it consists of is tested with the job."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from scrapy.signalmanager import SignalManager

from webcrawl.checkpointer import Checkpointer
from webcrawl.job import Job
from webcrawl.signals import checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Number:
    """A part whose state is a number."""

    def __init__(self) -> None:
        self.value = 0

    def snapshot(self) -> bytes:
        return b"%d" % self.value

    def written(self) -> list[Path]:
        return []

    def forget(self) -> None:
        pass


class Crawl:
    """What a checkpointer has around it."""

    def __init__(self, jobdir: Path) -> None:
        self.job = Job(path=jobdir)
        self.job.open()
        self.number = Number()
        self.job.attach("number", self.number)
        self.signals = SignalManager()
        self.failures: list[Exception] = []
        self.ending = SimpleNamespace(has_begun=False, fail=self.failures.append)
        self.checkpoints = Checkpointer(
            job=self.job,
            signals=self.signals,
            stats=SimpleNamespace(inc_value=_ignore, max_value=_ignore),
            facts=dict,
            ending=self.ending,
        )

    def saved(self) -> bytes | None:
        """What the next process would find."""
        self.job.close()
        job = Job(path=self.job.path)
        job.open()
        job.close()
        return job.saved("number")


def _ignore(*_: object) -> None: ...


@pytest.fixture
def crawl(jobdir: Path) -> Iterator[Crawl]:
    crawl = Crawl(jobdir)
    yield crawl
    crawl.job.close()


def test_a_checkpoint_saves_the_state_of_the_moment_it_was_begun_at(crawl: Crawl) -> None:
    async def run() -> None:
        crawl.number.value = 1
        crawl.checkpoints.start()
        await asyncio.sleep(0)
        crawl.number.value = 2
        await crawl.checkpoints.wait()

    asyncio.run(run())
    assert crawl.saved() == b"1"


def test_a_crawl_that_is_ending_makes_no_checkpoint(crawl: Crawl) -> None:
    """A part that could not write, seeds for instance, has gone on in memory."""

    async def run() -> None:
        assert await crawl.checkpoints.make()
        crawl.number.value = 1
        crawl.checkpoints.start()
        crawl.ending.has_begun = True  # in the same turn of the loop
        await crawl.checkpoints.wait()
        assert not await crawl.checkpoints.make()

    asyncio.run(run())
    assert crawl.saved() == b"0"


def test_a_module_that_cannot_store_its_pages_keeps_the_checkpoint_from_being_made(
    crawl: Crawl,
) -> None:
    def fail() -> None:
        raise OSError("no room")

    async def run() -> None:
        assert await crawl.checkpoints.make()
        crawl.signals.connect(fail, signal=checkpoint)
        crawl.number.value = 1
        assert not await crawl.checkpoints.make()

    asyncio.run(run())
    assert [str(failure) for failure in crawl.failures] == ["no room"]
    assert crawl.saved() == b"0"
