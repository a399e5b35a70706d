"""REVISIT in a hive: by the servers' record, pages are visited again whichever drone has them."""

import re
import time
from collections import defaultdict
from itertools import pairwise
from subprocess import DEVNULL

import pytest
import warm
from crawling import (
    RIGS,
    ROOT,
    USER_AGENT,
    access_log,
    damage_in,
    finish,
    impolite,
    is_robots,
    printed,
    simulated,
    url_of_hit,
    wait_until,
)
from hive_crawl import MIN_DELAY, NAME, HiveCrawl
from patience import LIMIT_SECS, SLOWNESS
from web_truth import fetchable_urls

SECS = 4.0
REVISIT = {
    "REVISIT": 1,
    "REVISIT_FIRST_SECS": SECS,
    "REVISIT_MIN_SECS": 1,
    "REVISIT_POLICY": "webcrawl.revisit.policies.Uniform",
    "ADDONS": '{"short_hours.ShortHours": 1}',
}


class Web:
    """The simulated web *web*, its pages, and when each was asked for."""

    def __init__(self, web):
        self.web = web
        self._pages = fetchable_urls(web.world, USER_AGENT)

    def times(self):
        found = defaultdict(list, {url: [] for url in self._pages})
        for hit in access_log(self.web.log):
            if not is_robots(hit) and url_of_hit(hit) in self._pages:
                found[url_of_hit(hit)].append(hit.start)
        return found

    def wait_for_visits(self, number, since=0.0):
        """Until each page was asked for so often *since* a time."""

        def are_made():
            times = self.times().values()
            return all(sum(at > since for at in one) >= number for one in times)

        wait_until(are_made, every=0.5)

    def early(self, explains=lambda before, after: False):
        """Pages that were asked for too early, which nothing *explains*."""
        return [
            (url, before, after)
            for url, times in self.times().items()
            for before, after in pairwise(times)
            if after < before + SECS - 1 and not explains(before, after)
        ]


@pytest.fixture
def web(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", RIGS)
    with simulated(tmp_path, hosts=5, max_pages=4, mean_pages=2.0, seed=3) as web:
        yield Web(web)


def hive_status(hive):
    return printed("hive", "status", "-s", f"REDIS_URL={hive.redis.url}", "-s", f"HIVE={NAME}")


@pytest.mark.long
def test_a_hive_visits_its_pages_again_until_it_is_stopped(tmp_path, web):
    with HiveCrawl(web.web, tmp_path, **REVISIT) as hive:
        hive.join(2)
        web.wait_for_visits(3)
        assert len(hive.living) == 2
        wait_until(lambda: re.search(r" nothing left: waiting for visits", hive_status(hive)))
        for drone in hive.drones:
            hive.leave(drone)
        assert all(damage_in(drone.job) == [] for drone in hive.drones)
    assert web.early() == []
    assert impolite(web.web.hits(), min_delay=MIN_DELAY) == []


@pytest.mark.long
def test_visits_go_on_with_their_shards_whatever_becomes_of_a_drone(tmp_path, web):
    with HiveCrawl(web.web, tmp_path, **REVISIT) as hive:
        first, second = hive.join(2)
        web.wait_for_visits(2)
        hive.kill(first)
        hive.start_again(first)  # before its lease has ended
        web.wait_for_visits(2, since=time.time())
        hive.kill(second)  # the others take its shards from the store
        web.wait_for_visits(2, since=time.time() + 2 * hive.lease_secs)
        assert len(hive.shards_of(first)) == 12
        (third,) = hive.join()
        hive.leave(first)
        wait_until(lambda: len(hive.shards_of(third)) == 12)
        web.wait_for_visits(2, since=time.time())
        hive.leave(third)
        assert damage_in(third.job) == []
    assert web.early(hive.explains) == []
    assert impolite(web.web.hits(), min_delay=MIN_DELAY) == []


@pytest.mark.long
def test_a_finished_hive_is_visited_again_after_a_refetch(tmp_path, web):
    command = web.web.command(
        HIVE_SHARDS=8, HIVE_LEASE_SECS=2 * SLOWNESS, CHECKPOINT_INTERVAL_SECS=1
    )
    at = command.index("crawl")
    command[at : at + 1] = ["hive", "--drones", "2"]
    finish(command)
    command += [word for name, value in REVISIT.items() for word in ("-s", f"{name}={value}")]
    with (tmp_path / "said").open("wb") as said:
        hive = warm.Popen(command, cwd=ROOT, stdin=DEVNULL, stdout=said, stderr=said)
    try:
        wait_until(lambda: "REVISIT: pages that" in (tmp_path / "said").read_text())
        assert all(len(times) == 1 for times in web.times().values())
        asked_at = time.time()
        refetch = ("frontier", str(web.web.job), "--refetch", "all")
        wait_until(lambda: warm.scrapy(*refetch).returncode == 0)
        web.wait_for_visits(4)
    finally:
        hive.terminate()
        assert hive.wait(LIMIT_SECS) == 0, (tmp_path / "said").read_text()
    assert web.early(lambda before, after: before < asked_at < after) == []
