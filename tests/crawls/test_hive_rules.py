"""What belongs to a hive as a whole: its settings, commands and purges, and what is said of it."""

import re

from crawling import USER_AGENT, simulated
from hive_crawl import HiveCrawl
from web_truth import fetchable_urls


def test_a_drone_that_joins_late_says_what_it_did_and_what_the_hive_did(tmp_path):
    with (
        simulated(tmp_path, hosts=20, mean_pages=10.0, max_pages=20) as web,
        HiveCrawl(web, tmp_path) as hive,
    ):
        (first,) = hive.join()
        hive.wait_for(0.9)
        (late,) = hive.join()
        hive.end()
        hits = web.hits()
        pages = len(fetchable_urls(web.world, USER_AGENT))
        sums = [0, 0, 0]
        for drone in (first, late):
            said = " ".join(drone.said.split())
            assert f"the hive {pages} pages, " in said
            assert "hosts 0 contacted" not in said
            own = re.search(r"this drone (\d+) pages?, (\d+) requests?.*; (\d+) hosts? con", said)
            sums = [former + int(number) for former, number in zip(sums, own.groups(), strict=True)]
        # A drone that was held up repeats pages.
        assert [found >= least for found, least in zip(sums, (pages, pages, 20), strict=True)] == [
            True
        ] * 3
        assert sums[1] <= len(hits)
