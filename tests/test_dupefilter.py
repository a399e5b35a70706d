"""The dupefilter alone and in real crawls under Scrapy's own scheduler."""

import errno
import json
import logging
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
import warm
from http_site import HttpSite, serving
from scrapy import Request, Spider
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler
from seen_rig import InlineExecutor
from text_tables import cases, each

from webcrawl import dupefilter as module
from webcrawl.dupefilter import MercatorDupeFilter, eliminator_factory
from webcrawl.errors import FatalError
from webcrawl.seen import BloomEliminator
from webcrawl.seen.eliminator import DiskEliminator
from webcrawl.seen.fingerprint import fingerprint
from webcrawl.storage.record_log import CorruptRecordError

ROOT = Path(__file__).resolve().parents[1]
BLOOM = "webcrawl.seen.bloom.BloomEliminator"


def make(**settings):
    crawler = get_crawler(Spider, settings)
    return MercatorDupeFilter.from_crawler(crawler)


def requests(count):
    return [Request(f"http://host.test/{n}") for n in range(count)]


class TestAlone:
    def test_the_project_fingerprinter_decides_what_is_the_same(self):
        filtered = make()
        filtered.open()
        assert not filtered.request_seen(Request("http://host.test/?a=1&b=2"))
        assert filtered.request_seen(Request("http://host.test/?b=2&a=1"))
        assert not filtered.request_seen(Request("http://host.test/?a=1&b=2", method="POST"))
        filtered.close("finished")

    @each("kind", DiskEliminator, BloomEliminator)
    def test_what_was_seen_is_seen_after_a_restart(self, tmp_path, kind):
        settings = {
            "JOBDIR": str(tmp_path / "job"),
            "SEEN_BUFFER_SIZE": 16,
            "SEEN_CACHE_SIZE": 4,
            "SEEN_ELIMINATOR": kind,
        }
        for first in range(0, 100, 25):
            filtered = make(**settings)
            filtered.open()
            assert type(filtered.eliminator) is kind
            seen = [filtered.request_seen(r) for r in requests(first + 25)]
            assert seen == [True] * first + [False] * 25
            filtered.close("finished")

    def test_without_jobdir_nothing_is_left(self):
        filtered = make()
        filtered.open()
        directory = filtered.directory
        assert directory.is_dir()
        filtered.request_seen(Request("http://host.test/"))
        filtered.close("finished")
        assert not directory.exists()

    def test_a_snapshot_is_published_every_so_often_while_it_runs(self, tmp_path, monkeypatch):
        monkeypatch.setattr(module, "ThreadPoolExecutor", lambda **_: InlineExecutor())
        filtered = make(JOBDIR=str(tmp_path), SEEN_BUFFER_SIZE=10)
        filtered.open()
        snapshot, published = tmp_path / "seen" / "snapshot", set()
        for request in requests(100):
            filtered.request_seen(request)
            if snapshot.exists():
                published.add(snapshot.read_bytes())
        assert len(published) == 10
        assert len(list((tmp_path / "seen").iterdir())) < 10
        filtered.close("finished")

    def test_a_snapshot_that_is_still_being_written_is_not_begun_again(self, tmp_path):
        filtered = make(JOBDIR=str(tmp_path), SEEN_BUFFER_SIZE=10)
        filtered.open()
        release = threading.Event()
        filtered._executor.submit(release.wait)
        for request in requests(40):
            filtered.request_seen(request)
        assert not (tmp_path / "seen" / "snapshot").exists()
        release.set()
        filtered.close("finished")
        assert (tmp_path / "seen" / "snapshot").exists()

    def test_a_snapshot_that_fails_is_counted_and_loses_nothing(
        self, tmp_path, monkeypatch, caplog
    ):
        monkeypatch.setattr(module, "ThreadPoolExecutor", lambda **_: InlineExecutor())
        full = OSError(errno.ENOSPC, "No space left on device")

        def publish(*_):
            raise full

        filtered = make(JOBDIR=str(tmp_path), SEEN_BUFFER_SIZE=10)
        filtered.open()
        monkeypatch.setattr(module, "_write_snapshot", publish)
        for request in requests(25):
            filtered.request_seen(request)
        assert filtered.stats.get_value("seen/snapshot/failed") == 1
        assert "their log still has them" in caplog.text
        with pytest.raises(OSError, match="No space"):
            filtered.close("finished")
        monkeypatch.undo()
        again = make(JOBDIR=str(tmp_path), SEEN_BUFFER_SIZE=10)
        again.open()
        assert [again.request_seen(r) for r in requests(26)] == [True] * 25 + [False]
        again.close("finished")

    def test_a_damaged_directory_is_reported_at_open(self, tmp_path):
        (tmp_path / "seen").mkdir()
        (tmp_path / "seen" / "snapshot").write_bytes(b"\xc1")
        with pytest.raises(CorruptRecordError, match="unreadable snapshot"):
            make(JOBDIR=str(tmp_path)).open()

    @cases(
        "debug lines",
        """
        False | 1
        True  | 3
    """,
    )
    def test_the_first_duplicate_is_logged_and_all_are_counted(self, caplog, debug, lines):
        caplog.set_level(logging.DEBUG, module.__name__)
        filtered = make(DUPEFILTER_DEBUG=debug)
        for request in requests(3):
            filtered.log(request, Spider("any"))
        assert filtered.stats.get_value("dupefilter/filtered") == 3
        assert caplog.text.count("Filtered duplicate request") == lines
        assert ("no more will be shown" in caplog.text) != debug


