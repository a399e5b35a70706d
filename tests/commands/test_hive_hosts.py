"""``scrapy hive up|status|stop --hosts FILE`` with two real scrapyds."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest
import warm
from crawling import USER_AGENT, clean_web, damage_in, refusal
from patience import SLOWNESS
from redis_server import RedisServer, free_port
from scrapyd_server import ScrapydServer
from web_truth import allowed_urls

from webcrawl.hive.launch.scrapyd_api import Machine

PASSWORD = "p@ss/w:rd"
DEPRECATED = "hive up goes with webcrawl 0.5: "

# Each drone is a process that imports Scrapy itself: `hive up` took two minutes beside other work.
pytestmark = pytest.mark.timeout(900)


def hive(*arguments, **options):
    """Its exit code, and the text of each machine by the machine's name."""
    command = [sys.executable, "-m", "scrapy", "hive", *map(str, arguments)]
    done = warm.run(command, stderr=subprocess.STDOUT, timeout=300 * SLOWNESS, **options)
    assert PASSWORD not in done.stdout
    lines = [line for line in done.stdout.splitlines() if not line.startswith(DEPRECATED)]
    assert (
        len(lines) < len(done.stdout.splitlines()) or arguments[0] != "up" or done.returncode == 2
    )
    return done.returncode, dict(line.split("  ", 1) for line in lines)


@pytest.fixture(scope="module")
def daemons(tmp_path_factory):
    with ExitStack() as stack:  # which stops each, also if another does not stop

        def started(**login):
            server = ScrapydServer(tmp_path_factory.mktemp("daemon"), **login)
            stack.callback(server.stop)
            return server

        servers = started(), started(user="me", password=PASSWORD)
        for server in servers:
            server.wait_until_up()
        yield servers


@pytest.fixture
def hosts(daemons, tmp_path):
    path = tmp_path / "hosts.txt"
    lines = [daemon.line for daemon in daemons]
    path.write_text("# the machines of the test\n\n" + "\n".join(lines) + "  # the last\n")
    return path


