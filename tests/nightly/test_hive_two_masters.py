"""A hive behind sentinels, whose master is cut off from its replica but not from all drones, so
that another master takes its place: by the servers' record, no host has two drones."""

import random
import subprocess
import time
from contextlib import ExitStack
from itertools import groupby, pairwise

import pytest
from crawling import impolite, simulated
from hive_crawl import HiveCrawl
from namespaces import Cables
from patience import SLOWNESS
from redis_server import RedisServer, Sentinel
from text_tables import each

#: Machines, one program each.
MASTER, REPLICA = 0, 1
SENTINELS = (2, 3, 4)
DRONES = (5, 6, 7)
DEMANDS = ("--min-replicas-to-write", "1", "--min-replicas-max-lag", "1")
MIN_DELAY = 0.5
WEB = {"hosts": 60, "mean_pages": 60, "max_pages": 120, "seed_share": 1.0}
#: Nothing is given up in a cut but for the lease.
GIVEN = {
    "lease_secs": 4,
    "POLITENESS_MIN_DELAY": MIN_DELAY,
    "DOWNLOAD_TIMEOUT": 60 * SLOWNESS,
    "CHECKPOINT_INTERVAL_SECS": 3,
}


def contacts_of_two_drones(hits):
    """Pairs of contacts of two machines at one host, of which one began within the pause of the
    other."""
    by_host = sorted(hits, key=lambda hit: (hit.host, hit.start))
    return [
        pair
        for _, contacts in groupby(by_host, key=lambda hit: hit.host)
        for pair in pairwise(contacts)
        if pair[0].client != pair[1].client and pair[1].start < pair[0].end + MIN_DELAY
    ]


@pytest.mark.timeout(1200)
@each("demanded", (), DEMANDS)
@each("seed", *range(3))
def test_a_master_that_is_cut_off_gives_no_host_a_second_drone(
    tmp_path, monkeypatch, demanded, seed
):
    # Forked from a process that the tests share, it would not be in this test's network.
    monkeypatch.setattr("webcrawl.simweb.process.Popen", subprocess.Popen)
    rng = random.Random(seed)
    with ExitStack() as stack:
        cables = stack.enter_context(Cables(8))

        def start(kind, machine, **options):
            place = {"host": cables.address(machine), "within": cables.within(machine)}
            return stack.enter_context(kind(tmp_path / f"{machine}", **place, **options))

        master = start(RedisServer, MASTER, port=True, more=demanded)
        replica = start(RedisServer, REPLICA, replica_of=master, more=demanded)
        sentinels = [start(Sentinel, one, server=master, quorum=2) for one in SENTINELS]
        for sentinel in sentinels:
            sentinel.wait_for_replicas(1)
            sentinel.wait_for_sentinels(2)
        places = ",".join(f"{one.host}:{one.port}" for one in sentinels)
        given = {**GIVEN, "redis": master, "REDIS_URL": f"redis+sentinel://{places}/hive/0"}

        web = stack.enter_context(simulated(tmp_path, **WEB, seed=seed))
        hive = stack.enter_context(HiveCrawl(web, tmp_path, rng=rng, **given))
        for drone in DRONES:
            hive.add(within=cables.within(drone))
        hive.wait_for_entry(*hive.drones)
        hive.wait_for(rng.uniform(0.1, 0.3))

        cut_off = rng.sample(DRONES, rng.choice((1, 2)))
        with hive.loss(), cables.apart(MASTER, REPLICA, *SENTINELS, *cut_off):
            sentinels[0].wait_for_master(replica)
            hive.redis = replica
            time.sleep(rng.uniform(2, 5) * hive.lease_secs)
            share = hive.share
            assert not hive.is_over
        with hive.loss():
            hive.end()
        assert share < 1.0
        two_drones = contacts_of_two_drones(web.hits())
        hurried = impolite(web.hits(), min_delay=MIN_DELAY)
        assert not two_drones, f"{len(two_drones)}: {two_drones[:3]}"
        assert not hurried, f"{len(hurried)}: {hurried[:3]}"
        hive.judge()
