"""Hives of several drones, disturbed: each disturbance alone, all of a kind, at one exact moment,
and rounds by lot."""

import random
import signal
import time

import psutil
import pytest
from crawling import RIGS, USER_AGENT, access_log, pages_asked_for, simulated, stats_of, wait_until
from hive_crawl import (
    DISTURBANCES,
    STATE,
    HiveCrawl,
    HiveEndedError,
    Owners,
    draw,
    play,
)
from redis_proxy import Cut
from redis_server import RedisServer
from stopping_drone import STEPS
from text_tables import each
from web_truth import fetchable_urls

from webcrawl.hive.store.store import CheckpointStore


@each("disturbance", *DISTURBANCES)
def test_a_hive_is_complete_and_polite_after(tmp_path, disturbance):
    disturbances = [(0.2, disturbance), (0.6, disturbance)]
    play(tmp_path, disturbances, rng=random.Random(len(disturbance)))


def test_drones_that_join_and_leave_fetch_nothing_twice(tmp_path):
    disturbances = [(0.1, "two join"), (0.3, "one leaves"), (0.5, "two join")]
    disturbances += [(share, "one leaves") for share in (0.8, 0.9, 0.95)]
    play(tmp_path, disturbances, rng=random.Random(1))  # no loss explains a repetition


@pytest.mark.seeds(20)
def test_a_hive_is_complete_and_polite_after_disturbances_by_lot(tmp_path, seed):
    rng = random.Random(seed)
    play(tmp_path, draw(rng), rng=rng)


def test_no_queen_is_waited_for_when_the_hive_is_over(tmp_path):
    with (
        simulated(tmp_path, hosts=5, mean_pages=2, max_pages=5) as web,
        HiveCrawl(web, tmp_path) as hive,
    ):
        hive.join(2)
        hive.end()
        with pytest.raises(HiveEndedError):
            DISTURBANCES["kill the queen"](hive)


def test_a_redis_with_an_older_copy_of_its_data_loses_nothing(tmp_path):
    """The copy lacks a drone that has joined since, and has one that was killed since."""
    with (
        simulated(tmp_path, hosts=60, mean_pages=10, max_pages=30) as web,
        RedisServer(tmp_path / "redis") as redis,
        HiveCrawl(web, tmp_path, redis=redis) as hive,
        Owners(redis) as owners,
    ):
        hive.join(3)
        hive.wait_for(0.2)
        with redis.client() as client:
            client.save()
        hive.kill(hive.drones[0])
        hive.join(1)
        hive.wait_for(0.4)
        with hive.loss():
            redis.restart()
        hive.end()
        resent = "may have lost are resent"
        assert [resent in drone.said for drone in hive.drones] == [False, True, True, True]
        strangers = owners.strangers(web.hits(), hive.drones)
        assert not strangers, f"{len(strangers)}: {strangers[:3]}"
        hive.judge()


def test_a_drone_that_is_cut_off_from_an_older_copy_of_redis_keeps_its_shards(tmp_path):
    """The copy has a drone that was killed since, but not the claims of its shards by another."""
    with (
        simulated(tmp_path, hosts=60, mean_pages=20, max_pages=40) as web,
        RedisServer(tmp_path / "redis") as redis,
        HiveCrawl(web, tmp_path, redis=redis) as hive,
        Owners(redis) as owners,
    ):
        killed, *_ = hive.join(2)
        wait_until(lambda: hive.acknowledged == {*range(12)})
        taken = hive.shards_of(killed).keys()
        with redis.client() as client:
            client.save()
        hive.kill(killed)
        (cut_off,) = hive.join(1)
        wait_until(lambda: hive.shards_of(cut_off).keys() & taken)
        cut_off.proxy.cut(Cut.REFUSED)
        with hive.loss():
            redis.restart()
        time.sleep(3 * hive.lease_secs)
        cut_off.proxy.mend()
        hive.end()
        strangers = owners.strangers(web.hits(), hive.drones)
        assert not strangers, f"{len(strangers)}: {strangers[:3]}"
        hive.judge(reads_warc=False)


@each("step", *STEPS)
def test_a_drone_stopped_within_a_publication_harms_no_adopter(tmp_path, monkeypatch, step):
    monkeypatch.setenv("PYTHONPATH", RIGS)
    order, store = tmp_path / "stop", CheckpointStore(url=str(tmp_path / "store"))
    given = {"SCHEDULER": "stopping_drone.StoppingScheduler", "STOP_FILE": order}

    def is_stopped(drone):
        return psutil.Process(drone.process.pid).status() == psutil.STATUS_STOPPED

    with (
        simulated(tmp_path, hosts=60, mean_pages=10, max_pages=30) as web,
        HiveCrawl(web, tmp_path, **given) as hive,
    ):
        hive.join(3)
        hive.wait_for(0.2)
        with hive.loss():
            order.write_text(step)
            wait_until(lambda: any(map(is_stopped, hive.drones)))
            [stopped] = filter(is_stopped, hive.drones)
            held = hive.shards_of(stopped)
            assert held
            # Whoever adopts them has published them by a token of its own.
            wait_until(
                lambda: all((found := store.find_newest(n)) and found.token > held[n] for n in held)
            )
            stopped.send(signal.SIGCONT)
        hive.end()
        assert "were lost to other drones" in stopped.said
        hive.judge()


