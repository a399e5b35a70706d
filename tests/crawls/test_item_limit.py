"""Processing modules whose answer never comes hold back neither the crawl nor its end."""

from __future__ import annotations

import signal

from crawling import output_of, simulated, start_crawl, wait_until

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
