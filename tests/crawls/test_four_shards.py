"""A crawl over four shards in one process, killed and resumed, judged by the server's record."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
from crawling import (
    USER_AGENT,
    access_log,
    crawl_command,
    damage_in,
    impolite,
    pages_asked_for,
    run_crawl,
    start_crawl,
    unstored_documents,
)
from four_shards import NAMES

from webcrawl.crawl.state_directory import shard_path
from webcrawl.seen.fingerprint import fingerprint
from webcrawl.simweb import allowed_urls, fetchable_urls, preset, start_in_process
from webcrawl.urls import host_of

MIN_DELAY = 0.2
MOVED = "02"


@pytest.fixture(autouse=True)
def _four_shards(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent / "rigs"))


def world_of(*, hosts, max_pages):
    return preset(
        "clean",
        http_port=0,
        https_port=0,
        hosts=hosts,
        mean_pages=8.0,
        max_pages=max_pages,
        redirects=0.1,
        crawl_delays=0.0,
    )


def command_of(web, tmp_path, job="job", **settings):
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("\n".join(web.world.seeds()) + "\n")
    options = {"POLITENESS_MIN_DELAY": MIN_DELAY, "CHECKPOINT_INTERVAL_SECS": 0.7, **settings}
    scheduler = "four_shards.FourShardScheduler"
    return crawl_command(web, seeds, tmp_path / job, SCHEDULER=scheduler, **options)


def kill(crawl):
    assert crawl.poll() is None, "the crawl ended by itself"
    crawl.kill()
    crawl.stderr.close()
    crawl.wait()


def finish(command):
    done = run_crawl(command, timeout=200)
    assert done.returncode == 0, done.stdout
    assert "finished: nothing is left to fetch" in done.stdout


def shard_of(url):
    """The hosts of the simulated web are registered domains."""
    return NAMES[fingerprint(host_of(url)) % len(NAMES)]


def judged(web, log, job, *, kills):
    """The crawl in *job* has found all that there is, and hurried no host."""
    files = sorted((job / "warc").glob("*.warc.gz"))
    unstored = unstored_documents(web.world, files)
    allowed = allowed_urls(web.world, USER_AGENT)
    fetchable = fetchable_urls(web.world, USER_AGENT)
    web.stop()
    record = [hit for hit in access_log(log) if "webcrawl" in hit.agent]
    asked = Counter(pages_asked_for(record))
    assert set(asked) == allowed
    assert unstored == []
    assert impolite(record, min_delay=MIN_DELAY) == []
    # All shards were worked, and at most what was under way at a kill is fetched again.
    assert {shard_of(url) for url in asked} == {*NAMES}
    assert sum(count - 1 for url, count in asked.items() if url in fetchable) <= kills * 200


def crawl_through_kills(tmp_path, *, hosts, max_pages, kills, longest):
    rng = random.Random(kills)
    log, job = tmp_path / "access.log", tmp_path / "job"
    with start_in_process(world_of(hosts=hosts, max_pages=max_pages), log_path=log) as web:
        command = command_of(web, tmp_path)
        for _ in range(kills):
            crawl = start_crawl(command)
            time.sleep(rng.uniform(0.0, longest))
            kill(crawl)
            assert damage_in(job) == []
        finish(command)
        assert damage_in(job) == []
        judged(web, log, job, kills=kills)


def test_a_crawl_over_four_shards_that_is_killed_loses_nothing(tmp_path):
    crawl_through_kills(tmp_path, hosts=40, max_pages=20, kills=2, longest=1.2)


@pytest.mark.long
def test_a_crawl_over_four_shards_that_is_killed_often_loses_nothing(tmp_path):
    crawl_through_kills(tmp_path, hosts=150, max_pages=80, kills=15, longest=1.5)


def test_a_shard_that_is_moved_to_another_job_goes_on_there(tmp_path):
    log, old, new = tmp_path / "access.log", tmp_path / "old", tmp_path / "new"
    with start_in_process(world_of(hosts=40, max_pages=20), log_path=log) as web:
        first, second = (command_of(web, tmp_path, job.name) for job in (old, new))
        crawl = start_crawl(first)
        time.sleep(1.5)
        kill(crawl)
        moved_at = time.time()
        (new / "shards").mkdir(parents=True)
        shutil.move(shard_path(old, MOVED), shard_path(new, MOVED))
        finish(second)
        finished_at = time.time()
        finish(first)  # what it still has of the other shards, and of the moved one anew
        assert damage_in(old) == damage_in(new) == []
        allowed = allowed_urls(web.world, USER_AGENT)
        fetchable = fetchable_urls(web.world, USER_AGENT)
        web.stop()
    record = [hit for hit in access_log(log) if "webcrawl" in hit.agent]
    assert set(pages_asked_for(record)) == allowed
    assert impolite(record, min_delay=MIN_DELAY) == []
    before = [hit for hit in record if hit.start < moved_at]
    after = [hit for hit in record if moved_at < hit.start < finished_at]
    done, gone_on = (
        {url for url in pages_asked_for(hits) if shard_of(url) == MOVED and url in fetchable}
        for hits in (before, after)
    )
    assert len(done) > 10
    assert gone_on - done
    # Of each host at most what was under way is fetched again.
    assert len(done & gone_on) <= len({host_of(url) for url in done})
