"""When a checkpoint is made and when it must not be; what it consists of is tested with the job."""

import asyncio
import threading
from collections import Counter
from types import SimpleNamespace

import pytest
from patience import LIMIT_SECS
from scrapy.signalmanager import SignalManager
from text_tables import each

from webcrawl.crawl.job.checkpointer import Checkpointer
from webcrawl.crawl.job.jobdir import Job, read_checkpoint
from webcrawl.crawl.job.kept_checkpoints import KeptCheckpoints
from webcrawl.signals import checkpoint


class Number:
    """A part whose state is a number."""

    def __init__(self):
        self.value = 0

    def snapshot(self):
        return b"%d" % self.value

    def written(self):
        return []

    def forget(self):
        pass


class Crawl:
    """What a checkpointer has around it."""

    def __init__(self, jobdir):
        kept = KeptCheckpoints(path=jobdir, count=2, every=0.0)
        kept.copy_hosts["00"] = self._copy
        self.job = Job(path=jobdir, kept=kept)
        self.job.open()
        # What the copy of a part that writes in place does.
        self.copying = lambda: None
        self.number = Number()
        self.job.own.attach("number", self.number)
        self.signals = SignalManager()
        self.failures = []
        self.stop = SimpleNamespace(has_begun=False, is_ending=False, fail=self.failures.append)
        self.checkpoints = Checkpointer(
            job=self.job,
            signals=self.signals,
            stats=SimpleNamespace(inc_value=self._count, max_value=_ignore),
            facts=dict,
            stop=self.stop,
        )
        made = self.checkpoints
        self.start, self.wait, self.make = made.start, made.wait, made.make
        self.counts = Counter()

    async def begun(self):
        """Return when the checkpoint that was begun has been made, and kept."""
        await self.checkpoints._running

    def _count(self, name):
        self.counts[name] += 1

    def _copy(self, _path, _go_on):
        self.copying()

    def saved(self):
        """What the next process would find."""
        self.job.close()
        job = Job(path=self.job.path)
        job.open()
        job.close()
        return job.own.saved_snapshot("number")


def _ignore(*_): ...


@pytest.fixture
def crawl(jobdir):
    crawl = Crawl(jobdir)
    yield crawl
    crawl.job.close()
    crawl.signals.disconnect_all(checkpoint)


async def test_a_checkpoint_saves_the_state_of_the_moment_it_was_begun_at(crawl):
    crawl.number.value = 1
    crawl.start()
    await asyncio.sleep(0)
    crawl.number.value = 2
    await crawl.wait()
    assert crawl.saved() == b"1"


async def test_the_crawl_goes_on_between_the_pieces_of_a_large_snapshot(crawl):
    class Large(Number):
        """Told a digit at a time."""

        def snapshot(self):
            return (b"%d" % n for n in range(self.value))

    large = Large()
    crawl.job.own.attach("number", large)
    large.value = 5
    turns = 0
    crawl.start()
    while not crawl.counts["checkpoint/count"]:
        await asyncio.sleep(0)
        turns += 1
        large.value += 1
    assert turns > 5
    await crawl.wait()
    assert crawl.saved() == b"01234"


async def test_a_crawl_that_is_ending_makes_no_checkpoint(crawl):
    """A part that could not write, seeds for instance, has gone on in memory."""
    assert await crawl.make()
    crawl.number.value = 1
    crawl.start()
    crawl.stop.has_begun = True  # in the same turn of the loop
    await crawl.wait()
    assert not await crawl.make()
    assert crawl.saved() == b"0"


@each("raised", True, False)
async def test_a_module_that_cannot_store_its_pages_keeps_the_checkpoint_from_being_made(
    crawl, caplog, raised
):
    def fail():
        raise OSError("no room")

    def give_up():
        return OSError("no room")

    answer = fail if raised else give_up
    assert await crawl.make()
    crawl.signals.connect(answer, signal=checkpoint)
    crawl.number.value = 1
    assert not await crawl.make()
    assert [str(failure) for failure in crawl.failures] == ["no room"]
    assert crawl.saved() == b"0"
    (told,) = (one for one in caplog.records if one.name == "webcrawl.crawl.job.checkpointer")
    assert len(caplog.records) == 1 + raised  # Scrapy's, with a traceback
    assert told.getMessage().endswith("stays current: no room")
    assert told.exc_info is None


async def test_the_last_checkpoint_is_made_beside_no_other(crawl):
    crawl.start()
    # As a shard is handed over.
    another = asyncio.ensure_future(crawl.checkpoints.make_another())
    await asyncio.sleep(0)
    await crawl.wait()
    assert await crawl.make()
    assert not await another
    assert crawl.counts["checkpoint/count"] == 2


async def test_checkpoints_are_kept_while_the_crawl_goes_on_and_not_at_its_end(crawl):
    for n in range(1, 4):
        crawl.number.value = n
        crawl.start()
        await crawl.begun()
    await crawl.wait()
    crawl.start()
    await crawl.wait()
    assert await crawl.make()
    assert crawl.counts == {"checkpoint/count": 5, "checkpoint/kept/count": 3}
    kept = sorted((crawl.job.path / "checkpoints").iterdir())
    checkpoints = [read_checkpoint(path) for path in kept]
    assert [one.own.snapshots["number"] for one in checkpoints] == [b"2", b"3"]


@each("error", OSError("no room"), ValueError("a bug"))
async def test_a_checkpoint_that_cannot_be_kept_is_still_published(crawl, error, caplog):
    def fail():
        raise error

    crawl.copying = fail
    crawl.number.value = 1
    crawl.start()
    await crawl.begun()
    await crawl.wait()
    assert f"could not be kept for later: {error}" in caplog.text
    assert crawl.failures == []
    assert list((crawl.job.path / "checkpoints").iterdir()) == []
    assert crawl.saved() == b"1"


async def test_the_end_of_the_crawl_does_not_wait_for_a_long_copy(crawl):
    begun, given_up = threading.Event(), threading.Event()

    def copy():
        begun.set()
        assert given_up.wait(LIMIT_SECS)

    crawl.copying = copy
    crawl.start()
    await asyncio.to_thread(begun.wait, 10)
    waiting = asyncio.ensure_future(crawl.wait())
    await asyncio.sleep(0)
    given_up.set()
    await waiting
    assert crawl.counts == {"checkpoint/count": 1}
    assert list((crawl.job.path / "checkpoints").iterdir()) == []
