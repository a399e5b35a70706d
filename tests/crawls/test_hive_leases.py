"""Hives whose drones are killed or held up and keep their shards, by the server's record."""

from __future__ import annotations

import random
import time

from crawling import USER_AGENT, is_robots, simulated, url_of_hit
from hive_crawl import HiveCrawl

from webcrawl.simweb import fetchable_urls


def test_a_killed_drone_that_resumes_its_directory_repeats_only_pages_in_process(tmp_path):
    given = {"HIVE_LEASE_SECS": 30, "CHECKPOINT_INTERVAL_SECS": 600}
    with (
        simulated(tmp_path, hosts=50, mean_pages=20, max_pages=40) as web,
        HiveCrawl(web, tmp_path, rng=random.Random(1), **given) as hive,
    ):
        killed, _ = hive.join(2)
        hive.wait_for(0.4)
        assert len(hive.shards_of(killed)) == 6
        hive.kill(killed)
        at = time.time()
        hive.start_again(killed)
        hive.end()
        hive.judge()
        times = [(url_of_hit(hit), hit.start) for hit in web.hits() if not is_robots(hit)]
        before = {url for url, start in times if start < at}
        again = {url for url, start in times if start > at} & before
        assert len(before) > 300
        # A page at most of each of its 25 hosts.
        assert len(again & fetchable_urls(web.world, USER_AGENT)) <= 25
