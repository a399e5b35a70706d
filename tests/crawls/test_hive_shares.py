"""Drones of different speed share the hosts by what waits, by the server's record."""

from crawling import simulated, stats_of
from hive_crawl import HiveCrawl


def test_hosts_of_a_slow_drone_move_and_each_page_is_fetched_once(tmp_path):
    with (
        simulated(tmp_path, hosts=60, mean_pages=10.0, max_pages=20) as web,
        HiveCrawl(web, tmp_path) as hive,
    ):
        slow = hive.add(CONTACTS_MAX=6)  # half of that, as there are two drones
        hive.add()
        hive.end()
        hive.judge(reads_warc=False)
        assert stats_of(slow.job)["hive/shards/handed_over"] > 0
