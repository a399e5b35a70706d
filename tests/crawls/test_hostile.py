"""The hostile-server suite: one real crawl over every kind of broken or malicious answer.

The table is tests/data/hostile.toml. The crawl runs as a user runs it, with short time-outs; beside
it runs a second one, with the address guard on, that is led to the addresses of this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import subprocess
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
import warcio.archiveiterator
import warm
from crawling import RIGS, ROOT, crawl_of_urls, stats_of, warc_pages
from hostile import KINDS
from hostile_guard import Traps
from hostile_server import HostileServers
from patience import SLOWNESS, slowness_now
from warc_checks import complaints

if TYPE_CHECKING:
    from pathlib import Path

# Seconds between two contacts, of which the server may be late to notice that one was broken off.
# On a machine with other work these and all time-outs are longer, up to MOST times.
PAUSE = 1.0
NOTICE = 0.8
MOST = 5
PAGE_MAX_BYTES = 1 << 20
# What the crawl may take on a machine that has other things to do. It takes 18 s, most of them
# pauses, 3 of CPU, 153 MB, 90 of them before the first page, 0.1 s for the longest work between two
# ticks of 20 ms (no kind alone takes more than 41 ms), and its log has 4 kB. On a machine that
# stops now and then the answers to all requests under way are worked on between two ticks: 0.6 s
# were seen.
MAX_SECONDS = 250 * SLOWNESS  # reached only by a crawl that hangs
MAX_CPU_SECS = 30.0
MAX_MEMORY_KB = 256 * 1024
MAX_WORK_SECS = 2.0
MAX_LOG_BYTES = 32 * 1024

# As short as they can be where the machine may be slower than any server that is meant to be sound.
TIMES = {
    "DOWNLOAD_TIMEOUT": 8,
    "NET_CONNECT_TIMEOUT_SECS": 3,
    "NET_FIRST_BYTE_TIMEOUT_SECS": 3,
    "NET_MIN_RATE_SECS": 4,
    "DNS_QUERY_TIMEOUT_SECS": 1,
    "POLITENESS_MIN_DELAY": PAUSE,
    "POLITENESS_MAX_DELAY": 2,
    "POLITENESS_BACKOFF_SECS": PAUSE,
    "POLITENESS_BACKOFF_MAX_SECS": 2,
    "POLITENESS_MAX_RETRY_AFTER_SECS": 2,
}
SETTINGS = {
    "CONCURRENT_REQUESTS": 64,
    "POLITENESS_DELAY_FACTOR": 0.2,
    "POLITENESS_JITTER": 0,
    "FRONTIER_RETRY_TIMES": 1,
    "REDIRECT_MAX_TIMES": 3,  # as many as the table has
    "PAGE_MAX_BYTES": PAGE_MAX_BYTES,
    "PAGE_MAX_LINKS": 8,  # as many as the table has
    "EXTENSIONS": '{"hostile_probe.Probe": 1}',
}


@dataclass
class Crawl:
    """What is left of a crawl that has ended."""

    directory: Path
    code: int = -1
    output: str = ""
    outcomes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    pages: dict[str, list[dict[str, object]]] = field(default_factory=lambda: defaultdict(list))
    process: dict[str, float] = field(default_factory=dict)

    def read_report(self):
        """Read what the probe has written; nothing if the crawl failed before its end."""
        if self.code not in (0, 2):  # 2: there was nothing to fetch
            return
        for line in (self.directory / "report").read_text(encoding="utf-8").splitlines():
            match json.loads(line):
                case {"url": url, "outcome": outcome}:
                    self.outcomes[url].append(outcome)
                case {"page": url, **facts}:
                    self.pages[url].append(facts)
                case facts:
                    self.process = facts


def prepare(directory, seeds, **settings):
    """The command that crawls from *seeds* with *settings*, in *directory*."""
    directory.mkdir()
    files = {"LOG_FILE": directory / "log", "HOSTILE_REPORT": directory / "report"}
    return crawl_of_urls(directory, *seeds, **SETTINGS, **files, **settings)


async def run_crawl(command, crawl):
    """Run *command* to its end. Stops it in order when its time is up, to see what it has done."""
    process = warm.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": RIGS},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    late = asyncio.get_running_loop().call_later(MAX_SECONDS, process.terminate)
    try:
        crawl.output, _ = await asyncio.to_thread(process.communicate)
    finally:
        late.cancel()
        process.kill()
    crawl.code = process.returncode


@dataclass
class Evidence:
    """Both crawls, and what the servers have seen of them."""

    servers: HostileServers
    traps: Traps
    crawl: Crawl
    guarded: Crawl
    slower: float


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    directory = tmp_path_factory.mktemp("hostile")
    slower = min(slowness_now(), MOST)
    times = {name: slower * value for name, value in TIMES.items()}

    async def scenario():
        servers = HostileServers()
        traps = Traps()
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(servers.serving())
            await stack.enter_async_context(traps.set_up())
            gophers = [site for site in servers.sites.values() if site.kind.scheme == "gopher"]
            unguarded = times | {
                "DNS_SERVERS": servers.dns,
                "GOPHER_PORTS": ",".join(str(site.hostile_port) for site in gophers),
            }
            guarded = times | {"DNS_SERVERS": traps.dns, "ALLOW_PRIVATE_ADDRESSES": 0}
            await asyncio.gather(
                run_crawl(prepare(one.directory, list(servers.seeds()), **unguarded), one),
                run_crawl(prepare(other.directory, traps.urls(), **guarded), other),
            )
        return Evidence(servers, traps, one, other, slower)

    one, other = Crawl(directory / "crawl"), Crawl(directory / "guarded")
    evidence = asyncio.run(scenario())
    one.read_report()
    other.read_report()
    return evidence


@pytest.fixture
def crawl(evidence):
    return evidence.crawl


@pytest.fixture
def sites(evidence):
    return evidence.servers.sites


def test_there_are_more_than_190_kinds_of_hostile_hosts():
    assert len({kind.name for kind in KINDS}) == len(KINDS) > 190
    assert len({kind.outcome for kind in KINDS}) > 25


def test_the_crawl_comes_to_its_end(crawl):
    assert crawl.code == 0, crawl.output
    assert "finished: nothing is left to fetch" in crawl.output


def test_the_log_has_no_errors_and_is_short(crawl):
    log = (crawl.directory / "log").read_text(encoding="utf-8")
    assert "Traceback" not in log
    assert " ERROR: " not in log
    assert len(log) < MAX_LOG_BYTES


def test_every_kind_ends_in_its_outcome_and_the_crawl_goes_on(crawl, sites):
    expected = {url: [end] for site in sites.values() for url, end in site.expected().items()}
    got = {url: crawl.outcomes.get(url) for url in expected}
    assert {url: (got[url], end) for url, end in expected.items() if got[url] != end} == {}


def test_stored_pages_are_bounded_and_marked_where_they_were_cut(crawl, sites):
    for site in sites.values():
        if site.kind.outcome == "http_200":
            (page,) = crawl.pages[site.url()]
            assert (site.kind.name, page["truncated"]) == (site.kind.name, site.kind.cut)
    assert max(page["size"] for pages in crawl.pages.values() for page in pages) <= PAGE_MAX_BYTES


def test_no_url_came_up_that_nobody_expected(crawl, sites):
    expected = {url for site in sites.values() for url in site.expected()}
    assert set(crawl.outcomes) == expected


def test_what_robots_txt_forbids_was_never_asked_for(sites):
    asked = {contact.path for site in sites.values() for contact in site.contacts}
    assert "/good" in asked
    assert not any(path.startswith("/private") for path in asked)


def test_every_end_is_counted_under_its_name(crawl):
    counted = {
        name.removeprefix("outcome/"): count
        for name, count in stats_of(crawl.directory / "job").items()
        if name.startswith("outcome/")
    }
    assert counted == Counter(itertools.chain.from_iterable(crawl.outcomes.values()))


def test_every_ordinary_page_is_in_the_warc_as_it_was_sent(crawl, sites):
    stored = dict(warc_pages(crawl.directory / "job" / "warc"))
    for site in sites.values():
        if site.has_address:
            assert stored[site.good_url] == site.good_body()


def test_the_warc_files_are_valid_and_hold_every_page(crawl):
    paths = sorted((crawl.directory / "job" / "warc").glob("*.warc.gz"))
    assert paths
    for path in paths:
        found = complaints(path)
        # "warcio check" unpacks brotli as brotli has not had it since 1.2, so warcio is asked here.
        found.pop("warcio", None)
        assert found == {}
        with path.open("rb") as stream:
            for record in warcio.archiveiterator.ArchiveIterator(stream, check_digests=True):
                record.raw_stream.read()
                assert record.digest_checker.passed is not False, record.digest_checker.problems
    stored = Counter(url for url, _ in warc_pages(crawl.directory / "job" / "warc"))
    assert stored == {url: len(pages) for url, pages in crawl.pages.items()}


def test_every_host_had_its_pauses_by_the_record_of_the_servers(evidence, sites):
    slower = evidence.slower
    for site in sites.values():
        assert site.impolite(pause=slower * PAUSE, notice=slower * NOTICE) == []


def test_memory_cpu_and_the_longest_work_in_one_go_are_bounded(crawl):
    assert crawl.process["peak_kb"] < MAX_MEMORY_KB
    assert crawl.process["cpu"] < MAX_CPU_SECS
    assert crawl.process["longest"] < MAX_WORK_SECS


def test_no_name_and_no_url_leads_to_this_machine_or_its_network(evidence):
    crawl = evidence.guarded
    assert crawl.code == 2, crawl.output  # nothing was fetched
    by_path = {urlsplit(url).path: outcomes for url, outcomes in crawl.outcomes.items()}
    assert by_path == {urlsplit(url).path: ["address_forbidden"] for url in evidence.traps.urls()}
    assert evidence.traps.sprung == []
