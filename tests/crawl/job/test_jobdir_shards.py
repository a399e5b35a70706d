"""The shards of a job: each has its own state, and may move to another job."""

from contextlib import closing
from unittest import mock

import pytest
from fifo_part import FifoPart
from looking import contents
from stored_job import Stored
from text_tables import each

from webcrawl.crawl.job.jobdir import Job
from webcrawl.errors import FatalError
from webcrawl.frontier import Entry, encode
from webcrawl.jobs.check.whole import check_job
from webcrawl.jobs.inspect.job_view import ask
from webcrawl.jobs.inspect.overview import overview
from webcrawl.jobs.inspect.seeds_file import export


def opened(path, boot="here"):
    with mock.patch("webcrawl.crawl.job.jobdir.boot_id", return_value=boot):
        job = Job(path=path)
    job.open()
    return closing(job)


def checkpoint(path, boot="here"):
    with opened(path, boot) as job:
        FifoPart(job).queue.push(b"item")
        job.publish(job.prepare({}))


@pytest.fixture
def other(tmp_path):
    """A shard of another job, which was made in another boot."""
    checkpoint(tmp_path / "other", "there")
    return tmp_path / "other/shards/00"


def test_a_shard_is_behind_when_it_comes_from_another_boot(jobdir, other):
    checkpoint(jobdir)
    with opened(jobdir) as job:
        assert not job.is_behind
    other.rename(jobdir / "shards/01")
    with opened(jobdir) as job:
        assert job.shards == ["00", "01"]
        assert job.is_behind
        assert [job.shard(name).rebooted for name in job.shards] == [False, True]
        assert (job.own.resumed, job.own.rebooted) == (True, False)


def test_a_shard_that_nothing_was_attached_to_is_left_as_it_is(jobdir, other):
    checkpoint(jobdir)
    left = other.rename(jobdir / "shards/01")
    before = contents(left)
    checkpoint(jobdir)
    assert contents(left) == before


# A shard moves


def stored(path, clock, host):
    """A stopped job with URLs of *host*, in its frontier and in its eliminator."""
    job = Stored(path, clock)
    urls = [f"http://{host}/{number}" for number in range(9)]
    entries = [Entry(url, host) for url in urls]
    job.rig.frontier.push([encode(entry) for entry in entries[:5]])
    job.submit(*entries[5:])
    job.publish(finished=0)
    return urls


def exported(path, target):
    ask(path, lambda view: export(view, target, on_progress=lambda _: None))
    lines = target.read_text().splitlines()
    return sorted(line.partition(",")[2] for line in lines if not line.startswith("#"))


@each("place", "00", "01")
def test_a_shard_moves_from_one_stopped_job_to_another(tmp_path, clock, place):
    moved = stored(tmp_path / "a", clock, "a.test")
    stays = stored(tmp_path / "b", clock, "b.test")
    target = tmp_path / "b/shards" / place
    if target.exists():
        target.rename(tmp_path / "gone")
        stays = []
    (tmp_path / "a/shards/00").rename(target)
    report = check_job(tmp_path / "b", warc=False)
    assert (report.damage_count, report.note_count) == (0, 0)
    assert exported(tmp_path / "b", tmp_path / "seeds.txt") == sorted(moved + stays)
    told = ask(tmp_path / "b", lambda view: overview(view, top=9))
    assert told.waiting == len(moved + stays)
    # The job that it left is sound; that it is gone is noted.
    report = check_job(tmp_path / "a", warc=False)
    assert (report.damage_count, [one.file for one in report.notes]) == (0, ["shards/00"])
    with pytest.raises(FatalError, match="there are no shards"):
        exported(tmp_path / "a", tmp_path / "seeds.txt")
