"""Processing modules whose answer never comes hold back neither the crawl nor its end."""

import re
import signal

import pytest
from crawling import output_of, simulated, start_crawl, wait_until
from slow_module import SECS
from virtual_crawl import VirtualCrawl

# Each of them keeps a part of the pages.
MUTE = """
import asyncio
import os
import zlib
from twisted.internet.defer import Deferred
from webcrawl.signals import unprocessed

def is_kept(page, part):
    if zlib.crc32(page.url.encode()) % 9 != part:
        return False
    with open(os.environ["KEPT"], "a") as file:
        file.write(page.url + "\\n")
    return True

class NeverAnswers:
    @classmethod
    def from_crawler(cls, crawler):
        extension = cls()
        crawler.signals.connect(extension.store, unprocessed)
        return extension

    async def store(self, page):
        open(os.environ["HANDED"], "a").close()
        await asyncio.Event().wait()

class NeverFires:
    def process_item(self, page):
        return Deferred() if is_kept(page, 0) else page

class NeverEnds:
    async def process_item(self, page):
        if is_kept(page, 1):
            await asyncio.Event().wait()
        return page

class TakesItForAnError:
    async def process_item(self, page):
        if is_kept(page, 2):
            try:
                await asyncio.Event().wait()
            except BaseException:
                await asyncio.Event().wait()
        return page
"""
WEB = {"hosts": 220, "mean_pages": 4, "max_pages": 6, "restricting": 0.0}
MODULES = '{"mute.NeverFires": 1, "mute.NeverEnds": 2, "mute.TakesItForAnError": 3}'


def test_mute_modules_hold_back_neither_crawl_nor_end(user_module, tmp_path, monkeypatch):
    user_module("mute", MUTE)
    kept = tmp_path / "kept"
    monkeypatch.setenv("KEPT", str(kept))
    monkeypatch.setenv("HANDED", str(tmp_path / "handed"))
    settings = {
        "POLITENESS_MAX_DELAY": 0.2,
        "ITEM_PIPELINES": MODULES,
        "EXTENSIONS": '{"mute.NeverAnswers": 1}',
        "SHUTDOWN_GRACE_SECS": 1,
    }
    # No page has the bytes of another: which of two comes first differs from crawl to crawl.
    shape = {"hosts": 20, "mean_pages": 4.0, "max_pages": 10, "duplicates": 0.0}
    with simulated(tmp_path, **shape) as web:
        crawl = start_crawl(web.command(**settings))
        wait_until(lambda: kept.exists() and len(kept.read_text().split()) > 5)
        crawl.send_signal(signal.SIGTERM)
        output = output_of(crawl)
        stopped_with = kept.read_text().split()
        output = web.crawl(**settings, ITEM_TIMEOUT_SECS=0.5)
    assert "finished: nothing is left to fetch" in output
    web.judge(min_delay=0.05)
    # Pages that the end cut off are processed again, those that were too slow are not.
    overdue = kept.read_text().split()[len(stopped_with) :]
    assert set(stopped_with) <= set(overdue)
    assert len(overdue) == len(set(overdue)) <= web.stats["items/overdue"]
    assert (tmp_path / "handed").exists()
    assert web.stats["frontier/leased"] == 0


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A crawl of small pages with a module that is slow: its limit is 20 s, and 600 pages, the most
    that are in process, take it two minutes."""
    crawl = VirtualCrawl(tmp_path_factory.mktemp("slow"), **WEB)
    crawl.run(
        1,
        ITEM_PIPELINES='{"slow_module.OneByOne": 1}',
        ITEM_TIMEOUT_SECS=20,
        FRONTIER_LEASE_SECS=100,
        DOWNLOAD_TIMEOUT=60,
        SCRAPER_SLOT_MAX_ACTIVE_SIZE=10**9,
    )
    return crawl


def test_a_slow_module_ends_no_crawl(slow):
    assert "finished: nothing is left to fetch" in slow.said
    stats = slow.stats()
    assert stats["item_scraped_count"] > 700
    assert not {"items/overdue", "scheduler/expired"} & {*stats}


def test_contacts_follow_the_rate_of_a_slow_module(slow):
    begins = sorted(hit.start for hit in slow.hits())
    at_most = 10 / SECS + 5
    later = [at for at in begins if at - begins[0] > 30]
    assert later
    assert all(sum(at <= one < at + 10 for one in later) <= at_most for at in later)


def test_a_module_that_blocks_the_event_loop_is_named_and_the_network_is_not(tmp_path):
    crawl = VirtualCrawl(tmp_path, **WEB | {"hosts": 100})
    modules = '{"slow_module.Blocking": 1}'
    crawl.run(1, ITEM_PIPELINES=modules, OUTAGE_HOSTS=20, STATISTICS_INTERVAL_SECS=20)
    stats = crawl.stats()
    assert "outage/count" not in stats
    bound_by = {name: secs for name, secs in stats.items() if re.match("doctor/.*_secs", name)}
    assert max(bound_by, key=bound_by.get) == "doctor/modules_secs"
    assert "doctor/disk_secs" not in bound_by
    assert "modules: slow_module.Blocking blocks the event loop " in crawl.said
