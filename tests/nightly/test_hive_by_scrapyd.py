"""A hive whose drones are run by two real scrapyds, as by those of several machines."""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from crawling import ROOT, USER_AGENT, clean_web, damage_in, wait_until
from patience import SLOWNESS
from redis_server import RedisServer
from scrapyd_server import ScrapydServer
from web_truth import allowed_urls

PASSWORD = "p@ss/w:rd"
PAGE = ROOT / "docs/howto/several-machines.md"


def loop_of_the_page():
    """The commands that pack the egg and start a drone on each machine."""
    paragraphs = PAGE.read_text(encoding="utf-8").split("\n\n")
    (loop,) = (one for one in paragraphs if "    for machine in $(cat hosts.txt)" in one)
    return loop


@pytest.fixture
def scrapyds(tmp_path_factory):
    with ExitStack() as stack:  # which stops each, also if another does not stop

        def started(**login):
            server = ScrapydServer(tmp_path_factory.mktemp("machine"), **login)
            stack.callback(server.stop)
            return server

        servers = started(), started(user="me", password=PASSWORD)
        for server in servers:
            server.wait_until_up()
        yield servers


@pytest.fixture
def web(tmp_path):
    with clean_web(tmp_path, hosts=8, mean_pages=4.0, max_pages=8) as web:
        yield web


@pytest.mark.timeout(900)
@pytest.mark.cures("start the drones with scrapyd, as docs/howto/several-machines.md shows")
def test_drones_that_died_or_were_stopped_continue_to_the_end(scrapyds, web, tmp_path):
    simulated, seeds = web
    hosts = tmp_path / "hosts.txt"
    leftovers = tmp_path / "leftovers"  # directories in which scrapyd-deploy has built an egg
    leftovers.mkdir()
    with RedisServer(tmp_path / "redis", port=True) as redis:
        hive_settings = ("-s", "HIVE=news", "-s", f"REDIS_URL={redis.tcp_url}")

        def start(*machines, delay):
            """Run the loop of the page, with this test's machines, seeds, store and settings."""
            hosts.write_text("".join(f"{scrapyd.line}\n" for scrapyd in machines))
            settings = {
                "HIVE_SHARDS": 8,
                "HIVE_LEASE_SECS": 3 * SLOWNESS,
                "DNS_SERVERS": simulated.dns,
                "ALLOW_PRIVATE_ADDRESSES": 1,
                "POLITENESS_MIN_DELAY": delay,
                # A contact that was cut off counts for no longer than this.
                "POLITENESS_MAX_DELAY": delay,
                "POLITENESS_BACKOFF_SECS": 0.1,
                "REDIRECT_MAX_TIMES": 100,
            }
            more = " ".join(f"-d setting={name}={value}" for name, value in settings.items())
            script = loop_of_the_page()
            for old, new in (
                (".venv/bin/", f"{Path(sys.executable).parent}/"),
                ("crawl.egg", f"{tmp_path}/webcrawl.egg"),
                ("hosts.txt", str(hosts)),
                ("/srv/seeds/news.txt", str(seeds)),
                ("s3://crawls/news", f"{tmp_path}/store"),
                ("rediss://:secret@redis:6379", f"{redis.tcp_url} {more}"),
            ):
                assert old in script
                script = script.replace(old, new)
            done = subprocess.run(
                ["bash", "-e"],
                input=script,
                cwd=ROOT,
                env=os.environ | {"TMPDIR": str(leftovers)},
                capture_output=True,
                text=True,
                check=False,
            )
            answers = [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"]
            assert [answer["status"] for answer in answers] == ["ok"] * 2 * len(machines), done

        def hive(use, *options):
            command = [sys.executable, "-m", "scrapy", "hive", use, *options, *hive_settings]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (0, "")
            return done.stdout

        # With such pauses the crawl does not end before it is stopped.
        start(*scrapyds, delay=20)
        wait_until(lambda: all(scrapyd.finished("news-1") for scrapyd in scrapyds))
        (job,) = scrapyds[0].ask("listjobs.json")["running"]
        os.kill(job["pid"], signal.SIGKILL)
        scrapyds[0].wait_for_end("news-1")
        start(scrapyds[0], delay=20)
        wait_until(lambda: "Resuming the crawl in" in scrapyds[0].log("news-1"))
        assert len(json.loads(hive("status", "--json"))["drones"]) == 2
        assert "all drones have stopped, with checkpoints" in hive("stop")
        scrapyds[0].wait_for_end("news-1", runs=2)
        scrapyds[1].wait_for_end("news-1")

        start(*scrapyds, delay=0.5)
        for scrapyd in scrapyds:
            scrapyd.wait_for_end("news-1", runs=3 if scrapyd is scrapyds[0] else 2)
            assert "/crawls/news-1; URLs waiting" in scrapyd.log("news-1")
            assert "end  finished: nothing is left to fetch" in scrapyd.log("news-1")
            assert damage_in(scrapyd.directory / "crawls/news-1") == []
    found = [url for scrapyd in scrapyds for url in scrapyd.finished("news-1")]
    # They divide one crawl; only what the dead one had fetched last is fetched again.
    assert len(found) < 1.5 * len(set(found))
    assert allowed_urls(simulated.world, USER_AGENT) <= set(found)
