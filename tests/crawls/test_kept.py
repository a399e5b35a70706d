"""A crawl that is killed is taken up again from the oldest of the checkpoints it has kept."""

from __future__ import annotations

import shutil
import time

from crawling import (
    USER_AGENT,
    damage_in,
    impolite,
    kill,
    pages_asked_for,
    run_crawl,
    simulated,
    start_crawl,
    wait_until,
)

from webcrawl.crawl.job.jobdir import read_checkpoint
from webcrawl.simweb import allowed_urls
from webcrawl.storage.record_log import CorruptRecordError

MIN_DELAY = 0.2


def finished_in(path):
    """URLs that were finished when the checkpoint was made; 0 if it goes just now."""
    try:
        return read_checkpoint(path).own.facts["finished"]
    except (AttributeError, CorruptRecordError):
        return 0


def test_a_copy_of_the_oldest_kept_checkpoint_is_crawled_to_its_end(tmp_path):
    settings = {
        "POLITENESS_MIN_DELAY": MIN_DELAY,
        # A host that was being contacted then rests as if that had lasted until now.
        "POLITENESS_MAX_DELAY": 1,
        "CHECKPOINT_INTERVAL_SECS": 0.5,
        "CHECKPOINTS_KEPT_INTERVAL_SECS": 0,
    }
    copy = tmp_path / "copy"
    with simulated(tmp_path, hosts=80, mean_pages=6.0, max_pages=30) as web:

        def kept():
            return sorted((web.job / "checkpoints").glob("??????"))

        crawl = start_crawl(web.command(**settings))
        wait_until(lambda: len(kept()) == 3 and finished_in(kept()[0]) > 20)
        kill(crawl)
        killed_at = time.time()
        oldest = kept()[0]
        made_at = oldest.stat().st_mtime
        refused = run_crawl(web.command(oldest, **settings))
        assert refused.returncode == 2
        assert f"cp -r {oldest} DIR" in refused.stdout
        shutil.copytree(oldest, copy)
        again = run_crawl(web.command(copy, **settings))
        assert again.returncode == 0, again.stdout
        assert "finished: nothing is left to fetch" in again.stdout
        record = web.hits()
    before = [hit for hit in record if hit.end < made_at]
    after = [hit for hit in record if hit.start >= killed_at]
    finished, allowed = set(pages_asked_for(before)), allowed_urls(web.world, USER_AGENT)
    assert finished
    assert finished | set(pages_asked_for(after)) == allowed
    assert len(set(pages_asked_for(after))) < len(allowed)
    assert impolite(record, min_delay=MIN_DELAY) == []
    for jobdir in (web.job, copy, *kept()):
        assert damage_in(jobdir) == []
