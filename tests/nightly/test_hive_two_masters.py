"""A hive behind sentinels, whose master is cut off from its replica but not from all drones, so
that another master takes its place: by the servers' record, no host has two drones."""

import random
import subprocess
import time
from collections import defaultdict
from contextlib import ExitStack
from itertools import combinations

import pytest
from access_log_reader import LoggedHit
from crawling import impolite, simulated
from hive_crawl import HiveCrawl, Owners
from namespaces import Cables
from patience import SLOWNESS
from redis_server import RedisServer, Sentinel
from text_tables import each

#: Machines, one program each.
MASTER, REPLICA = 0, 1
SENTINELS = (2, 3, 4)
DRONES = (5, 6, 7)
# Half of a lease. Replicas report once in a second, later on a machine with other work, and a
# master that has had no report for so long refuses drones that join.
DEMANDS = ("--min-replicas-to-write", "1", "--min-replicas-max-lag", f"{int(2 * SLOWNESS)}")
MIN_DELAY = 2.0
WEB = {"hosts": 200, "mean_pages": 20, "max_pages": 40, "seed_share": 1.0}
#: Nothing is given up in a cut but for the lease.
GIVEN = {
    "lease_secs": 4,
    "POLITENESS_MIN_DELAY": MIN_DELAY,
    "POLITENESS_MAX_DELAY": MIN_DELAY,
    "DOWNLOAD_TIMEOUT": 60 * SLOWNESS,
    "CHECKPOINT_INTERVAL_SECS": 3,
}


def contacts_of_two_drones(hits):
    """Pairs of contacts of two machines at one host, the later of which begins less than two
    seconds after the end of the other, or before it."""
    by_host = defaultdict(list)
    for hit in sorted(hits, key=lambda hit: hit.start):
        by_host[hit.host].append(hit)
    return [
        (one, later)
        for contacts in by_host.values()
        for one, later in combinations(contacts, 2)
        if one.client != later.client and later.start < one.end + 2.0
    ]


def test_a_long_contact_is_compared_with_all_that_begin_before_its_end():
    """The contact just before the other drone's may be a short one."""
    blank = dict.fromkeys(LoggedHit._fields, "") | {"origin": "http://a.test"}
    times = (("one", 0.0, 9.0), ("one", 4.0, 5.0), ("two", 10.9, 11.0), ("two", 20.0, 20.1))
    one, _, two, _ = hits = [
        LoggedHit(**blank | {"client": client, "start": start, "end": end})
        for client, start, end in times
    ]
    assert contacts_of_two_drones(reversed(hits)) == [(one, two)]


@pytest.mark.timeout(1200)
@each("demanded", (), DEMANDS)
@pytest.mark.seeds(3)
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
        owners = stack.enter_context(Owners(master, replica))
        for drone in DRONES:
            hive.add(within=cables.within(drone), address=cables.address(drone))
        hive.wait_for_entry(*hive.drones)
        hive.wait_for(rng.uniform(0.1, 0.3))

        cut_off = rng.sample(DRONES, rng.choice((1, 2)))
        killed = rng.choice((None, None, *hive.drones))
        with hive.loss(), cables.apart(MASTER, REPLICA, *SENTINELS, *cut_off):
            sentinels[0].wait_for_master(replica)
            hive.redis = replica
            if killed is not None:
                hive.kill(killed)  # its hosts are another's, by one master or by both
            time.sleep(rng.uniform(2, 5) * hive.lease_secs)
            share = hive.share
            assert not hive.is_over
        if killed is not None:
            hive.restart(killed)
        with hive.loss():
            hive.end()
        assert share < 1.0
        hits = web.hits()
        two_drones = contacts_of_two_drones(hits)
        hurried = impolite(hits, min_delay=MIN_DELAY)
        late = owners.late(hits, hive.drones)
        assert not two_drones, f"{len(two_drones)}: {two_drones[:3]}"
        assert not hurried, f"{len(hurried)}: {hurried[:3]}"
        assert not late, f"{len(late)}: {late[:3]}"
        hive.judge()
        print(
            f"disturbance: a master cut off with {len(cut_off)} of 3 drones, "
            f"{'one' if killed else 'none'} killed; {len(hits)} contacts"
        )
