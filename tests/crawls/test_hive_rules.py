"""What belongs to a hive as a whole: its settings, commands and purges, and what is said of it."""

import json
import re
import shutil
import signal
import time

import pytest
import warm
from crawling import RIGS, USER_AGENT, access_log, simulated, wait_until
from hive_crawl import NAME, STATE, HiveCrawl
from patience import LIMIT_SECS
from web_truth import fetchable_urls

from webcrawl.hive.store.checkpoint_files import seal


@pytest.mark.long
def test_a_drone_that_joins_late_says_what_it_did_and_what_the_hive_did(tmp_path):
    with (
        simulated(tmp_path, hosts=20, mean_pages=10.0, max_pages=20) as web,
        HiveCrawl(web, tmp_path) as hive,
    ):
        (first,) = hive.join()
        hive.wait_for(0.9)
        (late,) = hive.join()
        hive.end()
        hits = web.hits()
        pages = len(fetchable_urls(web.world, USER_AGENT))
        sums = [0, 0, 0]
        for drone in (first, late):
            said = " ".join(drone.said.split())
            assert f"the hive {pages} pages, " in said
            assert "hosts 0 contacted" not in said
            own = re.search(r"this drone (\d+) pages?, (\d+) requests?.*; (\d+) hosts? con", said)
            sums = [former + int(number) for former, number in zip(sums, own.groups(), strict=True)]
        # A drone that was held up repeats pages.
        assert [found >= least for found, least in zip(sums, (pages, pages, 20), strict=True)] == [
            True
        ] * 3
        assert sums[1] <= len(hits)


def refusal_of(hive, *, code=2, **settings):
    """What a drone with *settings*, which is refused, says in the end."""
    drone = hive.add(**settings)
    assert drone.process.wait(LIMIT_SECS) == code, drone.said
    hive.drones.remove(drone)
    shutil.rmtree(drone.job)
    return drone.log.read_text()[-3000:]


def agents(web, since):
    # A connection that was cut off by the end of a drone has none.
    return {hit.agent for hit in access_log(web.log) if hit.start > since} - {""}


SLOW = {"hosts": 20, "mean_pages": 60.0, "max_pages": 80, "seed_share": 1.0}


@pytest.mark.cures(
    "The hive {} runs with {}: keep the old value, or stop all drones to change it.",
)
def test_a_drone_with_another_purpose_name_or_lease_is_refused_until_all_drones_are_stopped(
    tmp_path,
):
    with (
        simulated(tmp_path, **SLOW) as web,
        HiveCrawl(web, tmp_path, POLITENESS_MIN_DELAY=1.0, CRAWL_PURPOSE="search") as hive,
    ):
        first, second = hive.join(2)
        wait_until(lambda: agents(web, 0))
        secs = hive.lease_secs
        for given, said in (
            ({"CRAWL_PURPOSE": "train"}, "CRAWL_PURPOSE search, not train; CRAWLER_NAME webcrawl-"),
            ({"CRAWLER_NAME": "otherbot"}, "CRAWLER_NAME webcrawl-search webcrawl, not otherbot-"),
            ({"HIVE_LEASE_SECS": 3 * secs}, f"HIVE_LEASE_SECS {secs:.15g}, not {3 * secs:.15g}"),
        ):
            told = refusal_of(hive, **given)
            assert f"webcrawl: The hive {NAME} runs with {said}" in told
            assert ": keep the old value, or stop all drones to change it.\n" in told
        # A drone that was refused would refuse others for a lease, if it left one.
        assert set(hive.notes()) == {first.name, second.name}
        hive.leave(second)
        hive.kill(first)  # it still has a lease when the next drone joins
        assert all("search" in agent for agent in agents(web, 0))

        stopped_at = time.time()
        for drone in (second, first):
            drone.settings = {"CRAWLER_NAME": "otherbot"}
            drone.has_left = False
            hive.restart(drone)
            hive.wait_for_entry(second)
            wait_until(lambda: second.said.count("not otherbot") or not second.is_running)
            assert second.is_running, second.said
        wait_until(lambda: agents(web, stopped_at))
        hive.wait_for_entry(first, second)
        assert "CRAWLER_NAME webcrawl-search webcrawl, not otherbot" in first.said + second.said
        assert "CRAWLER_NAME otherbot-search otherbot, not webcrawl-" in refusal_of(hive)
        assert all("otherbot" in agent for agent in agents(web, stopped_at))
        for drone in (first, second):
            hive.leave(drone)

        stopped_at = time.time()
        other = hive.add(CRAWL_PURPOSE="train")  # a job directory has one purpose
        wait_until(lambda: agents(web, stopped_at))
        assert "CRAWL_PURPOSE search, not train" in other.said
        facts = json.loads((tmp_path / "store/hive.json").read_text())
        assert facts["settings"]["CRAWL_PURPOSE"] == "train"
        assert all("train" in agent for agent in agents(web, stopped_at))


