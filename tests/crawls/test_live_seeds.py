"""Crawls of one process that take seeds from a real Redis, judged by the server's record."""

import re
import signal

import pytest
import warm
from crawling import (
    access_log,
    finish,
    impolite,
    kill,
    pages_asked_for,
    refusal,
    simulated,
    start_contacting,
    wait_until,
)
from patience import LIMIT_SECS
from redis_server import RedisServer
from text_tables import cases
from web_truth import allowed_urls

LIST = "web:start_urls"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with RedisServer(tmp_path_factory.mktemp("redis") / "r") as server:
        yield server


@pytest.fixture
def client(server):
    with server.client() as client:
        client.flushall()
        yield client


def live(web, server, **settings):
    """The command of a crawl that is named no seeds."""
    more = {"LIVE_SEEDS": 1, "REDIS_URL": server.url, "STATISTICS_INTERVAL_SECS": 0.5, **settings}
    command = web.command(**more)
    at = command.index(f"seeds={web.seeds}")
    return [*command[: at - 1], *command[at + 1 :]]


def test_no_seed_is_lost_when_a_crawl_is_killed(tmp_path, server, client):
    with simulated(tmp_path, hosts=40, max_pages=10) as web:
        command = live(web, server, REDIS_START_URLS_BATCH_SIZE=2, CHECKPOINT_INTERVAL_SECS=0.5)
        seeds = web.seeds.read_text().split()
        for start in range(0, len(seeds), 20):
            client.rpush(LIST, *seeds[start : start + 20])
            crawl = start_contacting(command, web.log)
            wait_until(lambda: client.llen(LIST) < 10)
            kill(crawl)
        assert "nothing is left to fetch" in finish(command)
        assert (client.llen(LIST), client.hlen(f"{{{LIST}}}:taken")) == (0, 0)
        hits = web.hits()
        assert {*pages_asked_for(hits)} == allowed_urls(web.world, "webcrawl")
        assert impolite(hits, min_delay=0.05) == []


def test_an_open_crawl_waits_for_seeds_and_ends_with_a_summary(tmp_path, server, client):
    with simulated(tmp_path, hosts=8, max_pages=4) as web:
        first, *others = web.seeds.read_text().split()
        log = tmp_path / "log.txt"
        client.rpush(LIST, first)
        command = live(web, server, KEEP_OPEN=1, LOG_FILE=log, POLITENESS_MIN_DELAY=0.6)
        crawl = warm.Popen(command, text=True, stdout=-1, stderr=-2, stdin=-3)

        def waits():
            return "nothing left: waiting for seeds" in _last_progress(log)

        wait_until(waits)
        client.rpush(LIST, *others)
        wanted = allowed_urls(web.world, "webcrawl")
        wait_until(lambda: {*pages_asked_for(access_log(web.log))} == wanted)
        wait_until(waits)
        new = [f"{first}unknown-{number}" for number in range(5)]
        client.rpush(LIST, *new)
        wait_until(lambda: wanted.union(new) == {*pages_asked_for(access_log(web.log))})
        crawl.send_signal(signal.SIGINT)
        said = crawl.communicate(timeout=LIMIT_SECS)[0]
        assert crawl.returncode == 0, said
        assert "stopped by a signal" in said
        # Nothing is left only when no URL waits.
        wait = re.findall(r"[1-9]\d* waiting, \d+ in process; (.+)", log.read_text())
        assert wait
        assert not [bound for bound in wait if "nothing left" in bound]
        assert impolite(web.hits(), min_delay=0.05) == []


def _last_progress(log):
    lines = log.read_text().splitlines() if log.exists() else []
    return next((line for line in reversed(lines) if re.search(r"in process;", line)), "")


@cases(
    "settings sentence",
    """
        {"JOBDIR": ""} | JOBDIR is empty
        {"LIVE_SEEDS": 0} | No seeds: name a seed list
        {"LIVE_SEEDS": 0, "KEEP_OPEN": 1, "CONTROL_ENABLED": 0, "seeds": "a.test"}
        | KEEP_OPEN needs LIVE_SEEDS=1, a HIVE, or CONTROL_ENABLED=1
        {"offline": 1, "seeds": "docs"} | leave LIVE_SEEDS empty
    """,
)
def test_what_cannot_be_is_one_sentence(tmp_path, settings, sentence):
    given = {"LIVE_SEEDS": 1, "JOBDIR": tmp_path / "job", **settings}
    words = []
    for name, value in given.items():
        words += ["-s" if name.isupper() else "-a", f"{name}={value}"]
    assert sentence in refusal("crawl", "web", *words)