@pytest.fixture
def dead_machine():
    """One at which nothing listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield f"localhost:{unused.getsockname()[1]}"


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    with clean_web(tmp_path_factory.mktemp("web"), hosts=8, mean_pages=4.0, max_pages=8) as web:
        yield web


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    with RedisServer(tmp_path_factory.mktemp("redis"), port=True) as server:
        yield server


@pytest.fixture
def start(hosts, redis, web, tmp_path):
    """Of the name of a hive: the words that start it."""
    simulated, seeds = web

    def words(name, hosts=hosts, seeds=seeds, delay=5):
        settings = {
            "HIVE": name,
            "HIVE_SHARDS": 8,
            "HIVE_LEASE_SECS": 3 * SLOWNESS,
            "HIVE_STORE": tmp_path / "store",
            "REDIS_URL": redis.tcp_url,
            "DNS_SERVERS": simulated.dns,
            "ALLOW_PRIVATE_ADDRESSES": 1,
            "POLITENESS_MIN_DELAY": delay,
            # A contact that was cut off counts for no longer than this.
            "POLITENESS_MAX_DELAY": delay,
            "POLITENESS_BACKOFF_SECS": 0.1,
            "REDIRECT_MAX_TIMES": 100,
            "STATISTICS_INTERVAL_SECS": 1,
        }
        given = [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
        return ["up", "--hosts", hosts, "web", "-a", f"seeds={seeds}", *given]

    return words


@pytest.fixture
def names(daemons):
    return [daemon.name for daemon in daemons]


@pytest.mark.cures(
    "REDIS_URL is not set. Name a Redis that all machines can reach",
    "scrapyd's drones have no monitor: leave out MONITOR_PORT.",
    "scrapyd reserves {}: choose other names.",
)
def test_drones_are_started_shown_and_stopped(daemons, hosts, names, dead_machine, start):
    hive_name = ("-s", "HIVE=news")
    more = ("-s", "LOG_JSON=1", "-s", f"METRICS_PORT={free_port()}")
    wider = hosts.with_name("wider.txt")
    wider.write_text(f"{dead_machine}\n{hosts.read_text()}")
    words = start("news", wider)
    for wrong, sentence in (
        ([*words, "-s", "REDIS_URL="], "REDIS_URL is not set. Name a Redis that all machines"),
        ([*words, "-s", "MONITOR_PORT=8000"], "have no monitor: leave out MONITOR_PORT."),
        ([*words, "-a", "jobid=1"], "scrapyd reserves jobid: choose other names."),
    ):
        assert sentence in refusal("hive", *wrong)
    code, told = hive(*start("news", wider), *more)
    assert code == 1
    assert told.pop(dead_machine) == "does not answer: Connection refused"
    assert told == dict.fromkeys(names, "news-1 started")
    ports = {(one.directory / "crawls/news-1/ports.json").read_text() for one in daemons}
    assert len(ports) == len(daemons)
    assert hive(*start("news")) == (0, dict.fromkeys(names, "news-1 already running"))

    daemons[1].process.send_signal(signal.SIGSTOP)
    try:
        code, told = hive("status", "--hosts", hosts, "--timeout", f"{4 * SLOWNESS:g}", *hive_name)
    finally:
        daemons[1].process.send_signal(signal.SIGCONT)
    assert code == 1
    assert told.pop(names[1]) == f"does not answer within {4 * SLOWNESS:g} s"
    assert {*told} == {names[0]}
    assert all(text.startswith("news-1 running since 20") for text in told.values())

    saved = "news-1 ended with a checkpoint: stopped by a signal"
    assert hive("stop", "--hosts", hosts, *hive_name) == (0, dict.fromkeys(names, saved))
    assert hive("status", "--hosts", hosts, *hive_name) == (1, dict.fromkeys(names, saved))


@pytest.mark.long
def test_drones_that_died_or_were_stopped_continue_to_the_end(daemons, hosts, names, start, web):
    hive_name = ("-s", "HIVE=again")
    started = (0, dict.fromkeys(names, "again-1 started"))
    assert hive(*start("again")) == started
    (job,) = daemons[0].ask("listjobs.json")["running"]
    os.kill(job["pid"], signal.SIGKILL)
    daemons[0].wait_for_end("again-1")
    code, told = hive("status", "--hosts", hosts, *hive_name)
    assert (code, told[names[0]]) == (
        1,
        "again-1 ended without a checkpoint in its log: its log does not say why",
    )
    mended = dict.fromkeys(names, "again-1 already running") | {names[0]: "again-1 started"}
    assert hive(*start("again")) == (0, mended)
    saved = "again-1 ended with a checkpoint: stopped by a signal"
    assert hive("stop", "--hosts", hosts, *hive_name) == (0, dict.fromkeys(names, saved))
    assert hive(*start("again", delay=0.5)) == started
    for daemon in daemons:
        daemon.wait_for_end("again-1", runs=3 if daemon is daemons[0] else 2)
        assert "/crawls/again-1; URLs waiting" in daemon.log("again-1")
        assert damage_in(daemon.directory / "crawls/again-1") == []
    found = [url for daemon in daemons for url in daemon.finished("again-1")]
    # They divide one crawl; only what the dead one had fetched last is fetched again.
    assert len(found) < 1.5 * len(set(found))
    assert allowed_urls(web[0].world, USER_AGENT) <= set(found)
    end = "again-1 ended with a checkpoint: finished: nothing is left to fetch"
    assert hive("status", "--hosts", hosts, *hive_name) == (0, dict.fromkeys(names, end))
    gone = "no drone of again is running"
    assert hive("stop", "--hosts", hosts, *hive_name) == (0, dict.fromkeys(names, gone))


def test_a_hive_without_a_seed_has_not_started(daemons, hosts, names, start, tmp_path):
    (tmp_path / "none.txt").write_text("a seed?\n" * 400_000)  # read for seconds
    hosts.write_text(daemons[0].line)
    code, told = hive(*start("none", seeds=tmp_path / "none.txt"))
    assert (code, {*told}) == (1, {names[0]})
    assert "No seeds in " in told[names[0]], told


@pytest.mark.long
def test_a_drone_that_cannot_start_is_named_with_its_reason(daemons, hosts, start):
    hosts.write_text(daemons[1].line)
    code, told = hive(*start("lost", seeds="mine.txt"), "--drones", 2)
    assert code == 1
    for text in told.values():
        assert "ended immediately: Cannot read the seeds in mine.txt: No such file" in text
    # The command waits for one of them; the other would wait for Redis, which ends before scrapyd.
    for name in ("lost-1", "lost-2"):
        daemons[1].wait_for_end(name)


def test_a_wrong_password_is_named(daemons, hosts):
    hosts.write_text(daemons[1].line.replace("me:", "you:"))
    sentence = "refuses the user and password in the hosts file"
    assert hive("status", "--hosts", hosts, "-s", "HIVE=n") == (1, {daemons[1].name: sentence})


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("", "must have 1 to 1000 machines, not 0."),
        ("one\nftp://me:secret@two", "Line 2 of {} must be the URL of a scrapyd"),
        ("one\nhttp://ONE:6800/", "Line 2 of {} names one:6800 again."),
        ("http://me:secret@one:port", "Line 1 of {} must be the URL of a scrapyd"),
    ],
)
def test_an_invalid_hosts_file_is_reported_in_a_sentence(tmp_path, lines, sentence):
    path = tmp_path / "hosts.txt"
    path.write_text(lines)
    said = refusal("hive", "status", "--hosts", path, "-s", "HIVE=news")
    assert sentence.format(path) in said
    assert "secret" not in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("up --hosts one.txt", "usage: scrapy hive up --hosts FILE SPIDER"),
        ("sing --hosts one.txt", "usage: scrapy hive up --hosts FILE SPIDER"),
        ("status --hosts no.txt -s HIVE=n", "'no.txt' cannot be read: No such"),
        ("up --hosts one.txt web -s HIVE=../x", "HIVE must be a name of at most 64 letters"),
        ("up --hosts one.txt web", "HIVE must be a name of at most 64 letters"),
        (
            "up --hosts one.txt web -s HIVE=n -s REDIS_URL=redis://one -s HIVE_STORE=store",
            "HIVE_STORE must be a URL or an absolute path, the same on all machines, not 'store'",
        ),
    ],
)
def test_impossible_command_lines_end_with_a_sentence(tmp_path, words, sentence):
    path = tmp_path / "one.txt"
    path.write_text("one\n")
    assert sentence in refusal("hive", *words.replace("one.txt", str(path)).split())


@pytest.mark.parametrize(
    ("line", "machine"),
    [
        ("one", ("http://one:6800/", "", "")),
        ("one:81", ("http://one:81/", "", "")),
        ("https://me:a%40b@one.example/under/", ("https://one.example:443/under/", "me", "a@b")),
        ("http://[::1]/", ("http://[::1]:6800/", "", "")),
    ],
)
def test_a_machine_may_be_named_in_short(line, machine):
    assert Machine.of(line) == machine
