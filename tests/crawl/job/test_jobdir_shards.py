"""The shards of a job: each has its own state, and no link between two is lost."""

from __future__ import annotations

import os
import random
import zlib
from contextlib import closing
from typing import NamedTuple
from unittest import mock

import msgspec
import pytest
from crash import die_between_lines
from looking import contents
from stored_job import Stored

from webcrawl.crawl.job.jobdir import Job
from webcrawl.errors import FatalError
from webcrawl.frontier import Entry, encode
from webcrawl.jobs.check.whole import check_job
from webcrawl.jobs.inspect.job_view import ask
from webcrawl.jobs.inspect.overview import overview
from webcrawl.jobs.inspect.seeds_file import export
from webcrawl.storage.record_log import HEADER_SIZE, RecordLog, read_records

SHARDS = ("00", "01", "02")


class Saved(msgspec.Struct):
    end: int
    finished: list[str]


class Links:
    """A part: the URLs that were submitted to a shard, in a log, and those of them that were
    finished, which are told by the snapshot alone."""

    def __init__(self, shard):
        data = shard.saved("links")
        saved = Saved(HEADER_SIZE, [])
        if data is not None:
            saved = msgspec.msgpack.decode(data, type=Saved)
        self.finished = saved.finished
        shard.path.mkdir(parents=True, exist_ok=True)
        self.path = shard.path / "links.log"
        records = [*read_records(self.path, end=saved.end)] if data is not None else []
        if self.path.exists():
            records += read_records(self.path, start=saved.end)
        self.known = [record.decode() for _, record in records]
        end = records[-1][0] if records else HEADER_SIZE
        self.log = RecordLog.open(self.path, size=end)
        shard.attach("links", self)

    def submit(self, url):
        self.log.append(url.encode())
        self.known.append(url)

    def snapshot(self):
        return msgspec.msgpack.encode(Saved(self.log.size, self.finished))

    def written(self):
        return [self.path, self.path.parent]

    def forget(self):
        pass


class Seeds:
    """A part of the job: how many seeds were submitted."""

    def __init__(self, job):
        self.count = int(job.own.saved("seeds") or 0)
        job.own.attach("seeds", self)

    def snapshot(self):
        return str(self.count).encode()

    def written(self):
        return []

    def forget(self):
        pass


class Crawl(NamedTuple):
    job: Job
    seeds: Seeds
    links: dict[str, Links]

    @classmethod
    def begin(cls, path):
        job = Job(path=path)
        job.open()
        return cls(job, Seeds(job), {name: Links(job.shard(name)) for name in SHARDS})

    def submit(self, url):
        self.links[shard_of(url)].submit(url)

    def work(self, rng):
        """Submit a seed, or fetch a page, whose links go to other shards, and finish it."""
        shard = self.links[rng.choice(SHARDS)]
        unfinished = sorted(set(shard.known).difference(shard.finished))
        if rng.random() < 0.2 or not unfinished:
            self.submit(f"{self.seeds.count}")
            self.seeds.count += 1
            return
        url = rng.choice(unfinished)
        for link in links_of(url):
            self.submit(link)
        shard.finished.append(url)

    def checkpoint(self):
        self.job.publish(self.job.prepare({}))
        self.job.forget()

    def close(self):
        for links in self.links.values():
            links.log.close()
        self.job.close()

    def lost(self):
        """Links of finished pages, and submitted seeds, that no shard knows."""
        urls = [str(seed) for seed in range(self.seeds.count)]
        urls += [
            link
            for links in self.links.values()
            for url in links.finished
            for link in links_of(url)
        ]
        return [url for url in urls if url not in self.links[shard_of(url)].known]


def links_of(url):
    return [f"{url}.{number}" for number in range(2)]


def shard_of(url):
    return SHARDS[zlib.crc32(url.encode()) % len(SHARDS)]


def lost_in(path):
    """What the crawl lacks that goes on in *path*, also after its next checkpoint."""
    crawl = Crawl.begin(path)
    lost = crawl.lost()
    crawl.checkpoint()
    crawl.close()
    crawl = Crawl.begin(path)
    lost += crawl.lost()
    crawl.close()
    return lost


def work(path, seed, *, steps, checkpoints=1):
    crawl, rng = Crawl.begin(path), random.Random(seed)
    for _ in range(checkpoints):
        for _ in range(steps):
            crawl.work(rng)
        crawl.checkpoint()
    crawl.close()


def crawl_on(path):
    """What the lines are counted of."""
    work(path, 4, steps=6, checkpoints=2)


def opened(path, boot="here"):
    with mock.patch("webcrawl.crawl.job.jobdir.boot_id", return_value=boot):
        job = Job(path=path)
    job.open()
    return closing(job)


@pytest.fixture
def begun(jobdir):
    """A crawl with a checkpoint in it."""
    work(jobdir, 3, steps=20)
    return jobdir


def test_a_shard_is_behind_when_it_comes_from_another_boot(jobdir, tmp_path):
    def checkpoint(path, boot):
        with opened(path, boot) as job:
            Links(job.shard("00")).log.close()
            job.publish(job.prepare({}))

    checkpoint(jobdir, "here")
    checkpoint(tmp_path / "other", "there")
    with opened(jobdir, "here") as job:
        assert not job.is_behind
    (tmp_path / "other/shards/00").rename(jobdir / "shards/01")
    with opened(jobdir, "here") as job:
        assert job.shards == ["00", "01"]
        assert job.is_behind
        assert [job.shard(name).rebooted for name in job.shards] == [False, True]
        assert (job.own.resumed, job.own.rebooted) == (True, False)


def test_a_shard_that_nothing_was_attached_to_is_left_as_it_is(begun):
    before = contents(begun / "shards/01")
    with opened(begun) as job:
        Links(job.shard("00")).log.close()
        job.publish(job.prepare({}))
    assert contents(begun / "shards/01") == before


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


@pytest.mark.parametrize("place", ["00", "01"])
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


def test_dying_between_any_two_lines_loses_no_link(begun, tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    left = die_between_lines("tests.crawl.job.test_jobdir_shards:crawl_on", begun, tmp_path / "out")
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    for path in left:
        assert lost_in(path) == []
