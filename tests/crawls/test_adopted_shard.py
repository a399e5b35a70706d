"""The shard of a killed crawl is published, and two crawls go on with it, each in its own way."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

from crawling import (
    USER_AGENT,
    damage_in,
    kill,
    pages_asked_for,
    run_crawl,
    simulated,
    start_crawl,
    wait_until,
)
from published_shard import newest_of, objects_in, store_of
from records_rig import opened
from simweb_client import whole_log

from webcrawl.crawl.job.jobdir import read_checkpoint
from webcrawl.simweb import allowed_urls
from webcrawl.storage.record_log import CorruptRecordError


def finished_in(path):
    """URLs that were finished when the live checkpoint was made; 0 if it goes just now."""
    try:
        return read_checkpoint(path).own.facts["finished"]
    except (AttributeError, CorruptRecordError):
        return 0


def test_an_adopted_shard_is_crawled_to_its_end_and_no_object_changes(tmp_path, monkeypatch):
    settings = {"POLITENESS_MIN_DELAY": 0.1, "POLITENESS_MAX_DELAY": 1}
    settings |= {"CHECKPOINT_INTERVAL_SECS": 0.5, "CHECKPOINTS_KEPT": 0}
    store = store_of("links", tmp_path, monkeypatch)
    other = tmp_path / "other"
    with simulated(tmp_path, hosts=30, mean_pages=6.0, max_pages=20) as web:
        crawl = start_crawl(web.command(**settings))
        wait_until(lambda: finished_in(web.job) > 20)
        kill(crawl)
        directory = web.job / "shards/00"
        with ThreadPoolExecutor(max_workers=1) as executor:
            records = opened(directory / "hosts", executor)
            store.publish(
                directory,
                shard=0,
                token=1,
                drone="d1",
                released=False,
                hosts=records.database,
            )
            records.close()
        newest = newest_of(store)
        store.fetch(newest, other / "shards/00", token=2, before=0)
        assert any(path.stat().st_nlink > 2 for path in other.rglob("*.log"))
        for path in web.job.iterdir():
            if path.is_file():
                shutil.copy(path, other)
        assert damage_in(other) == []
        saved = objects_in(tmp_path)
        before = {*pages_asked_for(hits_of(web))}
        for job in (other, web.job):
            done = run_crawl(web.command(job, **settings))
            assert done.returncode == 0, done.stdout
            assert "finished: nothing is left to fetch" in done.stdout
            assert objects_in(tmp_path) == saved
            assert damage_in(job) == []
            after = {*pages_asked_for(hits_of(web))}
            assert after == allowed_urls(web.world, USER_AGENT)
    assert before < after


def hits_of(web):
    """What was asked for until now."""
    return [hit for hit in whole_log(web.web) if USER_AGENT in hit.agent]