@pytest.mark.cures(
    "but this webcrawl reads only up to {}: use the newer webcrawl that wrote it",
)
def test_a_drone_whose_version_has_another_format_of_the_store_is_refused(tmp_path, monkeypatch):
    """One of a later version, while others run; and then one of the earlier version."""
    monkeypatch.setenv("PYTHONPATH", RIGS)
    later = {"SCHEDULER": "later_format.LaterScheduler"}
    with simulated(tmp_path, **SLOW) as web, HiveCrawl(web, tmp_path) as hive:
        (first,) = hive.join()
        told = refusal_of(hive, **later)
        assert f"webcrawl: The hive {NAME} runs with HIVE_STORE format 5, not 6: keep the" in told
        # An earlier version does not know the messages about subresources.
        told = refusal_of(hive, RENDER="all", RENDER_ENGINE="scripted_engine:ScriptedEngine")
        assert f"{NAME} runs with HIVE_STORE format 5, not 5 with rendering: keep" in told
        hive.leave(first)
        second = hive.add(**later)
        hive.wait_for_entry(second)
        hive.leave(second)
        told = refusal_of(hive, code=3)
        assert "hive.json has format 6, but this webcrawl reads only up to 5: use the newer" in told
        hive.wait_for_entry(hive.add(**later))


def is_refused(drone):
    """Whether *drone* ended, with a refusal, before it was accepted."""
    wait_until(lambda: not drone.is_running or "settings differ" in drone.said)
    return drone.process.poll() == 2


def test_a_drone_that_may_be_refused_gets_no_share_of_the_shards(tmp_path):
    with simulated(tmp_path, **SLOW) as web, HiveCrawl(web, tmp_path) as hive:
        hive.join()
        with hive.redis.client() as client:
            client.flushall()  # so that the next drone waits for the reports of all others
            wait_until(lambda: client.hget(STATE, "share") == "12")
            shares = set()
            other = hive.add(CRAWLER_NAME="otherbot")
            wait_until(lambda: shares.add(client.hget(STATE, "share")) or not other.is_running)
        assert is_refused(other)
        assert shares == {"12"}


@pytest.mark.long
def test_a_drone_waits_for_the_reports_of_drones_with_a_longer_lease(tmp_path):
    with simulated(tmp_path, **SLOW) as web, HiveCrawl(web, tmp_path, lease_secs=6.0) as hive:
        (first,) = hive.join()
        first.send(signal.SIGSTOP)
        with hive.redis.client() as client:
            client.flushall()
            other = hive.add(HIVE_LEASE_SECS=hive.lease_secs / 4)
            wait_until(lambda: client.exists(STATE))
        time.sleep(hive.lease_secs / 2)
        first.send(signal.SIGCONT)
        assert is_refused(other)


@pytest.mark.long
def test_other_settings_are_changed_drone_by_drone_while_the_log_and_status_name_them(tmp_path):
    exclusions = tmp_path / "excluded.txt"
    exclusions.write_text("nobody.test\n")
    old = {"POLITENESS_MIN_DELAY": 0.6, "EXCLUSION_FILE": exclusions}
    with (
        simulated(tmp_path, **SLOW | {"mean_pages": 15.0, "max_pages": 20}) as web,
        HiveCrawl(web, tmp_path, **old) as hive,
    ):
        drones = hive.join(2)
        wait_until(lambda: hive.share > 0)
        changed = tmp_path / "changed.txt"
        changed.write_text("nobody.test\nsecret-path.test\n")
        said = "POLITENESS_MIN_DELAY 0.6, not 0.7"
        for number, drone in enumerate(drones):
            hive.leave(drone)
            drone.has_left = False
            drone.settings = {"POLITENESS_MIN_DELAY": 0.7, "EXCLUSION_FILE": changed}
            hive.start_again(drone)
            if number == 0:
                assert "In this drone, settings differ: the hive had EXCLUSION_FILE " in drone.said
                assert f"; {said}\n" in drone.said
                wait_until(lambda one=drone: said in hive.notes().get(one.name, ""))
                assert "secret-path" not in drone.said
            else:
                assert "settings differ" not in drone.said
        wait_until(lambda: "settings differ" not in str(hive.notes()))
        hive.end()
        hive.judge(reads_warc=False)


