"""JOBDIR/stats.json, by real crawls of Scrapy in processes of their own."""

import contextlib
import json
import os
import pwd
import socket
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest
import warm
from crawling import clean_web, crawl_command, start_crawl, stats_of
from patience import LIMIT_SECS
from scrapy.exceptions import NotConfigured
from scrapy.utils.test import get_crawler
from text_tables import each

from webcrawl.doctor.record import decode_line
from webcrawl.extensions.stats_file import StatsFile

ROOT = Path(__file__).parent.parent.parent

# Stock Scrapy with this one extension; two pages without a network; stats of all kinds.
CRAWL = """
import asyncio, decimal, os, resource, sys, warnings
from datetime import datetime, timezone
from scrapy import Spider, signals
from scrapy.core.scheduler import Scheduler
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.exceptions import CloseSpider

jobdir, how = sys.argv[1:]

class Late:
    '''Still busy at spider_closed when the handlers after it are called.'''
    @classmethod
    def from_crawler(cls, crawler):
        late = cls()
        late.stats = crawler.stats
        crawler.signals.connect(late.spider_closed, signal=signals.spider_closed)
        return late
    async def spider_closed(self):
        await asyncio.sleep(0.05)
        self.stats.set_value("late/seconds", 0.05)

class Refused(Scheduler):
    def open(self, spider):
        raise ValueError("JOBDIR is in use")

class Pages(Spider):
    name = "pages"
    start_urls = ["data:,one", "data:,two"]
    @classmethod
    def from_crawler(cls, crawler):
        spider = super().from_crawler(crawler)
        if how == "closed at once":
            crawler.signals.connect(spider.close_at_once, signal=signals.spider_opened)
        return spider
    def close_at_once(self):
        raise CloseSpider("unusable_seeds")
    def parse(self, response):
        stats = self.crawler.stats
        stats.set_value("kinds/date", datetime(2001, 2, 3, 4, 5, 6, tzinfo=timezone.utc))
        stats.set_value("kinds/object", complex(1, 2))
        stats.set_value("kinds/list", [1, 2.5, None, True])
        stats.inc_value("pages")
        if how == "disk full":
            resource.setrlimit(resource.RLIMIT_FSIZE, (20, resource.RLIM_INFINITY))

process = AsyncCrawlerProcess({
    "JOBDIR": jobdir,
    "EXTENSIONS": {"webcrawl.extensions.stats_file.StatsFile": 100, Late: 900},
    "SCHEDULER": Refused if how == "refused" else Scheduler,
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
})
process.crawl(Pages)
process.start()
"""


def crawl(jobdir, how=""):
    """Run it; returns what it logged."""
    run = warm.run([sys.executable, "-W", "error", "-c", CRAWL, jobdir, how])
    assert run.returncode == 0, run.stderr
    return run.stderr


def test_the_file_holds_all_final_stats(jobdir):
    (jobdir / "stats.json").write_text('{"finish_reason": "of the run before"}')
    log = crawl(jobdir)
    assert "ERROR" not in log
    stats = stats_of(jobdir)
    assert stats["finish_reason"] == "finished"
    assert stats["response_received_count"] == stats["pages"] == 2
    assert stats["late/seconds"] == 0.05
    assert stats["kinds/list"] == [1, 2.5, None, True]
    assert stats["kinds/object"] == "(1+2j)"
    assert stats["kinds/date"] == "2001-02-03T04:05:06Z"
    started, finished = (
        datetime.fromisoformat(stats[name]) for name in ("start_time", "finish_time")
    )
    assert 0 < (finished - started).total_seconds() < LIMIT_SECS
    assert not list(jobdir.glob("*.tmp"))
    # It is what Scrapy dumps to the log, and no more.
    dumped = log[log.index("Dumping Scrapy stats") :]
    assert all(f"'{name}'" in dumped for name in stats)
    assert list(stats) == sorted(stats)


def test_each_run_has_a_line_at_its_start_and_one_with_the_reason_at_its_end(jobdir):
    crawl(jobdir)
    crawl(jobdir)
    runs = [json.loads(line) for line in (jobdir / "logs/runs.jsonl").read_text().splitlines()]
    assert [run.get("reason") for run in runs] == [None, "finished"] * 2
    assert runs[0]["settings"]["JOBDIR"] == str(jobdir)
    assert [run["at"] for run in runs] == sorted(run["at"] for run in runs)
    (boot, by) = {(run["boot"], run["by"]) for run in runs if "boot" in run}.pop()
    assert boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert by == f"{pwd.getpwuid(os.getuid()).pw_name} on {socket.gethostname()}"


def test_while_the_crawl_runs_the_file_and_the_diagnoses_are_up_to_date(tmp_path):
    with clean_web(tmp_path, hosts=8, mean_pages=4.0, max_pages=12) as (web, seeds):
        settings = {
            "STATS_FILE_INTERVAL_SECS": 0.1,
            "STATISTICS_INTERVAL_SECS": 0.2,
            "POLITENESS_MIN_DELAY": 0.3,
        }
        crawl = start_crawl(crawl_command(web, seeds, tmp_path / "job", **settings))
        seen = []
        while crawl.poll() is None:
            with contextlib.suppress(FileNotFoundError):
                seen.append(stats_of(tmp_path / "job").get("frontier/finished", 0))
            time.sleep(0.05)
        crawl.communicate()
    assert crawl.returncode == 0
    assert len(set(seen)) > 1  # each look comes when this process has its turn
    assert seen == sorted(seen)
    written = (tmp_path / "job/logs/stats.jsonl").read_bytes()
    lines = [decode_line(line) for line in written.splitlines()]
    assert len(lines) > 3
    assert all(line.doctor for line in lines)
    assert [line.at for line in lines] == sorted(line.at for line in lines)


def test_a_crawl_that_is_closed_before_it_began_has_its_stats_too(jobdir):
    crawl(jobdir, "closed at once")
    stats = stats_of(jobdir)
    assert stats["finish_reason"] == "unusable_seeds"


def test_a_crawl_that_was_refused_its_job_directory_leaves_the_file_alone(jobdir):
    (jobdir / "stats.json").write_text("of the crawl that is running")
    assert "JOBDIR is in use" in crawl(jobdir, "refused")
    assert (jobdir / "stats.json").read_text() == "of the crawl that is running"


def test_a_full_disk_is_one_line_in_the_log_and_the_old_file_stays(jobdir):
    (jobdir / "stats.json").write_text('{"finish_reason": "of the run before"}')
    log = crawl(jobdir, "disk full")
    lines = [line for line in log.splitlines() if "stats_file" in line and "ERROR" in line]
    assert len(lines) == 1
    assert lines[0].endswith(
        f"The stats could not be written to {jobdir / 'stats.json'}: File too large"
    )
    assert (jobdir / "stats.json").read_text() == '{"finish_reason": "of the run before"}'
    assert "Spider closed (finished)" in log
    assert not list(jobdir.glob("*.tmp"))


@each("jobdir", None, "")
def test_without_a_job_directory_there_is_no_extension(jobdir):
    crawler = get_crawler(settings_dict={"JOBDIR": jobdir})
    with pytest.raises(NotConfigured):
        StatsFile.from_crawler(crawler)
