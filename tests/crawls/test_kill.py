"""``kill -9`` at random moments: nothing is lost, counted twice or hurried; little is repeated."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from itertools import pairwise

import pytest
import warc_checks
from crawling import (
    USER_AGENT,
    access_log,
    damage_in,
    kill,
    pages_asked_for,
    simulated,
    stats_of,
    unstored_documents,
)
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
            crawl = web.start(**settings)
            time.sleep(rng.uniform(0.0, 1.5))
            kill(crawl)
            assert damage_in(web.job) == []
            assert report_of(web.job).head[0].startswith("cut off, can be resumed; ")
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
    pages = re.search(r"^ +pages  ([\d,]+),", said, re.MULTILINE)[1]
    assert found.pages == int(pages.replace(",", "")) == len(fetchable)
    contacts = len(access_log(web.log))
    assert contacts - kills * (200 + 64) <= stats_of(web.job)["crawl/contacts"] <= contacts
    again = sum(count - 1 for url, count in asked.items() if url in fetchable)
    print(f"\n{kills} kills: {len(asked)} URLs asked for, {again} documents fetched again")
    # At most what was under way at a kill is fetched again.
    assert again <= kills * 200
    assert not list((web.job / "warc").glob("*.open"))
    for path in files[:3] + files[-1:]:
        assert warc_checks.complaints(path) == {}


WORKERS = 4
# Each page takes its time, one after the other, in the last of the modules.
SLOW = """
import asyncio

class Slow:
    def __init__(self):
        self.free = asyncio.Lock()

    async def process_item(self, page):
        async with self.free:
            await asyncio.sleep(0.02)
        return page
"""


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.long)])
def test_a_kill_repeats_what_was_in_process_which_is_bounded(tmp_path, monkeypatch, kills):
    """Killed every three seconds it goes on all the same."""
    (tmp_path / "slow.py").write_text(SLOW)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    settings = {
        "CONCURRENT_REQUESTS": WORKERS,
        "ITEM_PIPELINES": '{"slow.Slow": 900}',
        "POLITENESS_DELAY_FACTOR": 0,
        "POLITENESS_MIN_DELAY": 0.05,
        "POLITENESS_MAX_DELAY": 0.1,
    }
    pages = 150 * (kills + 1)
    with simulated(tmp_path, hosts=pages // 5, mean_pages=8.0, max_pages=16) as web:
        done = [0]
        for _ in range(kills):
            crawl = web.start(**settings)
            time.sleep(3)
            kill(crawl)
            done.append(crawl_of(web.job).pages)
        web.web.stop()
    print(f"\npages after each kill: {done}")
    assert all(one < other for one, other in pairwise(done))
    fetched = Counter(pages_asked_for(one for one in access_log(web.log) if one.status == 200))
    again = fetched.total() - len(fetched)
    print(f"{kills} kills: {len(fetched)} pages, {again} of them fetched again")
    assert again <= kills * 3 * WORKERS
