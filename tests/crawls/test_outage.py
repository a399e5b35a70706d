"""Crawls through an outage: everything is fetched in the end, and nothing was given up."""

from __future__ import annotations

import asyncio
import json
import select
import socket
import threading
import time
from collections import Counter
from types import SimpleNamespace

import pytest
from crawling import (
    USER_AGENT,
    access_log,
    crawl_command,
    impolite,
    pages_asked_for,
    run_crawl,
    simulated,
    start_crawl,
    stats_of,
    wait_until,
)
from loopback import name_server, raw_server, zone

from webcrawl.simweb import allowed_urls, start_in_process

MIN_DELAY = 0.2
# No more patience than a busy machine needs: without the breaker, hosts and URLs would be given up
# at once.
SETTINGS = {
    "POLITENESS_MIN_DELAY": MIN_DELAY,
    "POLITENESS_MAX_DELAY": 1,
    "POLITENESS_MAX_FAILURES": 3,
    "FRONTIER_RETRY_TIMES": 1,
    "NET_CONNECT_TIMEOUT_SECS": 2,
    "NET_FIRST_BYTE_TIMEOUT_SECS": 2,
    "DNS_QUERY_TIMEOUT_SECS": 1,
    "DNS_TRIES": 1,
    "OUTAGE_HOSTS": 8,
    "OUTAGE_PROBE_SECS": 0.3,
    "STATS_FILE_INTERVAL_SECS": 0.2,
}


def outcomes(jobdir):
    """With which URLs came to their last end: one that was given up when nobody knew yet of the
    outage has a line for that, and comes back."""
    lines = (jobdir / "logs/info.jsonl").read_text().splitlines()
    ends = [json.loads(line) for line in lines]
    return Counter({end["url"]: end["outcome"] for end in ends}.values())


def test_a_web_that_is_gone_for_a_while_costs_no_url_and_no_host(tmp_path):
    # Without robots.txt files that are a server's failure: those of the run-up are asked for anew
    # a minute later.
    with simulated(tmp_path, hosts=60, mean_pages=8.0, max_pages=20, restricting=0.0) as web:
        log, job = web.log, web.job
        crawl = start_crawl(web.command(**SETTINGS))
        wait_until(lambda: len(access_log(log)) > 150)
    wait_until(lambda: "network" in stats_now(job))
    time.sleep(2.5)
    before = len(access_log(log))
    port = int(web.web.dns.rpartition(":")[2])
    with start_in_process(web.world, log_path=log, dns_port=port):
        _, output = crawl.communicate(timeout=120)
    assert crawl.returncode == 0, output
    hits = access_log(log)
    assert len(hits) > before + 150
    assert set(pages_asked_for(hits)) == allowed_urls(web.world, USER_AGENT)
    assert impolite(hits, min_delay=MIN_DELAY) == []
    stats = stats_of(job)
    assert stats["outage/count"] >= 1
    assert stats["pauses/network_secs"] > 2
    assert "The crawl pauses: " in output
    assert "the network is back after" in output
    ended = outcomes(job)
    # The server ends with some of its connections, and what others had sent is still read: their
    # hosts answer, which is no outage yet.
    assert ended.pop("connection_lost", 0) + ended.pop("connect_refused", 0) <= 5
    assert [name for name in ended if not name.startswith("http_")] == []


class NameServerInBetween:
    """Hands questions on to *server*, and answers back, unless it is ``gone``; if it
    ``knows_nothing``, no name exists."""

    def __init__(self, server):
        host, _, port = server.rpartition(":")
        self._server = (host, int(port))
        self._front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._front.bind(("127.0.0.1", 0))
        self._back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._waiting = {}
        self.gone = self.knows_nothing = False
        self.dns = f"127.0.0.1:{self._front.getsockname()[1]}"
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._ends.is_set():
            for ready in select.select([self._front, self._back], [], [], 0.05)[0]:
                data, sender = ready.recvfrom(4096)
                if ready is self._front and self.knows_nothing:
                    self._front.sendto(data[:2] + b"\x81\x83" + data[4:], sender)
                elif ready is self._front and not self.gone:
                    self._waiting[data[:2]] = sender
                    self._back.sendto(data, self._server)
                elif ready is self._back and data[:2] in self._waiting:
                    self._front.sendto(data, self._waiting.pop(data[:2]))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._ends.set()
        self._thread.join()
        self._front.close()
        self._back.close()


