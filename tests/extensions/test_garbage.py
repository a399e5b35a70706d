"""The garbage collector's thresholds: set while a crawl runs; pages are freed without it."""

from __future__ import annotations

import gc

import pytest
from crawling import crawl_command, run_crawl
from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.test import get_crawler

from webcrawl.errors import FatalError
from webcrawl.extensions.garbage import Garbage
from webcrawl.simweb import preset, start_in_process

# Turns the collector off when the crawl begins, and counts at its end what only it could free.
LIVING = """
import gc
from scrapy import signals
from scrapy.http import Request, Response

class Living:
    @classmethod
    def from_crawler(cls, crawler):
        living = cls()
        living.stats = crawler.stats
        crawler.signals.connect(living.begin, signal=signals.engine_started)
        crawler.signals.connect(living.count, signal=signals.spider_closed)
        return living

    def begin(self):
        gc.disable()

    def count(self):
        for kind in (Request, Response):
            alive = sum(1 for thing in gc.get_objects() if isinstance(thing, kind))
            print(f"{alive} {kind.__name__}s alive")
        print(self.stats.get_value("response_received_count"), "answers")
"""


@pytest.fixture
def thresholds():
    before = gc.get_threshold()
    yield before
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.parametrize("value", [(1000, 5, 7), [1000, 5, 7], "1000,5,7", " 1000, 5 ,7"])
def test_the_thresholds_hold_while_the_crawl_runs_and_not_after_it(thresholds, value):
    crawler = get_crawler(settings_dict={"GARBAGE_THRESHOLDS": value})
    extension = Garbage.from_crawler(crawler)
    assert gc.get_threshold() == thresholds
    crawler.signals.send_catch_log(signals.spider_opened)
    assert gc.get_threshold() == (1000, 5, 7)
    assert gc.get_freeze_count() > 0
    crawler.signals.send_catch_log(signals.engine_stopped)
    assert gc.get_threshold() == thresholds
    assert gc.get_freeze_count() == 0
    del extension


@pytest.mark.parametrize("value", [[], "", None, 0])
def test_empty_leaves_the_collector_as_python_has_it(value):
    with pytest.raises(NotConfigured, match="is empty"):
        Garbage.from_crawler(get_crawler(settings_dict={"GARBAGE_THRESHOLDS": value}))


@pytest.mark.parametrize(
    "value", ["1,2", "1,2,3,4", "a,b,c", "1,,3", 5, [1, 2, "x"], [1, 2, -3], [1 << 31, 1, 1]]
)
def test_thresholds_that_cannot_be_are_a_sentence(value):
    with pytest.raises(FatalError) as caught:
        Garbage.from_crawler(get_crawler(settings_dict={"GARBAGE_THRESHOLDS": value}))
    assert str(caught.value) == (
        f"GARBAGE_THRESHOLDS must be three whole numbers from 0, not {value!r}."
    )


def test_pages_are_freed_without_the_collector(tmp_path, monkeypatch):
    (tmp_path / "living.py").write_text(LIVING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    world = preset("clean", http_port=0, https_port=0, hosts=16, mean_pages=4.0, max_pages=12)
    with start_in_process(world, log_path=None) as web:
        seeds = tmp_path / "seeds.txt"
        seeds.write_text("\n".join(web.world.seeds()))
        done = run_crawl(
            crawl_command(web, seeds, tmp_path / "job", EXTENSIONS='{"living.Living": 0}')
        )
    lines = done.stdout.splitlines()
    assert "0 Responses alive" in lines, done.stdout
    assert "0 Requests alive" in lines
    (answers,) = [int(line.split()[0]) for line in lines if line.endswith(" answers")]
    assert answers > 50
