"""A hive on this machine as its files tell: all drones, and of each shard the newest holder."""

import json
import shutil

import pytest
import warm
from frontier_rig import entry
from stored_job import Stored
from text_tables import each

from webcrawl.crawl.job.jobdir import Job
from webcrawl.hive.launch.job_directories import is_crawl, jobdirs_of
from webcrawl.hive.store.checkpoint_files import LocalRecord
from webcrawl.jobs.check.whole import check_job


def drone(path, clock, *urls, token, ended=(), shard="00", leases=0):
    """The directory of a drone with the *shard*, in which *urls* wait, held under *token*; so many
    are leased. As in a hive, all hosts of it rested until some time long ago."""
    job = Stored(path, clock, shard=shard, unlogged_until=2.0)
    job.rig.push(*urls)
    for _ in range(leases):
        job.rig.next()
    for one in ended:
        job.end(one, "http_200")
    job.publish(politeness_key="host")
    LocalRecord(token=token).write(path / "shards" / shard)
    return path


@pytest.fixture
def hive(tmp_path, clock):
    """A hive whose shard 00 went from drone 0 to drone 1."""
    path = tmp_path / "hive"
    drone(path / "drones/1", clock, entry("a.test", 1), token=7, ended=[entry("b.test", 9)])
    drone(path / "drones/0", clock, *(entry("a.test", number) for number in range(5)), token=3)
    return path


def shown(*arguments):
    done = warm.scrapy(*map(str, arguments))
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_the_newest_copy_of_a_shard_counts(hive):
    assert shown("frontier", "--json", hive)["waiting"] == 1
    assert shown("frontier", "--json", "-s", f"JOBDIR={hive}")["waiting"] == 1
    assert [shown("why", "--json", hive, f"http://a.test/{n}")["state"] for n in (1, 4)] == [
        "waiting",
        "unknown",
    ]
    told = shown("why", "--json", hive, "http://b.test/9")
    assert [one["outcome"] for one in told["outcomes"]] == ["http_200"]


def test_a_host_is_shown_from_its_own_shard(hive, clock):
    drone(hive / "drones/2", clock, entry("c.test"), token=1, shard="01", leases=1)
    told = [shown("why", "--json", hive, f"http://{host}.test/0")["host"] for host in "ac"]
    assert [host["state"] for host in told] == ["ready", "in process"]


def test_a_check_of_a_hive_checks_each_drone_and_no_lost_shard(hive):
    (lost,) = (hive / "drones/0/shards/00").glob("snapshot-*")
    lost.write_bytes(b"damaged")
    reports = shown("job", "check", "--json", hive)
    assert [report["damage_count"] for report in reports] == [0, 0]
    assert "another drone has the shard" in str(reports[0]["notes"])
    (kept,) = (hive / "drones/1/shards/00").glob("snapshot-*")
    kept.write_bytes(b"damaged")
    done = warm.scrapy("job", "check", str(hive))
    assert done.returncode == 1
    assert done.stdout.count("DAMAGED") == 1


def test_a_shard_that_moved_to_another_machine_is_skipped(hive):
    alone = hive.parent / "alone"
    shutil.move(hive / "drones/0", alone)
    assert shown("frontier", "--json", alone)["waiting"] == 5
    # It was lost before the last checkpoint, which does not name it.
    job = Job(path=alone, only=[])
    job.open()
    job.publish(job.prepare({}))
    job.close()
    notes = check_job(alone, warc=False).notes
    assert "another drone has the shard" in [one.what for one in notes]


@each("place", "", "drones/0")
def test_a_hive_takes_no_retry(hive, place):
    done = warm.scrapy("frontier", str(hive / place), "--retry", "timeout")
    assert done.returncode == 2
    assert f"{hive / place} belongs to a hive" in done.stderr
    assert done.stderr.count("\n") == 1
    assert {path.name for path in hive.iterdir()} == {"drones"}


def test_the_first_argument_is_the_job_up_to_two_dashes(hive, tmp_path, clock):
    assert is_crawl(hive)
    assert [path.name for path in jobdirs_of(hive)] == ["0", "1"]
    assert not is_crawl(tmp_path)
    other = drone(tmp_path / "other", clock, entry("c.test"), token=0)
    jobdir = ["-s", f"JOBDIR={other}"]
    assert shown("frontier", "--json", *jobdir)["waiting"] == 1
    assert shown("frontier", "--json", hive, *jobdir)["as_of"]["jobdir"] == str(hive)
    told = shown("why", "--json", *jobdir, "--", hive)  # as a URL
    assert (told["url"], told["as_of"]["jobdir"]) == (str(hive), str(other))
    assert shown("why", "--json", *jobdir, "--", "http://c.test/1")["as_of"]["jobdir"] == str(other)
