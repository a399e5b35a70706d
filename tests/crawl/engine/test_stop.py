"""Crawls that cannot go on: they end with a sentence, and the same command loses nothing."""

import os
import sys

import pytest
from crawling import (
    access_log,
    damage_in,
    finish,
    output_of,
    run_crawl,
    simulated,
    start_crawl,
    stats_of,
    wait_until,
    warc_urls,
)
from text_tables import each

# Scrapy, which may write files of so many bytes.
LIMITED = """
import resource, sys
from scrapy.cmdline import execute
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
execute()
"""

# Raises once in the background work of a crawl, which nobody foresaw.
BUG = """
from scrapy import signals
from webcrawl.frontier.contacts import Contacts
from webcrawl.frontier.frontier import Frontier

class Bug:
    @classmethod
    def from_crawler(cls, crawler):
        bug = cls()
        crawler.signals.connect(bug.begin, signal=signals.response_received)
        return bug

    def begin(self):
        def broken(*args, **kwargs):
            raise ZeroDivisionError("a bug of ours")
        {owner}.{method} = broken
"""

# The background work fails while a processing module is still being opened, which may fail then.
DURING = """
import asyncio
import os
from webcrawl.errors import FatalError

class Opening:
    @classmethod
    def from_crawler(cls, crawler):
        opening = cls()
        opening.crawler = crawler
        return opening

    async def open_spider(self):
        def full(*args, **kwargs):
            raise OSError(28, "No space left on device", "inflow")
        self.crawler.engine.scheduler.process.work = full
        await asyncio.sleep(1)
        if os.environ["FAILS"]:
            raise FatalError("This module cannot be opened.")

    async def process_item(self, item):
        return item
"""


@pytest.fixture
def web(tmp_path):
    with simulated(tmp_path, hosts=30, mean_pages=5.0, max_pages=16) as web:
        yield web


def is_complete_after(web, command):
    """*command* crawls the rest of *web*, which then has been asked for all that it has."""
    finish(command)
    return web.judge(min_delay=0)


def is_last_sentence(output, *parts):
    last = output.strip().splitlines()[-1]
    assert last.startswith("webcrawl: "), output
    for part in parts:
        assert part in last
    return True


def test_disks_that_are_full_at_different_moments_cost_no_url(web):
    job = web.job
    command = web.command(POLITENESS_MAX_DELAY=0.2, CHECKPOINT_INTERVAL_SECS=0.3)
    for kilobytes in (5, 16, 64):
        limited = [sys.executable, "-c", LIMITED, str(kilobytes << 10)]
        said = finish([*limited, *command[3:]], code=3)
        assert is_last_sentence(said, f"The disk of JOBDIR {job} is full", "same command")
        assert "Error processing" not in said
        assert "never retrieved" not in said
        if (job / "CURRENT").exists():
            assert damage_in(job) == []
    assert is_complete_after(web, command)
    assert stats_of(job)["frontier/leased"] == 0


@pytest.mark.cures("or start over in another one.")
def test_damage_met_by_the_background_work_ends_the_crawl(web):
    command = web.command(POLITENESS_MIN_DELAY=0.4, SEEN_BUFFER_SIZE=64, SEEN_CACHE_SIZE=1)
    crawl = start_crawl(command)

    def is_over():
        """U itself is overwritten: what the next merge has to read back is gone."""
        for path in (web.job / "shards/00/seen").glob("discovered-*.log"):
            size = path.stat().st_size
            with path.open("r+b") as file:
                file.seek(8)
                file.write(os.urandom(max(0, size - 8)))
        return crawl.poll() is not None

    wait_until(is_over)
    output = output_of(crawl, code=3)
    assert is_last_sentence(output, f"JOBDIR {web.job} is damaged", "discovered-", "start over")
    web.job = web.job.with_name("another")
    assert is_complete_after(web, web.command(POLITENESS_MAX_DELAY=0.2))


@each("fails", True, long=(False,))
def test_trouble_while_a_processing_module_is_being_opened_is_one_sentence(
    user_module, web, monkeypatch, fails
):
    user_module("during", DURING)
    monkeypatch.setenv("FAILS", "yes" if fails else "")
    command = web.command(POLITENESS_MAX_DELAY=0.2)
    done = run_crawl([*command, "-s", 'ITEM_PIPELINES={"during.Opening": 1}'])
    assert "Traceback" not in done.stdout
    sentence = f"The disk of JOBDIR {web.job} is full"
    if fails:
        sentence = "This module cannot be opened."
    assert done.returncode == (2 if fails else 3), done.stdout
    assert is_last_sentence(done.stdout, sentence)
    assert not web.job.exists()
    assert not access_log(web.log)
    assert is_complete_after(web, command)


@each("owner method", ("Contacts", "release"), long=(("Frontier", "acquire"),))
@pytest.mark.cures("the log has the traceback. Run the same command again to continue")
def test_a_bug_of_ours_ends_the_crawl_and_does_not_make_it_hang(user_module, web, owner, method):
    user_module("bug", BUG.replace("{owner}", owner).replace("{method}", method))
    command = web.command(POLITENESS_MAX_DELAY=0.2)
    said = finish([*command, "-s", 'ITEM_PIPELINES={"bug.Bug": 1}'], code=1)
    assert is_last_sentence(said, "ZeroDivisionError: a bug of ours", "nothing is lost")
    if method == "release":
        assert is_complete_after(web, command)
        assert warc_urls(web.job / "warc")