class TestSettings:
    def test_the_eliminator_is_the_one_the_settings_ask_for(self, tmp_path):
        executor = InlineExecutor()
        for settings, kind in (
            (Settings(), DiskEliminator),
            (Settings({"SEEN_ELIMINATOR": BLOOM, "SEEN_BLOOM_CAPACITY": "1000"}), BloomEliminator),
        ):
            path = tmp_path / kind.__name__
            built = eliminator_factory(settings)(path, executor)
            assert type(built) is kind
            assert not path.exists()
            built.open(None)
            assert built.add(fingerprint("a"))
            built.close()

    def test_something_that_is_no_eliminator_is_refused_when_it_is_built(self, tmp_path):
        settings = Settings({"SEEN_ELIMINATOR": "collections.Counter.fromkeys"})
        settings.set("SEEN_ELIMINATOR", dict.fromkeys)
        with pytest.raises(FatalError, match="is not a duplicate URL eliminator"):
            eliminator_factory(settings)(tmp_path, InlineExecutor())


PAGES = 150

CRAWL = """
import json, sys
from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess

class Stock(Spider):
    name = "stock"

    async def start(self):
        yield Request(sys.argv[1] + "/0", dont_filter=self.settings.getbool("START_AGAIN"))

    def parse(self, response):
        yield from response.follow_all(css="a")

settings = {
    "DUPEFILTER_CLASS": "webcrawl.dupefilter.MercatorDupeFilter",
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
    "ROBOTSTXT_OBEY": False,
    "SEEN_BUFFER_SIZE": 32,
    "SEEN_CACHE_SIZE": 8,
    **json.loads(sys.argv[2]),
}
process = CrawlerProcess(settings)
crawler = process.create_crawler(Stock)
process.crawl(crawler)
process.start()
stats = crawler.stats.get_stats()
print(json.dumps({name: value for name, value in stats.items() if name[:4] in ("seen", "dupe")}))
"""


@pytest.fixture
def site():
    """Pages that link to one another in many ways, and what was asked for."""

    def answer(request):
        number = int(request.path[1:])
        targets = [(number * k + k) % PAGES for k in range(1, 8)] + [number + 1]
        body = "".join(f'<a href="/{n % PAGES}#{n}">x</a>' for n in targets * 2)
        return 200, {}, body.encode()

    with serving(HttpSite(answer)) as site:
        yield site.url, site.asked


def crawl(url, **settings):
    run = warm.run([sys.executable, "-c", CRAWL, url, json.dumps(settings)])
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    return json.loads(run.stdout)


class TestStockCrawl:
    def test_each_page_is_fetched_once_and_not_again_in_a_second_run(self, site, tmp_path):
        url, asked = site
        stats = crawl(url, JOBDIR=str(tmp_path / "job"))
        assert Counter(asked) == {f"/{n}": 1 for n in range(PAGES)}
        assert stats["dupefilter/filtered"] == 16 * PAGES - PAGES + 1
        assert stats["seen/merge/count"] > 0
        again = crawl(url, JOBDIR=str(tmp_path / "job"))
        assert again["dupefilter/filtered"] == 1
        assert len(asked) == PAGES

    def test_a_killed_crawl_asks_for_no_page_twice_when_it_is_resumed(self, site, tmp_path):
        url, asked = site
        settings = {
            "JOBDIR": str(tmp_path / "job"),
            "START_AGAIN": True,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 2,
        }
        process = warm.Popen(
            [sys.executable, "-c", CRAWL, url, json.dumps(settings)],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while len(asked) < PAGES // 3:
            assert process.poll() is None
        process.kill()
        process.wait()
        before = set(asked)
        assert len(before) < PAGES
        # Scrapy's own queue does not survive that, so not every page is fetched in the end.
        crawl(url, **settings)
        # The start page is not filtered, here, and a link to it is, in either run.
        assert max(count for path, count in Counter(asked).items() if path != "/0") == 1
        assert before <= set(asked)
