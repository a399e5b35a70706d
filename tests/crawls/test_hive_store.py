"""A hive whose checkpoint store is away for a while crawls on, and publishes later."""

from __future__ import annotations

import random
import shutil

import pytest
from crawling import simulated, stats_of, wait_until
from hive_crawl import HiveCrawl

from webcrawl.hive.store import CheckpointStore

SHARDS = 12


@pytest.mark.long
def test_a_store_that_cannot_be_reached_for_a_while_costs_nothing(tmp_path):
    store, away = tmp_path / "store", tmp_path / "away"
    with (
        simulated(tmp_path, hosts=30, mean_pages=6.0, max_pages=15) as web,
        HiveCrawl(web, tmp_path, rng=random.Random(2), HIVE_SHARDS=SHARDS) as hive,
    ):
        hive.join(2)
        hive.wait_for(0.2)
        store.rename(away)
        wait_until(lambda: all("not in HIVE_STORE" in drone.said for drone in hive.living))
        # A publication that was under way may have made it again.
        shutil.rmtree(store, ignore_errors=True)
        away.rename(store)
        assert not hive.is_over
        hive.end()
        assert hive.judge()
    for drone in hive.drones:
        assert stats_of(drone.job)["hive/publish/failed"] > 0
        assert f"HIVE_STORE {store} has no hive.json" in drone.said
    newest = [CheckpointStore(url=str(store)).newest(number) for number in range(SHARDS)]
    assert all(one is not None and one.released for one in newest)
