"""Settings that cannot be are one sentence, whoever reads them."""

from __future__ import annotations

import subprocess
import sys

import pytest
import warm
from crawling import ROOT
from scrapy.settings import Settings

from webcrawl.commands.setting_check import check_crawl, check_process
from webcrawl.errors import FatalError


def settings(**given):
    made = Settings()
    made.setmodule("webcrawl.settings", priority="project")
    made.setdict(given, priority="cmdline")
    return made


def both(given):
    check_process(given)
    check_crawl(given)


def test_the_settings_of_the_project_are_good():
    both(settings())


def test_settings_of_scrapy_redis_are_no_slips():
    both(settings(REDIS_HOST="a", REDIS_ITEMS_KEY="k", REDIS_START_URLS_AS_SET=True))


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("LOG_LEVEL", "LOUD", "LOG_LEVEL must be CRITICAL or .*, not 'LOUD'"),
        ("LOG_FILE", "/no/such/x", "LOG_FILE /no/such/x cannot be written: No such file"),
        ("LOG_FILE", "/", "LOG_FILE / cannot be written: Is a directory"),
        ("LOG_ENCODING", "zz", "unknown encoding: zz"),
        ("LOG_FORMAT", "%(", "LOG_FORMAT cannot be: "),
        ("LOG_ENABLED", "maybe", "LOG_ENABLED must be true or false, not 'maybe'"),
        ("TWISTED_REACTOR", "no.such", "TWISTED_REACTOR must be twisted.internet.asyncioreactor"),
        ("ASYNCIO_EVENT_LOOP", "no.such", "ASYNCIO_EVENT_LOOP names 'no.such', which cannot be"),
        ("SPIDER_LOADER_CLASS", "no.such", "SPIDER_LOADER_CLASS names 'no.such'"),
        ("SPIDER_MODULES", "no.such", "SPIDER_MODULES names no.such: No module named 'no'"),
        ("ADDONS", {"no.such": 1}, "ADDONS names 'no.such'"),
        ("REACTOR_THREADPOOL_MAXSIZE", "many", "REACTOR_THREADPOOL_MAXSIZE must be a whole"),
        ("REACTOR_THREADPOOL_MAXSIZE", -1, "must be a whole number of at least 1"),
        (
            "ITEM_PIPELINES",
            {"no.Such": 1},
            "ITEM_PIPELINES names 'no.Such', which cannot",
        ),
        (
            "ITEM_PIPELINES",
            {"webcrawl.pipelines.warc.WarcPipeline": "x"},
            "the place of webcrawl",
        ),
        ("EXTENSIONS", {"webcrawl.items.NoSuch": 1}, "doesn't define any object named 'NoSuch'"),
        ("SPIDER_MIDDLEWARES", {"no.such": 1}, "SPIDER_MIDDLEWARES names 'no.such'"),
        ("DOWNLOADER_MIDDLEWARES", {"no.such": 1}, "DOWNLOADER_MIDDLEWARES names 'no.such'"),
        ("DOWNLOAD_HANDLERS", {"http": "no.Such"}, "DOWNLOAD_HANDLERS names 'no.Such'"),
        ("FEED_EXPORTERS", {"x": "no.Such"}, "FEED_EXPORTERS names 'no.Such'"),
        ("FEEDS", {"x.zz": {"format": "zz"}}, "FEEDS must say the format of x.zz, one of csv, "),
        ("STATS_CLASS", "no.such", "STATS_CLASS names 'no.such'"),
        ("SCHEDULER", "no.such", "SCHEDULER names 'no.such'"),
        ("DUPEFILTER_CLASS", "no.such", "DUPEFILTER_CLASS names 'no.such'"),
        ("DOWNLOAD_MAXSIZE", "x", "DOWNLOAD_MAXSIZE must be a whole number, not 'x'"),
        ("CONCURRENT_REQUESTS", "soon", "CONCURRENT_REQUESTS must be a whole number"),
        ("REDIRECT_MAX_TIMES", "soon", "REDIRECT_MAX_TIMES must be a whole number"),
        ("RETRY_ENABLED", "perhaps", "RETRY_ENABLED must be true or false, not 'perhaps'"),
        (
            "POLITENESS_MIM_DELAY",
            2,
            "There is no setting POLITENESS_MIM_DELAY; .* POLITENESS_MIN",
        ),
        ("POLITNESS_MIN_DELAY", 2, "There is no setting POLITNESS_MIN_DELAY; .* POLITENESS_MIN_D"),
        ("URL_SCOPES", "seeds", "There is no setting URL_SCOPES; the nearest is URL_SCOPE."),
        ("TRAP_MIN_SHARE", 0.5, "There is no setting TRAP_MIN_SHARE; the nearest is TRAP_"),
        # Constants since 0.3.
        ("BREAKER_SECS", 30, "There is no setting BREAKER_SECS; the nearest is "),
        ("OUTPUT_STORE_FLUSH_SECS", 9, "There is no setting OUTPUT_STORE_FLUSH_SECS; the nearest"),
        ("SEARCH_HEAP_BYTES", 1 << 26, "There is no setting SEARCH_HEAP_BYTES; the nearest is "),
        ("TRAP_RETRY_SECS", 60, "There is no setting TRAP_RETRY_SECS; the nearest is ROBOTS_RETRY"),
        ("FRONTIER_COLOUR", "red", "There is no setting FRONTIER_COLOUR; the nearest is FRONTIER_"),
    ],
)
def test_impossible_values_of_settings_end_with_a_sentence(name, value, sentence):
    with pytest.raises(FatalError, match=sentence):
        both(settings(**{name: value}))


