"""Hives whose drones are killed or held up and keep their shards, by the server's record."""

import signal
import time
from dataclasses import replace

import psutil
import pytest
from crawling import (
    USER_AGENT,
    access_log,
    is_robots,
    simulated,
    url_of_hit,
    wait_until,
)
from hive_crawl import STATE, HiveCrawl
from patience import LIMIT_SECS, SLOWNESS
from redis_proxy import Cut
from web_truth import fetchable_urls

from webcrawl.hive.launch.supervisor import held_locks
from webcrawl.jobs.inspect.info_log import outcome_lines
from webcrawl.simweb import Faults
from webcrawl.simweb.accesslog import AnswerEnd
from webcrawl.simweb.host_spec import Behaviour


@pytest.mark.long
def test_a_killed_drone_that_resumes_its_directory_repeats_only_pages_in_process(tmp_path):
    given = {"lease_secs": 15, "CHECKPOINT_INTERVAL_SECS": 600}
    with (
        simulated(tmp_path, hosts=30, mean_pages=20, max_pages=40) as web,
        HiveCrawl(web, tmp_path, **given) as hive,
    ):
        killed, _ = hive.join(2)
        hive.wait_for(0.4)
        wait_until(lambda: len([*killed.job.glob("shards/*/CURRENT")]) == 6)
        hive.kill(killed)
        at = time.time()
        hive.start_again(killed)
        hive.end()
        hive.judge(reads_warc=False)
        times = [(url_of_hit(hit), hit.start) for hit in web.hits() if not is_robots(hit)]
        before = {url for url, start in times if start < at}
        again = {url for url, start in times if start > at} & before
        assert len(before) > 180
        # A page at most of each of its 15 hosts.
        assert len(again & fetchable_urls(web.world, USER_AGENT)) <= 15


@pytest.mark.long
def test_the_first_pages_of_a_hive_are_published_seconds_after_they_were_fetched(tmp_path):
    given = {"CHECKPOINT_INTERVAL_SECS": 600, "POLITENESS_MIN_DELAY": 0.6}
    with (
        simulated(tmp_path, hosts=16, mean_pages=20, max_pages=40) as web,
        HiveCrawl(web, tmp_path, **given) as hive,
        hive.redis.client() as client,
    ):
        killed, _ = hive.join(2)
        wait_until(lambda: client.hget(STATE, "checkpoint") == "1")

        ordered_at = float(client.hget(STATE, "begun_at")) + 5
        # Log lines have whole seconds.
        wait_until(lambda: killed.published_until(time.time()) > ordered_at - 1)
        until = killed.published_until(time.time())
        before = {line.url for line in outcome_lines(killed.job) if line.at < until}
        assert before
        assert not hive.is_over
        at = time.time()
        hive.kill(killed)
        hive.end()
        hive.judge(reads_warc=False)
        again = {url_of_hit(hit) for hit in web.hits() if hit.start > at}
        assert before & again & fetchable_urls(web.world, USER_AGENT) == set()


@pytest.mark.long
def test_a_drone_with_nothing_left_names_the_one_that_it_waits_for(tmp_path):
    with (
        simulated(tmp_path, hosts=3, mean_pages=150, max_pages=200) as web,
        HiveCrawl(web, tmp_path, STATISTICS_INTERVAL_SECS=1) as hive,
    ):
        one, other = hive.join(2)

        def tells(text_of):
            """Whether what a drone says, or is said of it, names the other one."""
            return any(
                f"waiting for {awaited.name}, which hands over hosts, or seeds" in text_of(drone)
                for drone, awaited in ((one, other), (other, one))
            )

        wait_until(lambda: tells(lambda drone: drone.said))
        wait_until(lambda: tells(lambda drone: hive.notes().get(drone.name, "")) or hive.is_over)
        assert not hive.is_over
        hive.end()


def test_a_directory_is_locked_until_its_drone_has_left_the_hive(tmp_path):
    """Or the next process in it, which is the same drone, would lose its leases to the last one."""
    with (
        simulated(tmp_path, hosts=5, mean_pages=20, max_pages=40) as web,
        HiveCrawl(web, tmp_path, lease_secs=15) as hive,
    ):
        (drone,) = hive.join()
        hive.wait_for(0.2)
        hive.redis.pause()
        drone.send(signal.SIGTERM)
        is_locked = True
        while "The hive must wait until this drone's leases expire" not in drone.said:
            assert is_locked
            is_locked = bool(held_locks(drone.job, "LOCK"))
            time.sleep(0.01)
        hive.redis.resume()
        assert drone.process.wait(LIMIT_SECS) == 0


def test_a_drone_that_ends_gives_up_what_its_last_process_had(tmp_path):
    """Or who stops the hive would wait for a killed drone that has ended since."""
    with (
        simulated(tmp_path, hosts=5, mean_pages=20, max_pages=40) as web,
        HiveCrawl(web, tmp_path, lease_secs=15) as hive,
    ):
        (drone,) = hive.join()
        wait_until(lambda: hive.acknowledged == {*range(12)})
        hive.kill(drone)
        shard = tmp_path / "store/shards/03"
        shard.rename(tmp_path / "shard")
        shard.touch()
        hive.start_again(drone)
        wait_until(lambda: "Shard 3 cannot be fetched yet" in drone.said)
        assert 3 in hive.shards_of(drone)
        hive.leave(drone)
        assert hive.shards_of(drone) == {}


def test_contacts_under_way_are_broken_off_when_the_lease_lapses(tmp_path):
    slow = replace(Faults.none(), slow=0.75)
    given = {"DOWNLOAD_TIMEOUT": 600, "NET_FIRST_BYTE_TIMEOUT_SECS": 600}
    values = {"hosts": 20, "max_pages": 5, "seed_share": 1.0, "faults": slow, "slow_secs": 600}
    with (
        simulated(tmp_path, **values) as web,
        HiveCrawl(web, tmp_path, **given) as hive,
    ):
        (drone,) = hive.join()
        process = psutil.Process(drone.process.pid)
        hosts = [web.world.host(number) for number in range(20)]
        slow_ones = sum(host.behaviour is Behaviour.SLOW for host in hosts)

        def closed():
            return sum(hit.outcome is AnswerEnd.CLOSED for hit in access_log(web.log))

        def under_way():
            found = process.net_connections("tcp4")
            return [one for one in found if one.raddr and one.raddr.port != drone.proxy.port]

        wait_until(lambda: len(under_way()) >= slow_ones > 5)
        time.sleep(0.5 * SLOWNESS)  # all have been asked
        process.suspend()  # it would make the directory again
        store = tmp_path / "store"
        store.rename(tmp_path / "away")
        store.touch()
        process.resume()
        drone.proxy.cut(Cut.BLACK_HOLE)
        assert closed() == 0
        wait_until(lambda: closed() == slow_ones)
        assert under_way() == []
        assert drone.is_running


def test_a_clock_of_redis_that_was_put_back_does_not_keep_shards_from_drones(tmp_path):
    with (
        simulated(tmp_path, hosts=30, mean_pages=20, max_pages=40) as web,
        HiveCrawl(web, tmp_path) as hive,
        hive.redis.client() as client,
    ):
        killed, _ = hive.join(2)
        wait_until(lambda: hive.acknowledged == {*range(12)})
        client.hset(STATE, "begun_at", time.time() + 3600)
        hive.kill(killed)
        hive.end()
        hive.judge(reads_warc=False)
