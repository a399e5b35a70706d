"""Signals and clocks: a crawl that is stopped, continued, told to end, or lives through the setting
of its machine's clock is complete by the simulated web's own truth, and polite by its record."""

from __future__ import annotations

import dataclasses
import json
import signal
import time
from collections import Counter

import pytest
from crawling import (
    USER_AGENT,
    access_log,
    crawl_command,
    damage_in,
    impolite,
    is_robots,
    pages_asked_for,
    run_crawl,
    start_crawl,
    stats_of,
    url_of_hit,
    wait_until,
)

from webcrawl.simweb import Faults, allowed_urls, preset, start_in_process

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
    world = preset(
        "clean", http_port=0, https_port=0, hosts=50, mean_pages=8.0, max_pages=request.param
    )
    with start_in_process(world, log_path=tmp_path / "access.log") as web:
        yield web


def seeds_of(web, tmp_path):
    path = tmp_path / "seeds.txt"
    path.write_text("\n".join(web.world.seeds()) + "\n")
    return path


def ends(jobdir):
    lines = (jobdir / "logs/info.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def count_of_ends(jobdir):
    log = jobdir / "logs/info.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def check(web, log, jobdir):
    """Everything was fetched, no host was hurried, and the job is sound. Returns the record."""
    assert damage_in(jobdir) == []
    allowed = allowed_urls(web.world, USER_AGENT)
    web.stop()  # only then is all of the record written
    hits = access_log(log)
    assert set(pages_asked_for(hits)) == allowed
    assert impolite(hits, min_delay=MIN_DELAY) == []
    given_up = {end["outcome"] for end in ends(jobdir) if end["outcome"][:5] != "http_"}
    assert given_up <= {"robots_denied", "robots_unreachable"}  # as the world has it
    return hits


def has_rules(hit):
    return is_robots(hit) and hit.status == 200


def test_a_crawl_that_stood_still_beyond_all_time_outs_goes_on_completely_and_politely(
    web, tmp_path
):
    """SIGSTOP: what was under way has timed out, and its leases have expired, when it goes on. As
    after a minute with the settings as they are, which is above each of their time-outs but that of
    leases: six seconds are above all of these."""
    log, job = tmp_path / "access.log", tmp_path / "job"
    crawl = start_crawl(
        crawl_command(
            web,
            seeds_of(web, tmp_path),
            job,
            POLITENESS_MIN_DELAY=MIN_DELAY,
            POLITENESS_MAX_DELAY=1,
            DOWNLOAD_TIMEOUT=4,
            NET_CONNECT_TIMEOUT_SECS=3,
            NET_FIRST_BYTE_TIMEOUT_SECS=3,
            FRONTIER_LEASE_SECS=5,
        )
    )
    wait_until(lambda: len(access_log(log)) > 80)
    crawl.send_signal(signal.SIGSTOP)
    time.sleep(6)
    crawl.send_signal(signal.SIGCONT)
    output = crawl.communicate(timeout=100)[1]
    assert crawl.returncode == 0, output
    assert "finished: nothing is left to fetch" in output
    check(web, log, job)


# Large enough not to end before it has been told to for the fifth time.
@pytest.mark.parametrize("web", [30], indirect=True)
def test_a_crawl_that_is_told_to_end_once_and_twice_again_and_again_is_complete_and_polite(
    web, tmp_path
):
    """SIGTERM, SIGINT, and a second signal of either kind while the first one is obeyed."""
    log, job = tmp_path / "access.log", tmp_path / "job"
    command = crawl_command(
        web,
        seeds_of(web, tmp_path),
        job,
        POLITENESS_MIN_DELAY=MIN_DELAY,
        POLITENESS_MAX_DELAY=1,
        CHECKPOINT_INTERVAL_SECS=0.5,
    )
    stop, interrupt = signal.SIGTERM, signal.SIGINT
    for signals in ([interrupt, interrupt], [stop], [stop, interrupt], [interrupt], [stop, stop]):
        before = len(access_log(log))
        crawl = start_crawl(command)
        wait_until(lambda before=before: len(access_log(log)) > before + 20)
        for number in signals:
            crawl.send_signal(number)
            time.sleep(0.005)  # two signals of a kind that come at once are one
        output = crawl.communicate(timeout=30)[1]
        assert crawl.returncode == 0, output
        assert damage_in(job) == []
    last = run_crawl(command)
    assert "finished: nothing is left to fetch" in last.stdout
    check(web, log, job)


@pytest.mark.parametrize("web", [25], indirect=True)
def test_a_clock_that_is_set_forward_and_back_neither_ends_anything_early_nor_draws_it_out(
    web, tmp_path
):
    """While the crawl runs, and while it does not after a kill."""
    log, job = tmp_path / "access.log", tmp_path / "job"
    (tmp_path / "sitecustomize.py").write_text(SET_CLOCKS)
    command = crawl_command(
        web,
        seeds_of(web, tmp_path),
        job,
        POLITENESS_MIN_DELAY=MIN_DELAY,
        POLITENESS_MAX_DELAY=1,
        # Within the hour by which the clock is set.
        ROBOTS_EXPIRE_SECS=1800,
    )

    def begin(wrong_by):
        return start_crawl(["env", f"PYTHONPATH={tmp_path}", f"WRONG_BY={wrong_by}", *command])

    def set_clock(crawl):
        before, ended = len(access_log(log)), count_of_ends(job)
        wait_until(lambda: len(access_log(log)) > before + 20 and count_of_ends(job) > ended)
        crawl.send_signal(signal.SIGUSR1)

    crawl = begin("-3600,3600")
    set_clock(crawl)
    wait_until(lambda: sum(map(has_rules, access_log(log))) > 8)
    began_at = time.time()
    wait_until(lambda: time.time() > began_at + 2.5)
    crawl.kill()
    killed_at = time.time()
    crawl.stderr.close()
    crawl.wait()
    assert damage_in(job) == []
    crawl = begin("10800,-7200")
    set_clock(crawl)
    output = crawl.communicate(timeout=100)[1]
    assert crawl.returncode == 0, output
    hits = check(web, log, job)
    moments = [end["at"] for end in ends(job)]
    assert max(moments) - min(moments) > 17_000  # it was set while URLs were fetched
    # Rules that hold for half an hour are not asked for again, if they were on disk at the kill.
    rules = [hit for hit in hits if has_rules(hit)]
    known = {url_of_hit(hit) for hit in rules if hit.end < killed_at - 2.2}
    answers = Counter(map(url_of_hit, rules))
    assert len(known) > 5
    assert [url for url in known if answers[url] > 1] == []


def test_a_crawl_of_hundreds_of_hosts_ends_within_ten_seconds_with_a_checkpoint(tmp_path):
    """With the settings as they are, while most servers do not answer."""
    faults = dataclasses.replace(Faults.none(), stall=0.6)
    world = preset(
        "clean", http_port=0, https_port=0, hosts=500, mean_pages=4.0, faults=faults, stall_secs=60
    )
    job = tmp_path / "job"
    with start_in_process(world, log_path=tmp_path / "access.log") as web:
        command = crawl_command(
            web, seeds_of(web, tmp_path), job, POLITENESS_MIN_DELAY=3, DOWNLOAD_TIMEOUT=60
        )
        crawl = start_crawl(command)
        wait_until(lambda: len(access_log(tmp_path / "access.log")) > 60)
        crawl.send_signal(signal.SIGTERM)
        told_at = time.monotonic()
        output = crawl.communicate(timeout=60)[1]
        took = time.monotonic() - told_at
    assert crawl.returncode == 0, output
    assert took < 10, output
    assert "Traceback" not in output
    assert "Crawl state saved" in output
    stats = stats_of(job)
    assert stats["frontier/waiting"] > 100
    assert stats["frontier/leased"] == 0
    assert damage_in(job) == []
