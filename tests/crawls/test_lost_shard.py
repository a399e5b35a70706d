"""A shard that is lost while requests of it are under way, by the server's record."""

import json

import pytest
from crawling import access_log, simulated, stats_of, url_of_hit
from hive_crawl import HiveCrawl

# Two shards are lost, each between the dispatch of a request and the first step of its download.
# Redis has not heard of it, so the drone claims the shard again.
LOSING = """
import asyncio
import json
import os
import time

from webcrawl.scheduler import MercatorScheduler

class LosingScheduler(MercatorScheduler):
    dispatched = 0

    def next_request(self):
        request = super().next_request()
        self.dispatched += request is not None
        if request is not None and self.dispatched in (20, 60):
            fetch = request.meta["fetch"]
            lost = [fetch.lease.shard.number]
            asyncio.get_running_loop().call_soon(self.drone._exchange.abandon, lost)
            with open(os.environ["LOST"], "a") as file:
                file.write(json.dumps([fetch.url, time.time()]) + "\\n")
        return request
"""


@pytest.mark.long
def test_a_request_whose_shard_is_lost_before_it_is_sent_is_cancelled(
    user_module, tmp_path, monkeypatch
):
    user_module("losing", LOSING)
    monkeypatch.setenv("LOST", str(tmp_path / "lost"))
    with (
        simulated(tmp_path, hosts=40, seed_share=1.0, mean_pages=3.0, max_pages=6) as web,
        HiveCrawl(web, tmp_path, SCHEDULER="losing.LosingScheduler") as hive,
    ):
        drone = hive.add()
        with hive.loss():
            hive.wait_for_entry(drone)
            hive.end()
        assert "AssertionError" not in drone.said
        assert not [name for name in stats_of(drone.job) if name.startswith("critical/")]
        lost = [*map(json.loads, (tmp_path / "lost").read_text().splitlines())]
        assert len(lost) == 2
        for url, lost_at in lost:
            asked_at = [hit.start for hit in access_log(web.log) if url_of_hit(hit) == url]
            assert not [at for at in asked_at if 0 <= at - lost_at < 0.2]
        hive.judge(reads_warc=False)
