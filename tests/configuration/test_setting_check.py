"""Settings that cannot be are one sentence, whoever reads them."""

import subprocess
import sys
import types

import pytest
import warm
from crawling import ROOT
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from text_tables import each, lines, table

from webcrawl import settings as own_settings
from webcrawl.configuration.setting_check import check_crawl, check_process
from webcrawl.crawl.builder import ProcessBuilder
from webcrawl.errors import FatalError
from webcrawl.spiders.web import WebSpider


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


@each(
    "name value sentence",
    *table("""
        LOG_LEVEL | LOUD | LOG_LEVEL must be CRITICAL or .*, not 'LOUD'
        LOG_FILE | /no/such/x | LOG_FILE /no/such/x cannot be written: No such file
        LOG_FILE | / | LOG_FILE / cannot be written: Is a directory
        LOG_ENCODING | zz | unknown encoding: zz
        LOG_ENABLED | maybe | LOG_ENABLED must be true or false, not 'maybe'
        TWISTED_REACTOR | no.such | TWISTED_REACTOR must be twisted.internet.asyncioreactor
        ASYNCIO_EVENT_LOOP | no.such | ASYNCIO_EVENT_LOOP names 'no.such', which cannot be
        SPIDER_LOADER_CLASS | no.such | SPIDER_LOADER_CLASS names 'no.such'
        SPIDER_MODULES | no.such | SPIDER_MODULES names no.such: No module named 'no'
        ADDONS | {"no.such": 1} | ADDONS names 'no.such'
        REACTOR_THREADPOOL_MAXSIZE | many | REACTOR_THREADPOOL_MAXSIZE must be a whole
        REACTOR_THREADPOOL_MAXSIZE | -1 | must be a whole number of at least 1
        ITEM_PIPELINES | {"no.Such": 1} | ITEM_PIPELINES names 'no.Such', which cannot
        ITEM_PIPELINES | {"webcrawl.pipelines.warc.WarcPipeline": "x"} | the position of webcrawl
        EXTENSIONS | {"webcrawl.items.NoSuch": 1} | doesn't define any object named 'NoSuch'
        SPIDER_MIDDLEWARES | {"no.such": 1} | SPIDER_MIDDLEWARES names 'no.such'
        DOWNLOADER_MIDDLEWARES | {"no.such": 1} | DOWNLOADER_MIDDLEWARES names 'no.such'
        DOWNLOAD_HANDLERS | {"http": "no.Such"} | DOWNLOAD_HANDLERS names 'no.Such'
        FEED_EXPORTERS | {"x": "no.Such"} | FEED_EXPORTERS names 'no.Such'
        STATS_CLASS | no.such | STATS_CLASS names 'no.such'
        SCHEDULER | no.such | SCHEDULER names 'no.such'
        DUPEFILTER_CLASS | no.such | DUPEFILTER_CLASS names 'no.such'
        DOWNLOAD_MAXSIZE | x | DOWNLOAD_MAXSIZE must be a whole number, not 'x'
        DOWNLOAD_TIMEOUT | 70parsec | number, not '70parsec'; its units are ms, s, min, h, d
        RETRY_ENABLED | perhaps | RETRY_ENABLED must be true or false, not 'perhaps'
        POLITENESS_MIM_DELAY | 2 | There is no setting POLITENESS_MIM_DELAY; .* POLITENESS_MIN
        DOWNLOAD_DELLAY | 3 | no setting DOWNLOAD_DELLAY; the most similar is DOWNLOAD_DELAY
        Politeness_min_delay | 3 | Politeness_min_delay; the most similar is POLITENESS_MIN_DELAY
        BREAKER_SECS | 30 | setting BREAKER_SECS was removed: it is fixed to its default
        HOSTS_CACHE_SIZE | 9 | HOSTS_CACHE_SIZE was removed: it is now a share of MEMORY_BUDGET
        HIVE_KEY_FILE | k | setting HIVE_KEY_FILE was removed: .* plain data into meta and cb
        FRONTIER_COLOUR | red | There is no setting FRONTIER_COLOUR; the most similar is FRONTIER_
        LOG_FORMAT | %( | LOG_FORMAT is not valid:
        OUTPUT_STORE_OPTIONS | {"key": | OUTPUT_STORE_OPTIONS must be a dict.*Expecting
        URL_FILTERS | [1] | URL_FILTERS must be a dictionary \\(JSON\\), not '\\[1\\]'
        TEXT_EXTRACTOR | trafilatura | was removed: leave it out: the text of pages is extracted by
        RETRY_POLICY | {} | RETRY_POLICY was removed: FRONTIER_RETRY_TIMES, .* scale the table
        FEEDS | {"x.zz": {"format": "zz"}} | FEEDS must give a format for x.zz, one of csv,
    """),
)
def test_impossible_values_of_settings_end_with_a_sentence(name, value, sentence):
    with pytest.raises(FatalError, match=sentence):
        both(settings(**{name: value}))


