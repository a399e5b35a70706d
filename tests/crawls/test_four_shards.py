"""A crawl over four shards in one process, killed and resumed, judged by the server's record."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest
from crawling import (
    USER_AGENT,
    access_log,
    damage_in,
    impolite,
    kill,
    pages_asked_for,
    run_crawl,
    simulated,
    start_crawl,
    unstored_documents,
    wait_until,
)
from four_shards import NAMES
from xxhash import xxh3_64_intdigest

from webcrawl.crawl.job.state_directory import shard_path
from webcrawl.simweb import allowed_urls, fetchable_urls
from webcrawl.urls import host_of

MIN_DELAY = 0.2
MOVED = "02"
SETTINGS = {
    "SCHEDULER": "four_shards.FourShardScheduler",
    "POLITENESS_MIN_DELAY": MIN_DELAY,
    # A contact cut off by a kill counts as lasting until the restart, here that of another job.
    "POLITENESS_MAX_DELAY": 1.0,
    "CHECKPOINT_INTERVAL_SECS": 0.7,
}


@pytest.fixture(autouse=True)
def _four_shards(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent / "rigs"))


def shard_of(url):
    """The hosts of the simulated web are registered domains."""
    return NAMES[xxh3_64_intdigest(host_of(url).encode()) % len(NAMES)]


def web_of(tmp_path, *, hosts=30, max_pages=15):
    values = {"mean_pages": 8.0, "redirects": 0.1, "crawl_delays": 0.0}
    return simulated(tmp_path, hosts=hosts, max_pages=max_pages, **values)


def test_shards_that_leave_and_come_back_lose_nothing(tmp_path):
    settings = SETTINGS | {"SCHEDULER": "moving_shards.MovingShardsScheduler"}
    with web_of(tmp_path) as web:
        told = web.crawl(**settings)
        assert "finished: nothing is left to fetch" in told
        assert damage_in(web.job) == []
        assert unstored_documents(web.world, (web.job / "warc").glob("*.warc.gz")) == []
        asked = web.judge(min_delay=MIN_DELAY)
    assert {shard_of(url) for url in asked} == {*NAMES}
    stats = json.loads((web.job / "stats.json").read_bytes())
    assert stats["moves/published"] >= 8
    assert stats["moves/requests"] > 0
    assert "scheduler/lost" not in stats


def test_a_shard_that_is_moved_to_another_job_goes_on_there(tmp_path):
    new = tmp_path / "new"
    with web_of(tmp_path) as web:
        fetchable = {url for url in fetchable_urls(web.world, USER_AGENT) if shard_of(url) == MOVED}
        crawl = start_crawl(web.command(**SETTINGS))
        wait_until(lambda: len(fetchable.intersection(pages_asked_for(access_log(web.log)))) > 10)
        kill(crawl)
        moved_at = time.time()
        (new / "shards").mkdir(parents=True)
        shutil.move(shard_path(web.job, MOVED), shard_path(new, MOVED))
        # Neither job knows when the other one has contacted the hosts that both find.
        time.sleep(MIN_DELAY)
        assert run_crawl(web.command(new, **SETTINGS)).returncode == 0
        finished_at = time.time()
        time.sleep(MIN_DELAY)
        web.crawl(**SETTINGS)  # what it still has of the other shards, and of the moved one anew
        assert damage_in(web.job) == damage_in(new) == []
        record = web.hits()
    assert set(pages_asked_for(record)) == allowed_urls(web.world, USER_AGENT)
    assert impolite(record, min_delay=MIN_DELAY) == []
    before = [hit for hit in record if hit.start < moved_at]
    after = [hit for hit in record if moved_at < hit.start < finished_at]
    done, gone_on = (fetchable.intersection(pages_asked_for(hits)) for hits in (before, after))
    assert len(done) > 10
    assert gone_on - done
    # Of each host at most what was under way is fetched again.
    assert len(done & gone_on) <= len({host_of(url) for url in done})