def test_a_paused_drone_goes_on_from_what_another_has_published_since(tmp_path):
    """The other one is dead when it continues, and Redis was emptied: nobody says so but the
    store."""
    store = CheckpointStore(url=str(tmp_path / "store"))
    with (
        simulated(tmp_path, hosts=60, mean_pages=10, max_pages=30) as web,
        HiveCrawl(web, tmp_path, rng=random.Random(6)) as hive,
    ):
        first, second = hive.join(2)
        hive.wait_for(0.2)
        with hive.loss():
            held = hive.shards_of(first)
            first.send(signal.SIGSTOP)
            wait_until(
                lambda: all((found := store.find_newest(n)) and found.token > held[n] for n in held)
            )
            hive.kill(second)
            hive.redis.kill()
            hive.redis.restart(empty=True)
            first.send(signal.SIGCONT)
        hive.end()
        hive.judge()


@pytest.mark.timeout(1800)
def test_drones_that_are_short_of_cpu_for_a_minute_make_no_cascade(tmp_path):
    given = {"lease_secs": 10, "HIVE_SHARDS": 64, "CHECKPOINT_INTERVAL_SECS": 10}
    # Times go on while a process is stopped: no URL is to be given up for that.
    times = ("DOWNLOAD_TIMEOUT", "NET_CONNECT_TIMEOUT_SECS", "NET_FIRST_BYTE_TIMEOUT_SECS")
    given |= dict.fromkeys(times, 100)
    with (
        simulated(tmp_path, hosts=1600, mean_pages=25, max_pages=50) as web,
        HiveCrawl(web, tmp_path, rng=random.Random(5), **given) as hive,
    ):
        drones = hive.join(2)
        hive.wait_for(0.1)
        with hive.loss():
            hive.starve(leases=6)
        wait_until(lambda: hive.share == 1.0 or hive.is_over, secs=600, every=5)
        hive.end()
        asked = hive.judge(reads_warc=False)
        fetched = asked.keys() & fetchable_urls(web.world, USER_AGENT)
        repeated = sum(asked[url] - 1 for url in fetched)
        moved = sum(stats_of(drone.job).get("hive/shards/abandoned", 0) for drone in drones)
        print(f"{len(fetched)} pages, {repeated} fetched again, {moved} shards lost")
        assert moved <= 8
        assert repeated <= len(fetched) / 100


def test_the_seeds_are_read_on_by_another_drone_when_their_reader_dies(tmp_path):
    with simulated(tmp_path, hosts=60, mean_pages=10, max_pages=30, seed_share=1.0) as web:
        # Between two new ones each time the ones before, again and again.
        seeds = web.seeds.read_text().split()
        with web.seeds.open("w") as file:
            for number, seed in enumerate(seeds, start=1):
                file.writelines(f"{seed}\n" for seed in [seed, *(seeds[:number] * 15_000)[:15_000]])
        with HiveCrawl(web, tmp_path, rng=random.Random(3)) as hive:
            hive.join(3)
            hive.wait_for(0.15)
            [reader] = [drone for drone in hive.drones if 0 in hive.shards_of(drone)]
            asked = {*pages_asked_for(access_log(web.log))}
            hive.kill(reader)
            assert f"seeds: {web.seeds}: " not in reader.said
            assert not asked.issuperset(seeds)
            hive.end()
            hive.judge()
        told = [drone for drone in hive.drones if f"seeds: {web.seeds}: " in drone.said]
        assert len(told) == 1


def test_reputation_rounds_are_those_of_the_whole_hive(tmp_path):
    numbers, parked, shares = [], [], []
    with simulated(tmp_path, hosts=60, mean_pages=10, max_pages=40) as web:
        # The same command with more rounds goes on.
        for rounds in (1, 8):
            given = {"REPUTATION_BASE_PAGES": 1, "REPUTATION_ROUNDS": rounds}
            with HiveCrawl(web, tmp_path, rng=random.Random(4), **given) as hive:
                hive.join(3)
                hive.end()
                with hive.redis.client() as client:
                    numbers.append(int(client.hget(STATE, "round")))
                stats = [stats_of(drone.job) for drone in hive.drones]
                assert [one["reputation/round"] for one in stats] == numbers[-1:] * 3
                parked.append(sum(one.get("frontier/parked/reputation", 0) for one in stats))
                shares.append(hive.share)
        hive.judge()
    assert numbers[0] == 1 < numbers[1]
    assert parked[0] > 0 == parked[1]
    assert shares[0] < 1.0 == shares[1]