@each(
    "given",
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
    {"MY_OWN": 1, "COLOUR": "red", "max_words": 5},
    {"DOWNLOAD_DELAY": "2s", "CLOSESPIDER_TIMEOUT": "10min"},
    # Of others: Frontera, Zyte API, scrapy-redis, Spidermon.
    {"FRONTERA_SETTINGS": "x", "ZYTE_API_KEY": "x", "REDIS_URL": "x", "SPIDERMON_ENABLED": 1},
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


def test_a_slip_of_scrapys_may_be_a_name_of_settings_py_or_of_an_add_on(tmp_path, monkeypatch):
    near = {"DOWNLOAD_DELAYS": 2}
    of_project = settings()
    of_project.setdict(near, priority="project")
    check_crawl(of_project)
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "near_settings")
    monkeypatch.setitem(sys.modules, "near_settings", types.SimpleNamespace(**near))
    check_crawl(settings(**near))
    monkeypatch.undo()
    package = tmp_path / "near_add_on"
    package.mkdir()
    (package / "__init__.py").write_text("from near_add_on import reader\nclass AddOn: ...\n")
    (package / "reader.py").write_text("name = 'DOWNLOAD_DELAYS'\n")
    monkeypatch.syspath_prepend(tmp_path)
    both(settings(**near, ADDONS={"near_add_on.AddOn": 1}))
    with pytest.raises(FatalError, match="There is no setting DOWNLOAD_DELAYS"):
        check_crawl(settings(**near))


def test_scrapy_reads_times_with_units_as_seconds():
    given = settings(CLOSESPIDER_TIMEOUT="10min", DOWNLOAD_DELAY="1.5s", DOWNLOAD_MAXSIZE="2MiB")
    check_crawl(given)
    assert given.getfloat("CLOSESPIDER_TIMEOUT") == 600
    assert given.getfloat("DOWNLOAD_DELAY") == 1.5
    assert given.getint("DOWNLOAD_MAXSIZE") == 2 << 20


def test_names_of_other_crawlers_get_a_warning_with_what_serves_here(caplog):
    check_crawl(settings(MAX_PAGES=5, max_depth=3, CRAWL_DELAY=1, MAX_WORDS=5))
    assert [record.getMessage() for record in caplog.records] == lines("""
        MAX_PAGES has no effect in this crawl; instead: CLOSESPIDER_PAGECOUNT for the crawl, \
BUDGET_HOST_PAGES for a host
        max_depth has no effect in this crawl; instead: URL_MAX_DEPTH
        CRAWL_DELAY has no effect in this crawl; instead: POLITENESS_MIN_DELAY
    """)


_OTHERS_REFUSED = dict(
    table("""
    DNS_SERVERS                 | 127.0.0.1:80000
    FRONTIER_FRONT_END          | no.such
    FRONTIER_PRIORITIZER        | no.such
    FRONTIER_SELECTOR           | no.such
    GOPHER_PORTS                | 80000
    HIVE                        | a b
    HOSTS_FILE                  | /no/such
    HIVE_CACHE                  | nosuch
    LINK_KINDS                  | nosuch
    MEMORY_BUDGET               | 1
    METRICS_PORT                | 80000
    MONITOR_PORT                | 80000
    DOWNLOAD_TIMEOUT            | 0
    PAGE_CONTENT_TYPES          | html
    POLITENESS_DELAY_FACTOR     | -1
    POLITENESS_KEY              | nosuch
    POLITENESS_LONG_CRAWL_DELAY | nosuch
    POLITENESS_MAX_DELAY        | soon
    POLITENESS_MIN_DELAY        | -1
    POLITENESS_POLICY           | no.such
    POLITENESS_PROFILE          | nosuch
    RANKS_FILE                  | /no/such
    REVISIT_FIRST_SECS          | 59min
    REVISIT_MAX_SECS            | 59min
    REVISIT_MIN_SECS            | 59min
    ROBOTSTXT_OBAY              | False
    SEEN_CACHE                  | nosuch
    SEEN_ELIMINATOR             | no.such
    TEXT_FORMAT                 | nosuch
    URL_EQUIVALENCES            | nosuch
    URL_HOST_RULES_FILE         | /no/such
    URL_PORTS                   | 80000
    URL_REFUSE                  | (
    URL_SCOPE                   | nosuch
    WEBSUB_PORT                 | 80000
    """)
)
# Values of other types: test_setting_types.py.
_NEGATIVE = {
    name: "-5"
    for name, value in vars(own_settings).items()
    if name.isupper() and type(value) is int
}
# What they are read with, by how their names begin.
_READ_WITH = {
    "HIVE_": {"HIVE": "x", "REDIS_URL": "redis://127.0.0.1:1"},
    "REVISIT_": {"REVISIT": 1},
    "REDIS_START": {"LIVE_SEEDS": 1, "REDIS_URL": "redis://127.0.0.1:1"},
    "REDIS_ITEMS": {
        "ITEM_PIPELINES": '{"webcrawl.pipelines.redis_pages.RedisPages": 500}',
        "REDIS_URL": "redis://127.0.0.1:1",
    },
    "SEEN_BLOOM": {"SEEN_ELIMINATOR": "webcrawl.seen.bloom.BloomEliminator"},
    "TEXT_": {"ITEM_PIPELINES": '{"webcrawl.pipelines.text.TextDataset": 500}'},
}
_ARGUMENTS = ["min_hosts=-1", "min_hosts=soon", "offline=yes", "max_pages=5", "colour=red"]


