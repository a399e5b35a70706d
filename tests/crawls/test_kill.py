"""``kill -9`` at random moments: at the end nothing is missing, and no host was hurried."""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest
import warc_checks
from crawling import (
    USER_AGENT,
    access_log,
    clean_web,
    crawl_command,
    damage_in,
    impolite,
    pages_asked_for,
    run_crawl,
    start_crawl,
    unstored_documents,
)

from webcrawl.simweb import allowed_urls, fetchable_urls

MIN_DELAY = 0.4
# The crawl outlives the kills: the largest host takes max_pages * MIN_DELAY.
SMALL = {"hosts": 50, "mean_pages": 5.0, "max_pages": 16}
LARGE = {"hosts": 150, "mean_pages": 8.0, "max_pages": 80}


@pytest.mark.parametrize(
    ("kills", "size"),
    [(3, SMALL), pytest.param(20, LARGE, marks=pytest.mark.long)],
    ids=["3", "20"],
)
def test_a_crawl_killed_again_and_again_loses_nothing_and_stays_polite(tmp_path, kills, size):
    rng = random.Random(kills)
    log, job = tmp_path / "access.log", tmp_path / "job"
    with clean_web(tmp_path, **size) as (web, seeds):
        command = crawl_command(
            web, seeds, job, POLITENESS_MIN_DELAY=MIN_DELAY, CHECKPOINT_INTERVAL_SECS=0.7
        )
        for number in range(kills):
            crawl = start_crawl(command)
            time.sleep(rng.uniform(0.0, 1.5))
            assert crawl.poll() is None, f"the crawl ended by itself after {number} kills"
            crawl.kill()
            crawl.stderr.close()
            crawl.wait()
            assert damage_in(job) == []
        last = run_crawl(command, timeout=200)
        assert last.returncode == 0, last.stdout
        assert damage_in(job) == []
        assert "finished: nothing is left to fetch" in last.stdout
        allowed = allowed_urls(web.world, USER_AGENT)
        fetchable = fetchable_urls(web.world, USER_AGENT)
        files = sorted((job / "warc").glob("*.warc.gz"))
        unstored = unstored_documents(web.world, files)
        web.stop()
        record = [hit for hit in access_log(log) if "webcrawl" in hit.agent]
    asked = Counter(pages_asked_for(record))
    again = sum(count - 1 for url, count in asked.items() if url in fetchable)
    print(
        f"\n{kills} kills: {len(asked)} of {len(allowed)} URLs asked for, "
        f"{len(fetchable)} documents; {again} fetched again"
    )
    assert set(asked) == allowed
    assert unstored == []
    assert impolite(record, min_delay=MIN_DELAY) == []
    # At most what was under way at a kill is fetched again.
    assert again <= kills * 200
    assert not list((job / "warc").glob("*.open"))
    for path in files[:3] + files[-1:]:
        assert warc_checks.complaints(path) == {}