def test_name_servers_that_are_gone_for_a_while_cost_no_url_and_no_host(tmp_path):
    # So few at a time that names are left to be looked up.
    few = {
        "CONCURRENT_REQUESTS": 4,
        "FRONTIER_BACK_QUEUES": 12,
        "FRONTIER_BACK_QUEUES_MAX": 12,
    }
    with (
        simulated(tmp_path, hosts=150, mean_pages=4.0, max_pages=12) as web,
        NameServerInBetween(web.web.dns) as between,
    ):
        crawl = start_crawl(web.command(**SETTINGS, **few, DNS_SERVERS=between.dns))
        wait_until(lambda: len(access_log(web.log)) > 40)
        between.gone = True
        wait_until(lambda: "name service" in stats_now(web.job))
        time.sleep(2)
        between.gone = False
        _, output = crawl.communicate(timeout=120)
    assert crawl.returncode == 0, output
    assert set(pages_asked_for(web.hits())) == allowed_urls(web.world, USER_AGENT)
    assert stats_of(web.job)["outage/count"] >= 1
    assert "the name service is back after" in output
    assert "dns_failed" not in outcomes(web.job)


def test_no_url_is_given_up_until_the_first_name_was_resolved(tmp_path):
    settings = SETTINGS | {"STATISTICS_INTERVAL_SECS": 0.5, "POLITENESS_MIN_DELAY": 0.05}
    with (
        simulated(tmp_path, hosts=24, mean_pages=3.0, max_pages=8) as web,
        NameServerInBetween(web.web.dns) as between,
    ):
        between.knows_nothing = True
        crawl = start_crawl(web.command(**settings, DNS_SERVERS=between.dns))
        wait_until(lambda: "No name has ever been found" in stats_now(web.job))
        time.sleep(2)
        assert (web.job / "logs/info.jsonl").read_bytes() == b""
        between.knows_nothing = False
        _, output = crawl.communicate(timeout=120)
    assert crawl.returncode == 0, output
    assert set(pages_asked_for(web.hits())) == allowed_urls(web.world, USER_AGENT)
    assert "dns_not_found" not in outcomes(web.job)
    assert "0 in process; paused: name servers" in output
    told = output.index("The crawl pauses: ")
    assert output.count("the name service is back") == 1 == output.count("The crawl pauses: ")
    assert told < output.index("the name service is back")


def test_a_job_that_no_host_ever_answered_ends_by_itself_and_is_resumed(tmp_path):
    settings = SETTINGS | {"OUTAGE_END_SECS": 1, "POLITENESS_MIN_DELAY": 0.05}
    with (
        simulated(tmp_path, hosts=12, mean_pages=3.0, max_pages=6) as web,
        NameServerInBetween(web.web.dns) as between,
    ):
        between.gone = True
        command = web.command(**settings, DNS_SERVERS=between.dns)
        for _ in range(2):  # a run before it is no answer
            done = run_crawl(command)
            assert done.returncode == 5, done.stdout
            assert "stopped: no host has ever answered; look at the network" in done.stdout
        between.gone = False
        done = run_crawl(command)
    assert done.returncode == 0, done.stdout
    assert set(pages_asked_for(web.hits())) == allowed_urls(web.world, USER_AGENT)


@pytest.mark.parametrize("is_mute", [False, True], ids=["dropping", "mute"])
def test_hosts_that_answer_once_and_ban_the_crawler_then_are_no_outage(tmp_path, is_mute):
    """What a firewall does: it accepts each connection, and drops it or sends nothing."""
    hosts = [f"h{n}.com" for n in range(25)]
    asked = Counter()

    async def answer_once(reader, writer):
        while head := await reader.readuntil(b"\r\n\r\n"):
            host = head.lower().partition(b"\nhost:")[2].split()[0].partition(b":")[0].decode()
            asked[host] += 1
            if asked[host] > 1:
                await asyncio.sleep(60 * is_mute)
                return
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    async def crawl():
        records = {host: ["300 A 127.0.0.1"] for host in hosts}
        async with name_server(zone(records)) as names, raw_server(answer_once) as server:
            seeds = tmp_path / "seeds.txt"
            seeds.write_text("".join(f"http://{host}:{server.port}/\n" for host in hosts))
            web = SimpleNamespace(dns=f"127.0.0.1:{names.port}")
            settings = SETTINGS | {"OUTAGE_HOSTS": 20, "NET_FIRST_BYTE_TIMEOUT_SECS": 1}
            command = crawl_command(web, seeds, tmp_path / "job", **settings)
            return await asyncio.to_thread(run_crawl, command)

    done = asyncio.run(crawl())
    assert done.returncode == 0, done.stdout
    # Each of them had its robots.txt and its page, which was tried twice.
    assert asked == dict.fromkeys(hosts, 3)
    ended = outcomes(tmp_path / "job")
    assert ended == {"first_byte_timeout" if is_mute else "connection_lost": 25}
    assert is_mute or "outage/count" not in stats_of(tmp_path / "job")


def stats_now(job):
    try:
        return str(stats_of(job).get("pauses/now", ""))
    except FileNotFoundError:
        return ""
