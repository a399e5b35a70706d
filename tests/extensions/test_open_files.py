"""Open files: few however much there is on disk, and the system is asked for what is needed."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from frontier_rig import Rig, entry
from records_rig import records_in
from scrapy.utils.project import get_project_settings
from scrapy.utils.test import get_crawler
from seen_rig import InlineExecutor, disk_eliminator, names, publish, submit

from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.errors import FatalError
from webcrawl.extensions.open_files import FIXED, OpenFiles, most_open_files
from webcrawl.frontier import encode
from webcrawl.seen.content import ContentSeen
from webcrawl.seen.fingerprint import fingerprints

HOSTS, URLS_OF_A_HOST = 800, 60


def descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_many_hosts_and_runs_are_few_open_files(tmp_path, clock):
    before = descriptors()
    rig = Rig(tmp_path / "frontier", clock, queues=HOSTS + 1, max_queues=HOSTS + 1)
    for host in range(HOSTS):
        # Far more than a queue has in memory.
        rig.frontier.push(
            [encode(entry(f"h{host}.test", serial)) for serial in range(URLS_OF_A_HOST)]
        )
    while rig.frontier.refill(10_000):
        pass
    assert rig.frontier.stats()["frontier/queues/spilled"] == HOSTS
    eliminator = disk_eliminator(tmp_path / "seen", buffer_size=500, log_file_bytes=20_000)
    eliminator.open(None)
    content = ContentSeen(path=tmp_path / "content", executor=InlineExecutor(), buffer_size=500)
    content.open(None)
    ranks = HostRanks(path=tmp_path / "ranks")
    ranks.open(None)
    records = records_in(tmp_path / "hosts", InlineExecutor())
    records.open()
    most = 0
    for first in range(0, 30_000, 100):
        urls = names(100, first)
        submit(eliminator, urls)
        # What comes out is taken late: the runs of several merges are open beside the levels.
        if first % 2000 == 0:
            while eliminator.take(1000):
                pass
            publish(eliminator)
        for fingerprint in fingerprints(urls):
            content.test(fingerprint)
            content.commit(fingerprint)
        most = max(most, descriptors() - before)
    assert eliminator.stats()["seen/merge/count"] >= 50
    for part in (eliminator, content, ranks, records):
        part.close()
    rig.frontier.close()
    assert most <= FIXED // 4
    assert descriptors() <= before


def test_what_a_crawl_needs_is_told_by_its_settings():
    settings = get_project_settings()
    settings.setdict({"CONCURRENT_REQUESTS": 100, "NET_KEEPALIVE_CONNECTIONS": 10})
    assert most_open_files(settings) == 200 + 70 + FIXED
    settings.set("HTTPPROXY_ENABLED", False)
    assert most_open_files(settings) == 200 + 50 + FIXED


def test_a_system_that_does_not_allow_it_is_one_sentence(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 512))
    with pytest.raises(FatalError, match=r"2256 files .* allows 512 \(ulimit -Hn\)"):
        OpenFiles.from_crawler(get_crawler(settings_dict={"CONCURRENT_REQUESTS": 1000} | IDLE_0))


IDLE_0 = {"NET_KEEPALIVE_CONNECTIONS": 0}
RAISED = """
import resource
from scrapy import signals
from scrapy.utils.test import get_crawler
from webcrawl.extensions.open_files import OpenFiles

hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
for workers in (100, 10):
    settings = {"CONCURRENT_REQUESTS": workers, "NET_KEEPALIVE_CONNECTIONS": 0}
    crawler = get_crawler(settings_dict=settings)
    extension = OpenFiles.from_crawler(crawler)
    print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    crawler.signals.send_catch_log(signals.spider_opened)
    print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def test_the_soft_limit_is_raised_when_the_crawl_begins_and_never_lowered():
    told = subprocess.run(
        [sys.executable, "-c", RAISED],
        cwd=Path(__file__).parents[2],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert told == ["300", str(200 + FIXED), str(200 + FIXED), str(200 + FIXED)]