@pytest.mark.parametrize(
    "given",
    [
        {"ITEM_PIPELINES": {"webcrawl.pipelines.warc.WarcPipeline": None}},
        {"DOWNLOAD_HANDLERS": {"ftp": None}},
        {"FEEDS": {"x.jsonl": {"format": "jsonl"}}},
        {
            "LOG_LEVEL": 10,
            "DOWNLOAD_TIMEOUT": "2.5",
            "RETRY_ENABLED": "True",
            "TELNETCONSOLE_ENABLED": "True",
        },
        {"REFERRER_POLICY": "no-referrer"},
        # Of others: Frontera, Zyte API, scrapy-redis, Spidermon.
        {"FRONTERA_SETTINGS": "x", "ZYTE_API_KEY": "x", "REDIS_URL": "x", "SPIDERMON_ENABLED": 1},
    ],
)
def test_possible_values_of_settings_pass_the_check(given):
    both(settings(**given))


def test_a_setting_that_a_module_of_the_user_reads_passes(tmp_path, monkeypatch):
    text = "class Store:\n    wanted = 'PAGE_STORE'\n"
    (tmp_path / "page_store.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    check_crawl(settings(PAGE_STORE="x", ITEM_PIPELINES={"page_store.Store": 300}))
    with pytest.raises(FatalError, match="There is no setting PAGE_STORES"):
        check_crawl(settings(PAGE_STORES="x", ITEM_PIPELINES={"page_store.Store": 300}))


@pytest.mark.parametrize("given", ["LOG_LEVEL=LOUD", "POLITENESS_MIM_DELAY=2"])
def test_the_command_ends_with_the_sentence_and_2(tmp_path, given):
    job = tmp_path / "job"
    options = ["-a", "seeds=x", "-s", "LOG_LEVEL=ERROR", "-s", f"JOBDIR={job}", "-s", given]
    run = warm.scrapy("crawl", "web", *options)
    assert run.returncode == 2
    assert run.stderr.startswith("webcrawl: ")
    assert run.stderr.count("\n") == 1
    assert not job.exists()


def test_on_windows_it_ends_with_a_sentence():
    code = "import sys; sys.platform = 'win32'; import webcrawl"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert run.stderr.startswith("webcrawl runs on Linux, and not on Windows")
