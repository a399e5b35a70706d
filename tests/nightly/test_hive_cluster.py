"""A hive on a Redis Cluster, of which a drone or the master with the hive's keys is killed, or that
master is cut off: by the servers' record all is fetched, and no host has two drones."""

import random
import subprocess
import time
from contextlib import ExitStack

import pytest
from crawling import impolite, simulated, wait_until
from hive_crawl import NAME, HiveCrawl, Owners
from namespaces import Cables
from patience import SLOWNESS
from redis_server import Cluster
from text_tables import each

_SHARDS = 12
# Machines, one program each. The first master is that of the hive.
MASTERS = (0, 1, 2)
REPLICA = 3
DRONES = (4, 5, 6)
MIN_DELAY = 2.0


def kill_a_drone(hive, _):
    """The other one takes over its shards by claims of its own in the store."""
    lost, other = hive.drones
    hive.kill(lost)
    wait_until(lambda: len(hive.shards_of(other)) == _SHARDS)
    wait_until(lambda: hive.claims() == hive.shards_of(other))
    hive.start_again(lost)
    wait_until(lambda: hive.shards_of(lost))


def kill_the_master(hive, cluster):
    """The replica takes its place, and it comes back as the replica of that."""
    with hive.loss():
        cluster.master.kill()
        cluster.replica.wait_for(lambda client: client.info()["role"] == "master")
        hive.redis = cluster.replica
        cluster.master.start()
        wait_until(lambda: sum(len(hive.shards_of(drone)) for drone in hive.drones) == _SHARDS)


@pytest.mark.timeout(600)
@each("disturb", kill_a_drone, kill_the_master)
def test_a_hive_on_a_cluster_is_complete_and_gives_no_host_two_drones(tmp_path, disturb):
    with (
        simulated(tmp_path, hosts=60, mean_pages=10, max_pages=30, redirects=0.1) as web,
        Cluster(tmp_path / "redis", NAME) as cluster,
        HiveCrawl(web, tmp_path, redis=cluster.master, REDIS_URL=cluster.url) as hive,
        Owners(cluster.master, cluster.replica) as owners,
    ):
        hive.join(2)
        assert {*hive.notes()} == {drone.name for drone in hive.drones}
        hive.wait_for(0.3)
        disturb(hive, cluster)
        assert not hive.is_over
        hive.end()
        hive.judge()
        hits = web.hits()
        late = owners.late(hits, hive.drones)
        assert not late, f"{len(late)} of {len(hits)}: {late[:3]}"


@pytest.mark.timeout(900)
@pytest.mark.seeds(2)
def test_a_master_of_a_cluster_that_is_cut_off_gives_no_host_a_second_drone(
    tmp_path, monkeypatch, seed
):
    """It is cut off from the other servers and some of the drones; then one drone is killed."""
    # Forked from a process that the tests share, it would not be in this test's network.
    monkeypatch.setattr("webcrawl.simweb.process.Popen", subprocess.Popen)
    rng = random.Random(seed)
    with ExitStack() as stack:
        cables = stack.enter_context(Cables(7))
        places = [
            {"host": cables.address(one), "within": cables.within(one)}
            for one in (*MASTERS, REPLICA)
        ]
        cluster = stack.enter_context(Cluster(tmp_path / "redis", NAME, places=places))
        size = {"hosts": 100, "mean_pages": 15, "max_pages": 30, "seed_share": 1.0}
        web = stack.enter_context(simulated(tmp_path, **size, seed=seed))
        # Nothing is given up in a cut but for the lease.
        given = {
            "POLITENESS_MIN_DELAY": MIN_DELAY,
            "POLITENESS_MAX_DELAY": MIN_DELAY,
            "DOWNLOAD_TIMEOUT": 60 * SLOWNESS,
            "CHECKPOINT_INTERVAL_SECS": 3,
            "REDIS_URL": cluster.url,
        }
        hive = HiveCrawl(web, tmp_path, redis=cluster.master, lease_secs=4, **given)
        stack.enter_context(hive)
        owners = stack.enter_context(Owners(cluster.master, cluster.replica))
        for drone in DRONES:
            hive.add(within=cables.within(drone), address=cables.address(drone))
        hive.wait_for_entry(*hive.drones)
        hive.wait_for(rng.uniform(0.1, 0.3))

        cut_off = rng.sample(DRONES, rng.choice((1, 2)))
        killed = rng.choice(hive.drones)
        with hive.loss(), cables.apart(*MASTERS, REPLICA, *cut_off):
            cluster.replica.wait_for(lambda client: client.info()["role"] == "master")
            hive.redis = cluster.replica
            hive.kill(killed)
            time.sleep(rng.uniform(2, 4) * hive.lease_secs)
            assert not hive.is_over
        hive.restart(killed)
        with hive.loss():
            hive.end()
        hits = web.hits()
        late = owners.late(hits, hive.drones)
        hurried = impolite(hits, min_delay=MIN_DELAY)
        assert not late, f"{len(late)} of {len(hits)}: {late[:3]}"
        assert not hurried, f"{len(hurried)} of {len(hits)}: {hurried[:3]}"
        hive.judge()
