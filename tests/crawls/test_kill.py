"""``kill -9`` of real processes at random moments, for what seeds (tests/sim) cannot show."""

import random
import re
import time

import warc_checks
from crawling import (
    USER_AGENT,
    access_log,
    damage_in,
    kill,
    simulated,
    unstored_documents,
)
from reading_report import crawl_of, report_of
from web_truth import fetchable_urls

MIN_DELAY = 0.4
# The crawl outlives the kills: the largest host takes max_pages * MIN_DELAY.
SIZE = {"hosts": 30, "mean_pages": 5.0, "max_pages": 16}
KILLS = 3


def test_a_crawl_killed_again_and_again_loses_nothing_and_stays_polite(tmp_path):
    rng = random.Random(KILLS)
    settings = {"POLITENESS_MIN_DELAY": MIN_DELAY, "CHECKPOINT_INTERVAL_SECS": 0.7}
    with simulated(tmp_path, **SIZE) as web:
        for _ in range(KILLS):
            crawl = web.start(**settings)
            time.sleep(rng.uniform(0.0, 1.5))
            kill(crawl)
            assert damage_in(web.job) == []
            assert report_of(web.job).head[0].startswith("killed (can be resumed)")
        said = web.crawl(**settings)
        assert "finished: nothing is left to fetch" in said
        assert damage_in(web.job) == []
        files = sorted((web.job / "warc").glob("*.warc.gz"))
        assert unstored_documents(web.world, files) == []
        assert warc_checks.dangling(files) == []
        asked = web.judge(min_delay=MIN_DELAY)
    fetchable = fetchable_urls(web.world, USER_AGENT)
    found = crawl_of(web.job)
    assert found.state == "finished: nothing is left to fetch"
    # Each page counts once, in the report and in the summary. Of contacts are missing at most those
    # that were under way at a kill, and the last 64 of the done log.
    pages = re.search(r"^ +pages  ([\d,]+) ", said, re.MULTILINE)[1]
    assert found.results.pages == int(pages.replace(",", "")) == len(fetchable)
    contacts = len(access_log(web.log))
    assert contacts - KILLS * (200 + 64) <= web.stats["crawl/contacts"] <= contacts
    again = sum(count - 1 for url, count in asked.items() if url in fetchable)
    # At most what was under way at a kill is fetched again.
    assert again <= KILLS * 200
    assert not list((web.job / "warc").glob("*.open"))
    for path in files[:3] + files[-1:]:
        assert warc_checks.complaints(path) == {}
