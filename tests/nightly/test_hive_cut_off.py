"""A drone whose machine is cut off from the network for a while, by the servers' record."""

import random
import subprocess
import time
from contextlib import contextmanager

import pytest
from crawling import USER_AGENT, impolite, pages_asked_for, simulated, wait_until
from hive_crawl import HiveCrawl, Owners
from namespaces import Cables
from patience import SLOWNESS
from redis_server import RedisServer
from web_truth import allowed_urls, fetchable_urls

from webcrawl.hive.launch.crawl_stats import shard_counts

#: Ways to cut a machine off. Others have its shards after one lease or two.
CUTS = (Cables.pulled, Cables.lossy) * 2
MIN_DELAY = 0.5
#: All hosts have as many pages. One is twice as slow as the others, so the web outlasts the cuts.
WEB = {"hosts": 60, "mean_pages": 200, "max_pages": 200, "seed_share": 1.0, "seed": 3}
#: Nothing is given up in a cut but for the lease.
GIVEN = {
    "lease_secs": 10,
    "POLITENESS_MIN_DELAY": MIN_DELAY,
    "DOWNLOAD_TIMEOUT": 60 * SLOWNESS,
    "CHECKPOINT_INTERVAL_SECS": 5,
}


@contextmanager
def without_store(way):
    """Within, the store cannot be reached by *way*, a link to it.

    The link is replaced in one step: where nothing is, a drone may make a directory.
    """
    store = way.readlink()
    (nothing := way.with_suffix(".nothing")).touch()
    nothing.replace(way)
    yield
    (link := way.with_suffix(".link")).symlink_to(store)
    link.replace(way)


def ended(hit, cut_at):
    """*hit* as it was for its client, which was cut off at these times: a server may wait for it
    for ever, as it is not told of a reset that is lost."""
    return hit._replace(end=min([hit.end, *(at for at in cut_at if hit.start < at)]))


@pytest.mark.timeout(1200)
@pytest.mark.seeds(1)
def test_a_drone_that_is_cut_off_contacts_no_host_that_it_has_lost_and_no_page_is_lost(
    tmp_path, monkeypatch, seed
):
    # Forked from a process that the tests share, it would not be in this test's network.
    monkeypatch.setattr("webcrawl.simweb.process.Popen", subprocess.Popen)
    rng = random.Random(seed)
    (store := tmp_path / "store").mkdir()
    redis = RedisServer(tmp_path / "redis", port=True)
    given = {**GIVEN, "redis": redis, "REDIS_URL": redis.tcp_url}
    with (
        Cables(2) as cables,
        redis,
        simulated(tmp_path, **WEB, ftp=0.1, gopher=0.1) as web,
        HiveCrawl(web, tmp_path, **given) as hive,
        Owners(redis) as owners,
    ):
        ways = [tmp_path / f"store-{machine}" for machine in range(2)]
        port = web.world.gopher_port
        for machine, way in enumerate(ways):
            way.symlink_to(store)
            place = {"within": cables.within(machine), "address": cables.address(machine)}
            hive.add(**place, HIVE_STORE=way, GOPHER_PORTS=port)
        hive.wait_for_entry(*hive.drones)

        cut_at = []

        def are_divided():
            held = [len(hive.shards_of(drone)) for drone in hive.drones]
            published = hive.acknowledged == {*range(12)}
            return min(held) > 0 and sum(held) == 12 and published

        for cut in CUTS:
            wait_until(are_divided)
            time.sleep(5)  # all hosts of both are contacted
            before = hive.shards_of(hive.drones[0])

            def are_taken(before=before):
                """The other drone has shards of the one that is cut off."""
                return not before.keys().isdisjoint(hive.shards_of(hive.drones[1]))

            with without_store(ways[0]), cut(cables, 0):
                cut_at.append(time.time())
                time.sleep(rng.uniform(1.3, 2.5) * hive.lease_secs)
                wait_until(are_taken)
            wait_until(
                lambda: hive.drones[0].said.count("were lost to other drones") == len(cut_at)
            )
        wait_until(are_divided)
        assert not hive.is_over
        print(f"{hive.share:.2f} of the pages were asked for in the time of the cuts")
        hive.end()
        counts = shard_counts([drone.job for drone in hive.drones])
        pages = sum(n for name, n in counts.items() if name.startswith("outcome/http_2"))
    hits = [ended(hit, cut_at) if hit.client == cables.address(0) else hit for hit in web.hits()]
    assert {hit.origin.partition(":")[0] for hit in hits} == {"http", "https", "ftp", "gopher"}
    lost = sorted(allowed_urls(web.world, USER_AGENT) - {*pages_asked_for(hits)})
    assert not lost, f"{len(lost)} pages, {lost[:3]}"
    assert pages == len(fetchable_urls(web.world, USER_AGENT))
    strangers = owners.strangers(hits, hive.drones)
    hurried = impolite(hits, min_delay=MIN_DELAY)
    assert not strangers, f"{len(strangers)} of {len(hits)} contacts, {strangers[:3]}"
    assert not hurried, f"{len(hurried)} of {len(hits)} contacts, {hurried[:3]}"
