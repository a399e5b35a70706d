"""A process as settings make it, in the hands of a test: on a clock of its own, without an engine.

What Scrapy's engine would do is left to the test. Work that threads would do is done inline.
"""

from functools import partial
from random import Random
from types import SimpleNamespace

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.extension import ExtensionManager
from scrapy.utils.project import get_project_settings
from scrapy.utils.request import RequestFingerprinter
from seen_rig import InlineExecutor

from webcrawl.crawl import builder as builder_module
from webcrawl.crawl import health, leases, process
from webcrawl.crawl.builder import ProcessBuilder
from webcrawl.crawl.engine._engine import PlainStats
from webcrawl.crawl.task import page_reader

# Nothing by chance, no gates, and rests of one length where a test says nothing.
SETTINGS = {
    "CRAWLER_CONTACT": "me@a.test",
    "POLITENESS_JITTER": 0,
    "POLITENESS_MIN_DELAY": 3,
    "POLITENESS_MAX_DELAY": 120,
    "POLITENESS_BACKOFF_SECS": 0,
    "POLITENESS_MAX_FAILURES": 1000,
    "POLITENESS_MAX_CRAWL_DELAY": 120,
    "POLITENESS_LONG_CRAWL_DELAY": "cap",
    "POLITENESS_MAX_RETRY_AFTER_SECS": 120,
    "OUTAGE_HOSTS": 0,
    "REPUTATION_BASE_PAGES": 0,
}


class Shop(Spider):
    name = "shop"

    def item(self, response):
        """A callback by name."""


def crawler_for(jobdir, **settings):
    """A crawler that has not begun, and counts how often its engine is woken; *settings* go before
    SETTINGS."""
    project = get_project_settings()
    project.setdict({**SETTINGS, "JOBDIR": str(jobdir), **settings}, "cmdline")
    crawler = Crawler(Shop, project)
    crawler.spider = Shop.from_crawler(crawler)
    crawler.stats = PlainStats(crawler)
    crawler.request_fingerprinter = RequestFingerprinter(crawler)
    schedule = partial(crawler.stats.inc_value, "woken")
    slot = SimpleNamespace(nextcall=SimpleNamespace(schedule=schedule), closing=None)
    crawler.engine = SimpleNamespace(_slot=slot)
    crawler.extensions = ExtensionManager(crawler=crawler)
    return crawler


def process_in(
    jobdir,
    *,
    clock,
    parts=None,
    **settings,
):
    """The process of the job in *jobdir*, not open. *parts* are names of the builder's module with
    what stands for them."""

    def make_clock():
        clock.offset, clock.continue_from = 0.0, lambda offset: None
        return clock

    with pytest.MonkeyPatch.context() as patch:
        for name in ("now", "wall_time"):
            patch.setattr(builder_module, name, clock)
        for module in (process, leases, health, page_reader):
            patch.setattr(module, "now", clock)
        patch.setattr(builder_module, "generator", lambda _: Random(7))
        patch.setattr(builder_module, "Clock", make_clock)
        patch.setattr(builder_module, "ThreadPoolExecutor", lambda **_: InlineExecutor())
        for name, part in (parts or {}).items():
            patch.setattr(builder_module, name, part)
        made = ProcessBuilder(crawler_for(jobdir, **settings)).process()
    made.parts.services.outcome_log.clock = clock
    return made


def close(opened):
    """Close all files, without a checkpoint."""
    opened.health.close()
    opened.parts.services.outcome_log.close()
    opened.parts.state.close(lambda error: None)
    opened.parts.services.reading.close()
    opened.release_directory()


def shard_of(process):
    """Its only shard."""
    (shard,) = process.shards
    return shard
