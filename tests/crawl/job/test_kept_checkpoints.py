"""Kept checkpoints: whatever the crawl does later, a copy of one is resumed as of its time."""

import errno
import os
import shutil
import subprocess
import time

import pytest
from conftest import FakeClock
from disk import drain, full_disk, items
from fifo_part import FifoPart

from webcrawl.crawl.job.jobdir import Job
from webcrawl.crawl.job.kept_checkpoints import KeptCheckpoints
from webcrawl.errors import FatalError
from webcrawl.storage.fifo import read_fifo
from webcrawl.storage.record_log import unpack_many


def opened(path, *, count=3, every=0.0, clock=time.time):
    kept = KeptCheckpoints(path=path, count=count, every=every, clock=clock)
    job = Job(path=path, kept=kept)
    job.open()
    return job, FifoPart(job).queue


def checkpoint(job):
    job.publish(job.prepare({}))
    job.forget()
    return job.kept.keep()


def kept_in(path):
    return sorted(one.name for one in (path / "checkpoints").glob("*"))


def resumed(path, copy):
    """What is found in a copy of the job directory *path*, which then goes on as any other."""
    shutil.copytree(path, copy)
    found = []
    for n in range(3):
        job, queue = opened(copy)
        found.append(drain(queue))
        queue.push_many(items(9 * n))
        assert checkpoint(job)
        job.close()
    assert found[1:] == [[], items(9)]
    return found[0]


# What is kept


def test_a_kept_checkpoint_is_a_job_as_it_was_whatever_the_crawl_does_later(jobdir, tmp_path):
    job, queue = opened(jobdir)
    states = []
    for n in range(9):
        if n == 6:
            drain(queue)
        queue.push_many(items(100 * n, 100 * n + 30))
        for _ in range(25):
            queue.pop()
        states.append(contents(queue))
        assert checkpoint(job)
    drain(queue)
    queue.push_many(items(1000, 1200))
    checkpoint(job)
    job.close()
    job, queue = opened(jobdir)
    assert len(drain(queue)) == 200
    job.close()
    assert kept_in(jobdir) == ["000008", "000009", "000010"]
    for n in (8, 9):
        path = jobdir / "checkpoints" / f"{n:06d}"
        assert resumed(path, tmp_path / f"copy{n}") == states[n - 1]


def contents(queue):
    """What is in *queue*, which is not changed."""
    pieces = read_fifo(queue.path, queue.snapshot())
    return [one for piece in pieces for one in unpack_many(piece)]


def test_checkpoints_are_kept_at_an_interval_across_restarts(jobdir):
    clock = FakeClock(time.time())
    made = []
    for secs in (0, 0, 1, 3500, 200, 3000, 3600, 50):
        clock.advance(secs)
        job, _ = opened(jobdir, every=3600.0, clock=clock)
        kept = checkpoint(job)
        made.append(kept)
        if kept:
            newest = jobdir / "checkpoints" / kept_in(jobdir)[-1]
            os.utime(newest, (clock.now, clock.now))
        job.close()
    assert made == [True, False, False, False, True, False, True, False]


def test_a_clock_that_was_put_back_does_not_keep_checkpoints_from_being_kept(jobdir):
    job, _ = opened(jobdir, every=3600.0, clock=lambda: time.time() - 86_400)
    assert [checkpoint(job), checkpoint(job)] == [True, True]
    job.close()


def test_none_are_kept_when_nobody_wants_any(jobdir):
    job, _ = opened(jobdir, count=0)
    assert not checkpoint(job)
    job.close()
    assert kept_in(jobdir) == []


def test_a_number_that_comes_again_replaces_what_was_kept_under_it(jobdir, tmp_path):
    job, queue = opened(jobdir)
    queue.push(b"old")
    assert checkpoint(job)
    job.close()
    for state in (jobdir, jobdir / "shards/00"):
        (state / "CURRENT").unlink()
        (state / "manifest-000001.json").unlink()
    job, queue = opened(jobdir)
    queue.push(b"new")
    assert checkpoint(job)
    job.close()
    assert kept_in(jobdir) == ["000001"]
    assert resumed(jobdir / "checkpoints" / "000001", tmp_path / "copy") == [b"new"]


# Who resumes


@pytest.fixture
def kept(jobdir):
    """A checkpoint that was kept, in a job that went on."""
    job, queue = opened(jobdir)
    queue.push_many(items(30))
    assert checkpoint(job)
    drain(queue)
    queue.push_many(items(30, 50))
    checkpoint(job)
    job.close()
    return jobdir / "checkpoints" / "000001"


@pytest.mark.cures("copy it with cp -r {} DIR, and continue in the copy with -s JOBDIR=DIR.")
def test_a_kept_checkpoint_is_refused_and_left_as_it_is(kept, jobdir, tmp_path):
    linked, copied = tmp_path / "linked", jobdir / "checkpoints" / "copied"
    subprocess.run(["cp", "-al", kept, linked], check=True)
    shutil.copytree(kept, copied)
    for path in (kept, linked, copied):
        before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
        with pytest.raises(FatalError) as caught:
            Job(path=path).open()
        assert str(caught.value) == (
            f"JOBDIR {path} is a kept checkpoint, which never changes: copy it with "
            f"cp -r {path} DIR, and continue in the copy with -s JOBDIR=DIR."
        )
        assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
    subprocess.run(["cp", "-r", kept, tmp_path / "copy"], check=True)
    job, _ = opened(tmp_path / "copy")
    job.close()


def test_a_kept_checkpoint_that_was_moved_away_is_refused_while_it_shares_files(jobdir, tmp_path):
    job, queue = opened(jobdir)
    queue.push_many(items(30))
    checkpoint(job)
    job.close()
    moved = tmp_path / "moved"
    (jobdir / "checkpoints" / "000001").rename(moved)
    with pytest.raises(FatalError, match="is a kept checkpoint"):
        Job(path=moved).open()
    shutil.rmtree(jobdir)
    job, queue = opened(moved)
    assert drain(queue) == items(30)
    job.close()


# Trouble


def test_a_full_disk_keeps_nothing_and_leaves_what_was_kept(kept, jobdir, tmp_path):
    job, queue = opened(jobdir)
    drain(queue)
    job.publish(job.prepare({}))
    for room in range(0, 40, 7):
        with full_disk(room):
            job.kept.keep()
        assert kept_in(jobdir) == ["000001", "000002"]
    assert job.kept.keep()
    job.close()
    assert resumed(kept, tmp_path / "copy") == items(30)


def test_a_disk_without_hard_links_keeps_nothing(jobdir, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    job, queue = opened(jobdir)
    queue.push_many(items(30))
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", refuse)
        with pytest.raises(OSError, match="not permitted"):
            checkpoint(job)
    assert kept_in(jobdir) == []
    job.close()
