"""Signals and clocks: a crawl that is stopped, continued, told to end, or lives through the setting
of its machine's clock is complete by the simulated web's own truth, and polite by its record."""

import dataclasses
import json
import signal
import time
from collections import Counter
from urllib.parse import urlsplit

import pytest
from crawling import (
    access_log,
    damage_in,
    is_robots,
    output_of,
    run_crawl,
    simulated,
    start_crawl,
    url_of_hit,
    wait_until,
)
from patience import SLOWNESS

from webcrawl.simweb import Faults

MIN_DELAY = 0.3
# The system clock as a process sees it: so many seconds wrong, and once it is told set to another.
SET_CLOCKS = """
import os, signal, time

real, wrong_by = time.time, list(map(int, os.environ["WRONG_BY"].split(",")))
signal.signal(signal.SIGUSR1, lambda *_: wrong_by.pop(0))
time.time = lambda: real() + wrong_by[0]
"""


@pytest.fixture(params=[18])
def web(request, tmp_path):
    """*param* is how many pages the largest host has; a page takes MIN_DELAY."""
    with simulated(tmp_path, hosts=30, mean_pages=8.0, max_pages=request.param) as web:
        yield web


def command_of(web, **settings):
    """No host is given up, though each new crawl asks again for the robots.txt of some in vain."""
    return web.command(
        POLITENESS_MIN_DELAY=MIN_DELAY,
        POLITENESS_MAX_DELAY=1,
        POLITENESS_BACKOFF_MAX_SECS=1,
        POLITENESS_MAX_FAILURES=1000,
        **{"DOWNLOAD_TIMEOUT": 50, **settings},
    )


def ends(web):
    log = web.job / "logs/info.jsonl"
    *lines, _ = (log.read_text() if log.exists() else "").split("\n")  # the last is being written
    return [json.loads(line) for line in lines]


def used_rules(web):
    """The robots.txt files of hosts of which a URL has come to its end."""
    ended = {urlsplit(end["url"]).netloc for end in ends(web)}
    hits = filter(has_rules, access_log(web.log))
    return {url_of_hit(hit) for hit in hits if urlsplit(hit.origin).netloc in ended}


def check(web):
    """Everything was fetched, no host was hurried, and the job is sound."""
    assert damage_in(web.job) == []
    web.judge(min_delay=MIN_DELAY)
    given_up = {end["outcome"] for end in ends(web) if end["outcome"][:5] != "http_"}
    assert given_up <= {"robots_denied", "robots_unreachable"}  # as the world has it


def has_rules(hit):
    return is_robots(hit) and hit.status == 200


def test_a_crawl_that_stood_still_beyond_all_time_outs_goes_on_completely_and_politely(web):
    """SIGSTOP: what was under way has timed out, and its leases have expired, when it goes on. As
    after a minute with the settings as they are, which is above each of their time-outs but that of
    leases: six units are above all of these."""
    crawl = start_crawl(
        command_of(
            web,
            DOWNLOAD_TIMEOUT=4 * SLOWNESS,
            NET_CONNECT_TIMEOUT_SECS=3 * SLOWNESS,
            NET_FIRST_BYTE_TIMEOUT_SECS=3 * SLOWNESS,
            FRONTIER_LEASE_SECS=5 * SLOWNESS,
        )
    )
    wait_until(lambda: len(access_log(web.log)) > 80)
    crawl.send_signal(signal.SIGSTOP)
    time.sleep(6 * SLOWNESS)
    crawl.send_signal(signal.SIGCONT)
    output = output_of(crawl)
    assert "finished: nothing is left to fetch" in output
    check(web)


# Large enough not to end before it has been told to for the fifth time.
@pytest.mark.parametrize("web", [30], indirect=True)
def test_a_crawl_that_is_told_to_end_once_and_twice_again_and_again_is_complete_and_polite(web):
    """SIGTERM, SIGINT, and a second signal of either kind while the first one is obeyed."""
    command = command_of(web, CHECKPOINT_INTERVAL_SECS=0.5)
    stop, interrupt = signal.SIGTERM, signal.SIGINT
    for signals in ([interrupt, interrupt], [stop], [stop, interrupt], [interrupt], [stop, stop]):
        before = len(access_log(web.log))
        crawl = start_crawl(command)
        wait_until(lambda before=before: len(access_log(web.log)) > before + 20)
        for number in signals:
            crawl.send_signal(number)
            time.sleep(0.005)  # two signals of a kind that come at once are one
        output_of(crawl)
        assert damage_in(web.job) == []
    last = run_crawl(command)
    assert "finished: nothing is left to fetch" in last.stdout
    check(web)


@pytest.mark.long
@pytest.mark.parametrize("web", [32], indirect=True)
def test_a_clock_that_is_set_forward_and_back_neither_ends_anything_early_nor_draws_it_out(
    web, tmp_path
):
    """While the crawl runs, and while it does not after a kill."""
    (tmp_path / "sitecustomize.py").write_text(SET_CLOCKS)
    # Within the hour by which the clock is set.
    command = command_of(web, ROBOTS_EXPIRE_SECS=1800, CHECKPOINT_INTERVAL_SECS=0.5)

    def begin(wrong_by):
        return start_crawl(["env", f"PYTHONPATH={tmp_path}", f"WRONG_BY={wrong_by}", *command])

    def set_clock(crawl):
        before, ended = len(access_log(web.log)), len(ends(web))
        wait_until(lambda: len(access_log(web.log)) > before + 20 and len(ends(web)) > ended)
        crawl.send_signal(signal.SIGUSR1)

    crawl = begin("-3600,3600")
    set_clock(crawl)
    wait_until(lambda: len(used_rules(web)) > 5)
    known = used_rules(web)
    checkpoints = set()  # host records are handed to the disk once a second
    current = web.job / "CURRENT"
    wait_until(lambda: checkpoints.add(current.read_bytes()) or len(checkpoints) > 5)
    crawl.kill()
    crawl.stderr.close()
    crawl.wait()
    assert damage_in(web.job) == []
    crawl = begin("10800,-7200")
    set_clock(crawl)
    output_of(crawl)
    check(web)
    moments = [end["at"] for end in ends(web)]
    assert max(moments) - min(moments) > 17_000  # it was set while URLs were fetched
    # Rules that hold for half an hour are not asked for again, if they were on disk at the kill.
    answers = Counter(map(url_of_hit, filter(has_rules, web.hits())))
    assert [url for url in known if answers[url] > 1] == []


def test_a_crawl_of_hundreds_of_hosts_ends_with_a_checkpoint_long_before_its_downloads(tmp_path):
    """While most servers do not answer, and are waited for longer than for its output here."""
    faults = dataclasses.replace(Faults.none(), stall=0.6)
    with simulated(tmp_path, hosts=300, mean_pages=4.0, faults=faults, stall_secs=600) as web:
        crawl = start_crawl(web.command(POLITENESS_MIN_DELAY=3, DOWNLOAD_TIMEOUT=600))
        wait_until(lambda: len(access_log(web.log)) > 60)
        crawl.send_signal(signal.SIGTERM)
        output = output_of(crawl)
    assert "Traceback" not in output
    assert "Crawl state saved" in output
    stats = web.stats
    assert stats["frontier/waiting"] > 100
    assert stats["frontier/leased"] == 0
    assert damage_in(web.job) == []