def test_a_hive_of_a_version_without_settings_in_its_store_is_accepted(tmp_path):
    with simulated(tmp_path, **SLOW) as web, HiveCrawl(web, tmp_path, CRAWLER_NAME="one") as hive:
        (first,) = hive.join()
        hive.leave(first)
        path = tmp_path / "store/hive.json"
        facts = json.loads(path.read_text())
        del facts["settings"], facts["digest"]
        path.write_bytes(seal(facts))
        first.settings = {"CRAWLER_NAME": "other"}
        first.has_left = False
        hive.start_again(first)
        wait_until(lambda: "settings" in path.read_text())
        assert "settings differ" not in first.said
        assert "CRAWLER_NAME other, not one; USER_AGENT other, not one: keep" in refusal_of(hive)


@pytest.mark.long
def test_a_drone_that_joins_elsewhere_contacts_no_host_that_was_purged_or_excluded(tmp_path):
    with (
        simulated(tmp_path, **SLOW) as web,
        HiveCrawl(web, tmp_path, POLITENESS_MIN_DELAY=0.5) as hive,
    ):
        (first,) = hive.join()
        wait_until(lambda: len(access_log(web.log)) > 60)
        hive.leave(first)
        purged, excluded = (web.world.host(number).name for number in (3, 4))
        at = ["-s", f"HIVE={NAME}", "-s", f"HIVE_STORE={tmp_path / 'store'}"]
        done = warm.scrapy("purge", str(first.job), "--host", purged, *at)
        assert done.returncode == 0, (done.stdout, done.stderr)
        assert "Redis' files" in done.stdout
        assert "checkpoints in HIVE_STORE" in done.stdout
        words = ["exclude", excluded, "-s", f"REDIS_URL={first.proxy.url}"]
        done = warm.scrapy("control", *at, *words)
        assert done.stdout == (
            f"exclude {excluded}: written for drones that read the store; "
            f"No drone of the hive {NAME} is running and reaches its Redis.\n"
        )
        assert done.returncode == 2

        joined_at = time.time()
        (other,) = hive.join()
        wait_until(lambda: len([hit for hit in access_log(web.log) if hit.start > joined_at]) > 60)
        hive.redis.kill()
        third = web.world.host(5).name
        words = ["exclude", third, "-s", f"REDIS_URL={first.proxy.url}"]
        done = warm.scrapy("control", *at, *words)
        assert "written for drones that read the store" in done.stdout, done.stderr
        wait_until(lambda: f"exclude {third}" in other.said)
        excluded_at = time.time()
        wait_until(lambda: [hit for hit in access_log(web.log) if hit.start > excluded_at + 1])
        hits = [(hit.host, hit.start) for hit in access_log(web.log)]
        assert {host for host, start in hits if start > joined_at} & {purged, excluded} == set()
        assert {host for host, start in hits if start > excluded_at} & {third} == set()


def test_a_drone_that_can_no_longer_read_commands_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", RIGS)
    with (
        simulated(tmp_path, **SLOW) as web,
        HiveCrawl(web, tmp_path, SCHEDULER="deaf_drone.DeafScheduler") as hive,
    ):
        (drone,) = hive.join()
        at = ["-s", f"HIVE={NAME}", "-s", f"REDIS_URL={drone.proxy.url}"]
        assert warm.scrapy("control", *at, "pause").returncode == 2
        assert drone.process.wait(LIMIT_SECS) > 0
        assert "a fault in webcrawl" in drone.said
        hive.drones.remove(drone)
