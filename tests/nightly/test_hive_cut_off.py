"""A drone whose machine is cut off from the network, by the servers' record."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from bisect import bisect

import pytest
from crawling import impolite, simulated
from hive_crawl import MIN_DELAY, SHARDS, HiveCrawl
from namespaces import Cables
from redis_server import RedisServer

from webcrawl.crawl.shard.shards import Shards

#: Longer than a lease, and than a lease and what the kernel repeats after it.
CUTS = (13, 19, 25)


class Owners:
    """Which drone had which shard when: a thread that looks at Redis' table again and again."""

    def __init__(self, redis):
        self._redis = redis
        self._since = {}
        self._shards = Shards(number=12)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join()

    def _look(self):
        with self._redis.client() as client:
            while not self._is_over.wait(0.02):
                for shard, owner in client.hgetall(SHARDS).items():
                    token, _, drone = owner.partition(" ")
                    if drone:  # else it was released
                        # A token is the time of its claim.
                        self._since.setdefault(int(shard), {})[int(token) / 1e6] = drone

    def of(self, hit):
        """The name of the drone that had the shard of *hit*'s host then; "" if none had."""
        since = self._since.get(self._shards.number_of(hit.host), {})
        times = sorted(since)
        place = bisect(times, hit.start)
        return since[times[place - 1]] if place else ""


@pytest.mark.timeout(900)
def test_a_drone_that_was_cut_off_contacts_no_host_that_it_has_lost(tmp_path, monkeypatch):
    # Forked, it would be in the network of the first test.
    monkeypatch.setattr("webcrawl.simweb.process.Popen", subprocess.Popen)
    web_of = {"hosts": 300, "mean_pages": 60, "max_pages": 120, "ftp": 0.1, "gopher": 0.1}
    store, redis = tmp_path / "store", RedisServer(tmp_path / "redis", port=True)
    store.mkdir()
    given = {"HIVE_LEASE_SECS": 10, "DOWNLOAD_TIMEOUT": 60, "POLITENESS_MAX_DELAY": 0.2}
    with (
        Cables(2) as cables,
        redis,
        simulated(tmp_path, **web_of) as web,
        HiveCrawl(
            web, tmp_path, rng=random.Random(1), redis=redis, REDIS_URL=redis.tcp_url, **given
        ) as hive,
        Owners(redis) as owners,
    ):
        ways = [tmp_path / f"store-{machine}" for machine in range(2)]
        for machine, way in enumerate(ways):
            way.symlink_to(store)
            hive.add(
                within=cables.within(machine), HIVE_STORE=way, GOPHER_PORTS=web.world.gopher_port
            )
        hive.wait_for_entry(*hive.drones)
        hive.wait_for(0.1)
        for secs in CUTS:
            time.sleep(20)
            print(hive.share, [len(hive.shards_of(d)) for d in hive.drones])
            cables.pull(0)
            ways[0].rename(tmp_path / "away")
            ways[0].touch()
            time.sleep(secs)
            print(hive.share, [len(hive.shards_of(d)) for d in hive.drones])
            ways[0].unlink()
            (tmp_path / "away").rename(ways[0])
            cables.plug(0)
        time.sleep(20)
        print(hive.share, hive.is_over)
        names = {cables.address(machine): drone.name for machine, drone in enumerate(hive.drones)}
    hits = web.hits()
    strangers = [hit for hit in hits if owners.of(hit) != names[hit.client]]
    print(
        len(hits),
        "strangers",
        len(strangers),
        [(h.host, h.client, h.start, owners.of(h)) for h in strangers[:10]],
    )
    from collections import Counter

    print(
        Counter(h.origin.split(":")[0] for h in strangers),
        Counter(h.origin.split(":")[0] for h in hits),
    )
    found = impolite(hits, min_delay=MIN_DELAY)
    print(len(found), found[:10])
    assert strangers == []
    assert found == []
