"""A drone whose machine is cut off from the network for a while, by the servers' record."""

import subprocess
import threading
import time
from bisect import bisect
from contextlib import contextmanager

import pytest
from crawling import impolite, simulated, wait_until
from hive_crawl import SHARDS, HiveCrawl
from namespaces import Cables
from patience import SLOWNESS
from redis_server import RedisServer

from webcrawl.crawl.shard.shards import Shards

#: Ways to cut a machine off, and leases for which. Others have its shards after one lease or two.
CUTS = ((Cables.pulled, 1.3), (Cables.lossy, 1.9), (Cables.pulled, 2.5), (Cables.lossy, 1.3))
MIN_DELAY = 0.5
WEB = {"hosts": 200, "mean_pages": 400, "max_pages": 800, "seed_share": 1.0, "seed": 3}
#: Nothing is given up in a cut but for the lease.
GIVEN = {
    "lease_secs": 10,
    "POLITENESS_MIN_DELAY": MIN_DELAY,
    "DOWNLOAD_TIMEOUT": 60 * SLOWNESS,
    "CHECKPOINT_INTERVAL_SECS": 5,
}


class Owners:
    """Which drone had which shard when, in a thread that keeps looking at Redis' table."""

    def __init__(self, hive):
        self._hive = hive
        self._shards = Shards(number=12)
        self._claims = {number: {} for number in range(12)}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join()

    def _look(self):
        with self._hive.redis.client() as client:
            while not self._is_over.wait(0.02):
                for shard, owner in client.hgetall(SHARDS).items():
                    token, _, drone = owner.partition(" ")
                    if drone:  # else it was released
                        # A token is the time of its claim, in microseconds.
                        self._claims[int(shard)][int(token) / 1e6] = drone

    def of(self, hit):
        """The name of the drone that had the host of *hit* when it was asked."""
        claims = self._claims[self._shards.number_of(hit.host)]
        times = sorted(claims)
        return claims[times[bisect(times, hit.start) - 1]]


@contextmanager
def without_store(way):
    """Within, the store cannot be reached by *way*, a link to it."""
    store = way.readlink()
    way.unlink()
    way.touch()
    yield
    way.unlink()
    way.symlink_to(store)


def ended(hit, cut_at):
    """*hit* as it was for its client, which was cut off at these times: a server may wait for it
    for ever, as it is not told of a reset that is lost."""
    return hit._replace(end=min([hit.end, *(at for at in cut_at if hit.start < at)]))


@pytest.mark.timeout(1200)
def test_a_drone_that_was_cut_off_contacts_no_host_that_it_has_lost(tmp_path, monkeypatch):
    # Forked from a process that the tests share, it would not be in this test's network.
    monkeypatch.setattr("webcrawl.simweb.process.Popen", subprocess.Popen)
    (store := tmp_path / "store").mkdir()
    redis = RedisServer(tmp_path / "redis", port=True)
    given = {**GIVEN, "redis": redis, "REDIS_URL": redis.tcp_url}
    with (
        Cables(2) as cables,
        redis,
        simulated(tmp_path, **WEB, ftp=0.1, gopher=0.1) as web,
        HiveCrawl(web, tmp_path, **given) as hive,
        Owners(hive) as owners,
    ):
        ways = [tmp_path / f"store-{machine}" for machine in range(2)]
        port = web.world.gopher_port
        for machine, way in enumerate(ways):
            way.symlink_to(store)
            hive.add(within=cables.within(machine), HIVE_STORE=way, GOPHER_PORTS=port)
        hive.wait_for_entry(*hive.drones)
        names = {cables.address(machine): drone.name for machine, drone in enumerate(hive.drones)}

        cut_at = []

        def are_divided():
            held = [*map(hive.shards_of, hive.drones)]
            published = hive.acknowledged == {*range(12)}
            return [*map(len, held)] == [6, 6] and published

        for cut, leases in CUTS:
            wait_until(are_divided)
            time.sleep(5)  # all hosts of both are contacted
            with without_store(ways[0]), cut(cables, 0):
                cut_at.append(time.time())
                time.sleep(leases * hive.lease_secs)
        wait_until(are_divided)
        assert not hive.is_over
    hits = [ended(hit, cut_at) if hit.client == cables.address(0) else hit for hit in web.hits()]
    assert hive.drones[0].said.count("were lost to other drones") == len(CUTS)
    assert {hit.origin.partition(":")[0] for hit in hits} == {"http", "https", "ftp", "gopher"}
    strangers = [hit for hit in hits if owners.of(hit) != names[hit.client]]
    hurried = impolite(hits, min_delay=MIN_DELAY)
    assert not strangers, f"{len(strangers)} of {len(hits)} contacts, {strangers[:3]}"
    assert not hurried, f"{len(hurried)} of {len(hits)} contacts, {hurried[:3]}"
