"""``kill -9`` at random moments: at the end nothing is missing, and no host was hurried."""

from __future__ import annotations

import random
import time

import pytest
import warc_checks
from crawling import USER_AGENT, damage_in, kill, simulated, start_crawl, unstored_documents
from reading_report import crawl_of, report_of

from webcrawl.simweb import fetchable_urls

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
    settings = {"POLITENESS_MIN_DELAY": MIN_DELAY, "CHECKPOINT_INTERVAL_SECS": 0.7}
    with simulated(tmp_path, **size) as web:
        for _ in range(kills):
            crawl = start_crawl(web.command(**settings))
            time.sleep(rng.uniform(0.0, 1.5))
            kill(crawl)
            assert damage_in(web.job) == []
            assert report_of(web.job).head[0].startswith("cut off, can be resumed; ")
        assert "finished: nothing is left to fetch" in web.crawl(**settings)
        assert damage_in(web.job) == []
        files = sorted((web.job / "warc").glob("*.warc.gz"))
        assert unstored_documents(web.world, files) == []
        assert warc_checks.dangling(files) == []
        asked = web.judge(min_delay=MIN_DELAY)
    fetchable = fetchable_urls(web.world, USER_AGENT)
    found = crawl_of(web.job)
    assert found.state == "finished: nothing is left to fetch"
    assert found.log.pages >= len(fetchable)
    again = sum(count - 1 for url, count in asked.items() if url in fetchable)
    print(f"\n{kills} kills: {len(asked)} URLs asked for, {again} documents fetched again")
    # At most what was under way at a kill is fetched again.
    assert again <= kills * 200
    assert not list((web.job / "warc").glob("*.open"))
    for path in files[:3] + files[-1:]:
        assert warc_checks.complaints(path) == {}
