"""Checkpoints at an interval, in real small crawls, and what keeps one from being made."""

import json
import re
import sys
import time

import pytest
from crawling import clean_web, crawl_command, finish, run_crawl, stats_of
from patience import SLOWNESS
from scrapy.exceptions import NotConfigured
from scrapy.utils.test import get_crawler
from text_tables import cases, each

from webcrawl.extensions.checkpoints import Checkpoints

# A module that stores pages, of the user's: what it raises at its second checkpoint is told it.
STORE = """
import os
from webcrawl.signals import checkpoint

class Store:
    @classmethod
    def from_crawler(cls, crawler):
        store = cls()
        store.calls = 0
        crawler.signals.connect(store.sync, signal=checkpoint)
        return store

    async def sync(self):
        self.calls += 1
        if self.calls == 2:
            raise eval(os.environ["RAISES"])
"""


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    directory = tmp_path_factory.mktemp("seeds")
    with clean_web(directory, hosts=12, mean_pages=3.0, max_pages=16) as web_and_seeds:
        yield web_and_seeds


def crawl(web, jobdir, **settings):
    return run_crawl(crawl_command(*web, jobdir, POLITENESS_MIN_DELAY=0.08, **settings))


def manifest(jobdir):
    return json.loads((jobdir / (jobdir / "CURRENT").read_text().strip()).read_text())


def test_checkpoints_are_made_during_the_crawl_and_at_its_end(web, jobdir):
    done = crawl(web, jobdir, CHECKPOINT_INTERVAL_SECS=0.3)
    assert done.returncode == 0, done.stdout
    made = re.findall(r"Checkpoint made: \d+ ms in the reactor, \d+\.\d\d s in all", done.stdout)
    assert len(made) >= 3
    stats = stats_of(jobdir)
    assert stats["checkpoint/count"] == len(made)
    assert stats["checkpoint/pause_ms_max"] < 500 * SLOWNESS
    assert "checkpoint/failed" not in stats
    live, of_shard = manifest(jobdir), manifest(jobdir / "shards/00")["facts"]
    assert live["sequence"] == len(made) + 1  # and the empty one at the start
    assert 0 < len(live["facts"].pop("known_names")) <= 20
    assert live["facts"].pop("seed") == of_shard.pop("seed") > 0
    assert live["facts"] == {
        "spider": "web",
        "purpose": "",
        "revisits": False,
        "shards": ["00"],
        "waiting": 0,
        "parked": 0,
        "in_eliminator": 0,
        "has_answered": True,
        "finished": stats["frontier/finished"],
        "settings": {
            "POLITENESS_BACKOFF_SECS": "0.1",
            "POLITENESS_MIN_DELAY": "0.08",
            "REDIRECT_MAX_TIMES": "100",
        },
    }
    # Epoch seconds at which the clock that goes on evenly began.
    assert 0 < of_shard.pop("clock_offset") < of_shard.pop("clock") < time.time()
    assert of_shard == {"politeness_key": "host", "knows_domains": False}
    for state in (jobdir, jobdir / "shards/00"):
        assert len(list(state.glob("manifest-*.json"))) == 1
        assert len(list(state.glob("snapshot-*.log"))) == 1


@pytest.fixture
def raising(user_module, monkeypatch):
    """Tells what the user's module raises at its second checkpoint."""
    user_module("store", STORE)
    return lambda error: monkeypatch.setenv("RAISES", error)


@cases(
    "error code_and_reason",
    """
        RuntimeError('not yet')                | (0, "finished")
        OSError(28, 'No space left on device') | (3, "disk_full")
    """,
)
def test_a_module_that_cannot_store_pages_keeps_the_old_checkpoint_live(
    web, jobdir, raising, error, code_and_reason
):
    code, reason = code_and_reason
    raising(error)
    done = crawl(web, jobdir, CHECKPOINT_INTERVAL_SECS=0.3, ITEM_PIPELINES='{"store.Store": 1}')
    assert done.returncode == code, done.stdout
    assert "No checkpoint was made; the previous one stays current" in done.stdout
    stats = stats_of(jobdir)
    assert stats["checkpoint/failed"] == 1
    assert stats["finish_reason"] == reason
    assert ("run the same command again" in done.stdout.splitlines()[-1]) == (code == 3)
    if code:
        # The same command takes up the crawl and ends it.
        assert crawl(web, jobdir).returncode == 0
    assert manifest(jobdir)["facts"]["waiting"] == 0


@each("value", 0, "0", None)
def test_zero_needs_no_extension(value):
    crawler = get_crawler(settings_dict={"CHECKPOINT_INTERVAL_SECS": value})
    with pytest.raises(NotConfigured, match="CHECKPOINT_INTERVAL_SECS is 0"):
        Checkpoints.from_crawler(crawler)


def test_with_another_scheduler_there_are_no_checkpoints(user_module, jobdir):
    user_module("other", "import scrapy\n\nclass Other(scrapy.Spider):\n    name = 'other'\n")
    words = "crawl other -s SPIDER_MODULES=other -s SCHEDULER=scrapy.core.scheduler.Scheduler"
    words += f" -s STATISTICS_INTERVAL_SECS=0.01 -s JOBDIR={jobdir}"
    said = finish([sys.executable, "-m", "scrapy", *words.split()])
    assert "Traceback" not in said
    assert not (jobdir / "CURRENT").exists()