def _said_here(given):
    """Why there can be no crawl, without starting one; "" if extensions or modules may say it."""
    try:
        both(given)
        ProcessBuilder(Crawler(WebSpider, given)).process()
    except FatalError as error:
        return str(error)
    except (AttributeError, RuntimeError):  # the crawler of a crawl that has not begun lacks parts
        return ""


def _is_refused(tmp_path, options, name):
    """Whether the crawl ends with one sentence that names *name*."""
    seeds = ["-a", f"seeds={tmp_path}/no-such.txt", "-s", f"JOBDIR={tmp_path}/job"]
    run = warm.scrapy("crawl", "web", *seeds, *options)
    assert run.returncode == 2
    assert "Traceback" not in run.stdout + run.stderr
    (said,) = [line for line in run.stderr.splitlines() if line.startswith("webcrawl: ")]
    return name in said


@each("name value", *sorted((_NEGATIVE | _OTHERS_REFUSED).items()))
def test_a_refused_setting_is_one_sentence_that_names_it(tmp_path, name, value):
    beside = [given for start, given in _READ_WITH.items() if name.startswith(start)]
    options = {key: one for given in beside for key, one in given.items()} | {name: value}
    if said := _said_here(settings(JOBDIR=str(tmp_path), **options)):
        assert name in said
        assert "\n" not in said
    else:
        words = [word for key, one in options.items() for word in ("-s", f"{key}={one}")]
        assert _is_refused(tmp_path, words, name)


@each("given", *_ARGUMENTS)
def test_a_refused_argument_is_one_sentence_that_names_it(tmp_path, given):
    assert _is_refused(tmp_path, ["-a", given], given.partition("=")[0])


def test_nothing_is_printed_after_the_sentence_when_python_ends(tmp_path):
    options = ["-a", "seeds=x", "-s", f"JOBDIR={tmp_path}/job", "-s", "CONCURRENT_REQUESTS=-5"]
    command = [sys.executable, "-m", "scrapy", "crawl", "web", *options]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    last = "webcrawl: CONCURRENT_REQUESTS must be a whole number of at least 1, not '-5'."
    assert run.stderr.splitlines()[-1] == last


@each(
    "command given",
    *table("""
        crawl web -a seeds=x | ITEM_PIPELINES={"a.B": 1
        crawl web -a seeds=x | EXTENSIONS=[1]
        frontier             | FEEDS={bad
        shell                | DOWNLOAD_HANDLERS={bad
    """),
)
def test_bad_json_on_the_command_line_is_a_sentence_of_its_setting(command, given):
    run = warm.scrapy(*command.split(), "-s", given)
    name, _, value = given.partition("=")
    assert run.returncode == 2
    assert f"error: {name} must be a dictionary (JSON), not {value!r}" in run.stderr
    assert "Traceback" not in run.stderr


@each(
    "code said",
    ("import sys; sys.platform = 'win32'", "webcrawl does not run on Windows"),
    # What "(?:ab?c)++" matched before 3.11.5.
    (
        "import re; re.match = lambda *_: re.search('aca', 'aca')",
        "webcrawl needs Python 3.11.5 or newer",
    ),
)
def test_where_it_cannot_run_it_ends_with_a_sentence(code, said):
    run = subprocess.run(
        [sys.executable, "-c", f"{code}; import webcrawl"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert run.stderr.startswith(said)
