"""``scrapy crawl`` as a shell sees it: exit codes, one sentence for bad input, nothing changed."""

import dataclasses
import gzip
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
import warm
from crawling import (
    ROOT,
    clean_web,
    crawl_command,
    finish,
    output_of,
    run_crawl,
    start_crawl,
    stats_of,
)
from patience import LIMIT_SECS
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler
from text_tables import cases, each

from webcrawl.crawl.builder import ProcessBuilder
from webcrawl.crawl.job.state_directory import PreparedState, StateDirectory, read_state
from webcrawl.errors import FatalError
from webcrawl.scheduler import MercatorScheduler
from webcrawl.simweb import Faults
from webcrawl.spiders.web import WebSpider

# Spiders that end in ways of their own.
SPIDERS = """
import scrapy

class Other(scrapy.Spider):
    name = "other"

class Raising(scrapy.Spider):
    name = "raising"
    async def start(self):
        raise RuntimeError("a bug in start")
        yield

class Broken(scrapy.Spider):
    name = "broken"
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        raise RuntimeError("a bug in the constructor")

class Unusable(scrapy.Spider):
    name = "unusable"
    def __init__(self, **kwargs):
        raise ValueError("colour must be red or blue.")
"""

# A user's module whose disk fails when the crawl is over: nothing else is wrong.
STORE = """
from webcrawl.signals import checkpoint
class Store:
    @classmethod
    def from_crawler(cls, crawler):
        store = cls()
        crawler.signals.connect(store.sync, signal=checkpoint)
        return store
    def sync(self):
        raise OSError(5, 'Input/output error')
"""

# Modules, of which one cannot be opened.
OPENED = """
class Opened:
    def process_item(self, page):
        return page
class Failing(Opened):
    def open_spider(self):
        raise RuntimeError('no service')
"""


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    directory = tmp_path_factory.mktemp("simweb")
    with clean_web(directory, hosts=8, mean_pages=2.0, max_pages=6) as (web, seeds):
        yield web, seeds


@pytest.fixture
def command(web, jobdir):
    """Makes the command that crawls the web in the job directory of the test."""
    simulated, listed = web
    return lambda seeds=listed, **settings: crawl_command(simulated, seeds, jobdir, **settings)


@pytest.fixture(scope="module")
def spiders(tmp_path_factory):
    directory = tmp_path_factory.mktemp("spiders")
    (directory / "spiders_of_a_user.py").write_text(SPIDERS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(directory))
        yield


def crawl(*arguments, jobdir, code=2, **settings):
    """The output of ``scrapy crawl`` with *arguments*, which ends with *code*; quiet, so that what
    is printed is for the user."""
    line = [sys.executable, "-m", "scrapy", "crawl", *map(str, arguments)]
    for name, value in {"JOBDIR": jobdir, "LOG_LEVEL": "CRITICAL", **settings}.items():
        line += ["-s", f"{name}={value}"]
    return finish(line, code=code)


def is_one_sentence(output, *parts):
    lines = output.strip().splitlines()
    assert len(lines) == 1, output
    assert lines[0].startswith("webcrawl: ")
    assert lines[0].endswith(".")
    for part in parts:
        assert part in lines[0]
    return True


def tree(directory):
    """Every file with its bytes, but the lock, which names who has it, and a database that is
    opened before the damage is found."""
    return {
        path.relative_to(directory): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.name not in {"LOCK", "records.sqlite"}
    }


@pytest.fixture(scope="module")
def stopped_job(web, tmp_path_factory):
    """A job that was stopped in the middle."""
    simulated, seeds = web
    job = tmp_path_factory.mktemp("stopped") / "job"
    line = crawl_command(simulated, seeds, job, CLOSESPIDER_PAGECOUNT=3)
    assert run_crawl(line).returncode == 0
    assert stats_of(job)["frontier/waiting"] > 0
    return job


@pytest.fixture
def stopped(command, stopped_job, jobdir):
    """The command that goes on with a copy of it."""
    shutil.copytree(stopped_job, jobdir, dirs_exist_ok=True)
    return command(LOG_LEVEL="CRITICAL")


# --- exit codes


@each("secs", 0, 0.5)
def test_0_when_a_signal_stopped_it_even_while_it_began(command, secs):
    running = start_crawl(command(POLITENESS_MIN_DELAY=20))
    time.sleep(secs)
    running.send_signal(signal.SIGINT)
    output = output_of(running)
    assert "stopped by a signal" in output


# The part that reads the setting is in the crawl, where one is needed.
TEXT = '{"webcrawl.pipelines.text.TextDataset":1}'
LARM = '{"webcrawl.pipelines.larm.LarmPipeline":1}'


@cases(
    "given sentence",
    """
    RENDER=some | RENDER must be 0, auto or all, not 'some'
    RENDER=auto RENDER_ENGINE=no.module:Engine | RENDER_ENGINE names 'no.module.Engine', which
    |cannot be loaded: No module named 'no'
    RENDER=auto RENDER_ENGINE=/bin/false | /bin/false does not start (it has ended): name another
    |program with RENDER_ENGINE
    POLITENESS_LONG_CRAWL_DELAY=soon | must be skip, cap or obey, not 'soon'
    PAGE_CONTENT_TYPES=html | PAGE_CONTENT_TYPES must contain media types
    PAGE_REFUSED_CONTENT_TYPES=a/b/c | PAGE_REFUSED_CONTENT_TYPES must contain media types
    URL_EQUIVALENCES=case | URL_EQUIVALENCES: Unknown URL rule: case
    URL_REFUSED_EXTENSIONS=jpg,tar.gz | must be extensions such as jpg, not 'tar.gz'
    URL_TRACE=/proc/none/trace | The URL trace cannot be written
    WARC_DEDUP_FROM=/proc/none | WARC_DEDUP_FROM: /proc/none is not a CDXJ file
    ITEM_PIPELINES=TEXT TEXT_FORMAT=xml | TEXT_FORMAT must be parquet or jsonl, not 'xml'
    ITEM_PIPELINES=TEXT TEXT_DIR=/proc/none/text | TEXT_DIR /proc/none/text cannot be used
    ITEM_PIPELINES=LARM LARM_DIR=/proc/none/larm | LARM_DIR /proc/none/larm cannot be used
    """,
)
def test_2_for_a_value_of_another_kind_which_one_sentence_names(given, sentence, jobdir):
    settings = dict(one.split("=") for one in given.split())
    if "ITEM_PIPELINES" in settings:
        settings["ITEM_PIPELINES"] = globals()[settings["ITEM_PIPELINES"]]
    said = crawl("web", "-a", "seeds=example.org", jobdir=jobdir, **settings)
    assert is_one_sentence(said, " ".join(sentence.replace("|", " ").split()))


def test_1_with_a_traceback_when_the_program_has_a_bug(spiders, jobdir):
    for spider, bug in (("raising", "a bug in start"), ("broken", "a bug in the constructor")):
        said = crawl(
            spider, jobdir=jobdir, SPIDER_MODULES="spiders_of_a_user", LOG_LEVEL="ERROR", code=1
        )
        assert f"RuntimeError: {bug}" in said
        assert "Traceback" in said


def test_2_with_the_sentence_of_a_value_error_of_a_user_s_own_part(spiders, jobdir):
    said = crawl("unusable", jobdir=jobdir, SPIDER_MODULES="spiders_of_a_user")
    assert is_one_sentence(said, "colour must be red or blue")


def test_3_when_only_the_last_checkpoint_cannot_be_written(user_module, command, jobdir):
    user_module("store", STORE)
    modules = '{"store.Store": 1}'
    said = finish(command(CHECKPOINT_INTERVAL_SECS=0, ITEM_PIPELINES=modules), code=3)
    assert "Input/output error" in said.splitlines()[-1]
    assert stats_of(jobdir)["finish_reason"] == "finished"


# --- the command line


def test_help_is_that_of_the_command():
    said = finish([sys.executable, "-m", "scrapy", "crawl", "-h"])
    assert re.search(r"scrapy crawl \[options\] <spider>", said)
    assert re.search(r"^ +-a(, \S+)? NAME=VALUE", said, re.MULTILINE)
    assert re.search(r"^ +-s(, \S+)? NAME=VALUE", said, re.MULTILINE)
    told = " ".join(said.split())
    for argument in ("seeds=SEED[,...]", "offline=1", "min_hosts=N"):
        assert f"-a {argument}" in told
    assert "-s JOBDIR=DIR job directory (default for web: crawls/web; other spiders: none" in told


@each("name", "why", "wacz")
def test_help_names_the_default_job(name):
    said = finish([sys.executable, "-m", "scrapy", name, "-h"])
    assert "\nJOBDIR defaults to the setting JOBDIR (crawls/web).\n" in said


def test_help_of_replay_gives_an_own_module_a_directory():
    said = finish([sys.executable, "-m", "scrapy", "replay", "-h"])
    (example,) = re.findall("^  scrapy replay .*ITEM_PIPELINES.*$", said, re.MULTILINE)
    assert " -o titles " in example


@each(
    "named said",
    (["wbe"], "there is no spider wbe; choose from: walk, web"),
    ([], "give one spider, for example: scrapy crawl web -a seeds=FILE"),
    (["web", "other"], "give one spider, for example: scrapy crawl web -a seeds=FILE"),
    (["web", "-a", "seeds=a", "-a", "seeds=b"], "-a seeds is given more than once"),
)
def test_one_spider_has_to_be_named_and_each_argument_once(jobdir, named, said):
    output = crawl(*named, jobdir=jobdir)
    assert said in output.strip().splitlines()[-1]
    assert "Traceback" not in output
    assert not list(jobdir.iterdir())


@each(
    "arguments parts",
    ({"seeds": "x", "depth": "3", "colour": "red"}, ["no argument colour, depth"]),
    ({}, ["-a seeds=FILE"]),
    ({"seeds": ""}, ["-a seeds=FILE"]),
    ({"seeds": " , ,"}, ["-a seeds=FILE"]),
)
def test_the_web_spider_takes_seeds_and_nothing_else(jobdir, arguments, parts):
    crawler = get_crawler(
        settings_dict={"JOBDIR": str(jobdir), "SCHEDULER": MercatorScheduler, "PAGE_MAX_LINKS": 1}
    )
    with pytest.raises(FatalError) as caught:
        WebSpider.from_crawler(crawler, **arguments)
    assert is_one_sentence(f"webcrawl: {caught.value}", *parts)


def test_seeds_may_be_several_files_and_arguments_of_scrapyd_s_pass(web, command, jobdir, tmp_path):
    files = tmp_path / "a.txt", tmp_path / "b.txt"
    for file, url in zip(files, web[1].read_text().split(), strict=False):
        file.write_text(url)
    line = command("{}, {}".format(*files), CLOSESPIDER_PAGECOUNT=1)
    assert run_crawl([*line, "-a", "_job=0123"]).returncode == 0
    assert stats_of(jobdir)["seeds/read"] == 2


@each(
    "seeds code is_there",
    ("nowhere.txt", 2, False),
    ("nowhere.txt", 2, True),
    ("http://a.test/,nowhere.txt", 2, True),
    ("-", 2, False),
    ("seeds.txt", 1, False),
)
def test_a_crawl_that_never_started_leaves_no_job(user_module, tmp_path, seeds, code, is_there):
    user_module("modules", OPENED)
    (tmp_path / "seeds.txt").write_text("http://a.test/\n")
    names = [str(tmp_path / name) if name[-4:] == ".txt" else name for name in seeds.split(",")]
    module = "Failing" if code == 1 else "Opened"
    pipelines = f'{{"modules.{module}": 1, "webcrawl.pipelines.warc.WarcPipeline": 2}}'
    job = tmp_path / "new" / "job"
    if is_there:
        (job / "logs").mkdir(parents=True)
        (job / "logs/mine").write_text("kept")
    said = crawl(
        "web", "-a", f"seeds={','.join(names)}", jobdir=job, ITEM_PIPELINES=pipelines, code=code
    )
    assert code == 1 or is_one_sentence(said)
    assert job.exists() is is_there
    assert not is_there or [path.name for path in job.iterdir()] == ["logs"]
    assert not is_there or (job / "logs/mine").read_text() == "kept"


def test_unreadable_seeds_do_not_remove_an_existing_job(stopped, jobdir):
    before = {path for path in jobdir.rglob("*") if path.suffix == ".gz"}
    said = finish([word.replace("seeds.txt", "gone.txt") for word in stopped], code=2)
    assert is_one_sentence(said, "Cannot read the seeds in")
    assert before <= set(jobdir.rglob("*"))
    assert run_crawl(stopped).returncode == 0
    assert stats_of(jobdir)["job/resumed"] == 1


def test_half_a_seed_list_is_named_at_the_start_and_in_the_summary(web, command, tmp_path):
    half = tmp_path / "half\x1b[31m.gz"
    half.write_bytes(gzip.compress(web[1].read_bytes() + b"# the end\n" * 1000)[:-9])
    said = finish(command(half, CLOSESPIDER_PAGECOUNT=1))
    assert "\x1b" not in said
    before, _, summary = said.partition("=== crawl summary ===")
    assert "half\\x1b[31m.gz is damaged (" in before
    assert "half\\x1b[31m.gz is damaged (" in " ".join(summary.split())


def test_with_a_log_file_the_sentence_is_in_it_too(jobdir, tmp_path):
    log = tmp_path / "log"
    said = crawl("web", "-a", "sedes=x", jobdir=jobdir, LOG_FILE=log, LOG_LEVEL="DEBUG")
    assert is_one_sentence(said, "no argument sedes")
    text = log.read_text()
    assert f" ERROR: {said}" in text
    # At INFO it would be a quarter of what is logged at the start.
    assert " DEBUG: Versions:\n" in text


def test_a_crawl_outlives_its_standard_error(command, tmp_path):
    log = tmp_path / "log"
    reading, writing = os.pipe()
    os.close(reading)
    done = warm.run(command(LOG_FILE=log, CLOSESPIDER_PAGECOUNT=1), stderr=writing)
    os.close(writing)
    assert done.returncode == 0
    assert "=== crawl summary ===" in log.read_text()
    assert "Traceback" not in log.read_text()


# --- settings and directories


@each(
    "settings parts",
    ({"FRONTIER_PRIORITIZER": "builtins.int"}, ["FRONTIER_PRIORITIZER", "cannot be used"]),
    (
        {"FRONTIER_SELECTOR": "webcrawl.hosts.politeness.preconditions.host_of"},
        ["FRONTIER_SELECTOR", "cannot be used"],
    ),
    (
        {"FRONTIER_FRONT_END": "builtins.dict"},
        ["FRONTIER_FRONT_END", "lacks size, def open, def push"],
    ),
    ({"URL_FILTERS": "mine.Filter"}, ["URL_FILTERS must be a dictionary (JSON), not"]),
    ({"HOSTS_FILE": "/proc/version"}, ["HOSTS_FILE", "line 1 does not begin with an address"]),
    ({"POLITENESS_POLICY": 5}, ["POLITENESS_POLICY", "cannot be loaded"]),
    ({"SEEN_ELIMINATOR": "webcrawl.crawl.links.submission.LinkSubmitter"}, ["SEEN_ELIMINATOR"]),
    ({"DOWNLOAD_TIMEOUT": 900}, ["FRONTIER_LEASE_SECS is 900", "DOWNLOAD_TIMEOUT, 900"]),
    ({"DOWNLOADER": "scrapy.core.downloader.Downloader"}, ["DOWNLOADER must be webcrawl"]),
    ({"DOWNLOAD_FAIL_ON_DATALOSS": ""}, ["DOWNLOAD_FAIL_ON_DATALOSS must be true or false"]),
    ({"USER_AGENT": "!"}, ["USER_AGENT"]),
    ({"REVISIT_MAX_SECS": 3600}, ["REVISIT_MIN_SECS must be at most REVISIT_MAX_SECS"]),
    ({"REVISIT_MAX_SECS": 1e10}, ["REVISIT_MAX_SECS must be at most 3153600000"]),
    ({"POLITENESS_MIN_DELAY": 200}, ["below the minimum"]),
)
def test_invalid_settings_are_found_before_the_disk_is_touched(jobdir, settings, parts):
    project = Settings()
    project.setmodule("webcrawl.settings")
    project.setdict({"JOBDIR": str(jobdir), **settings})
    with pytest.raises(FatalError) as caught:
        ProcessBuilder(Crawler(WebSpider, project)).process()
    assert is_one_sentence(f"webcrawl: {caught.value}", *parts)
    assert not list(jobdir.iterdir())


@each(
    "settings parts",
    ({"SCHEDULER": "scrapy.core.scheduler.Scheduler"}, ["SCHEDULER=webcrawl"]),
    ({"JOBDIR": ""}, ["JOBDIR is empty"]),
    ({"JOBDIR": "/proc/nowhere"}, ["JOBDIR /proc/nowhere cannot be used"]),
)
def test_an_invalid_setting_is_reported_in_a_sentence(jobdir, settings, parts):
    said = crawl("web", "-a", "seeds=a.com", jobdir=jobdir, **settings)
    assert is_one_sentence(said, *parts)


def test_a_warc_directory_that_cannot_be_is_a_sentence_and_no_traceback(command, jobdir, tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("a file")
    said = finish(command(WARC_DIR=taken), code=2)
    assert "Traceback" not in said
    assert "ERROR" not in said
    assert is_one_sentence(said.splitlines()[-1], f"WARC_DIR {taken} cannot")
    assert taken.read_text() == "a file"
    assert not (jobdir / "stats.json").exists()


def test_the_job_of_another_spider_or_purpose_is_refused_and_unchanged(spiders, stopped, jobdir):
    before = tree(jobdir)
    said = crawl("other", jobdir=jobdir, SPIDER_MODULES="spiders_of_a_user")
    assert is_one_sentence(
        said, f"JOBDIR {jobdir} holds a crawl of the spider web, not of other", "-s JOBDIR="
    )
    assert tree(jobdir) == before
    given = ["-s", "CRAWL_PURPOSE=train", "-s", "CLOSESPIDER_PAGECOUNT=1"]
    assert run_crawl([*stopped, *given]).returncode == 0
    for other in ("", "search"):
        said = crawl("web", "-a", "seeds=/dev/null", jobdir=jobdir, CRAWL_PURPOSE=other)
        assert is_one_sentence(said, f"of the purpose train, not of {other or 'none'}: choose")
    assert run_crawl([*stopped, *given[:2]]).returncode == 0


def names_no_manifest(jobdir):
    (jobdir / "CURRENT").write_text("manifest-999999.json\n")


def has_another_byte(jobdir):
    (path,) = jobdir.glob("shards/00/snapshot-*.log")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def has_half_a_run(jobdir):
    path = max(jobdir.glob("shards/00/seen/*.run"))
    path.write_bytes(path.read_bytes()[:20])


def has_a_part_that_cannot_be_decoded(jobdir, place=".", part="totals"):
    """Though all its checksums are right."""
    state = read_state(jobdir / place)
    directory = StateDirectory(path=jobdir / place, boot=state.boot_id)
    directory.number_after(state.sequence)
    snapshots = {**state.snapshots, part: b"\xc1"}
    prepared = PreparedState({name: [saved] for name, saved in snapshots.items()}, [], state.facts)
    directory.write(prepared)
    directory.publish(prepared)


def has_a_frontier_that_cannot_be_decoded(jobdir):
    has_a_part_that_cannot_be_decoded(jobdir, "shards/00", "frontier")


@each(
    "damage",
    names_no_manifest,
    has_another_byte,
    has_half_a_run,
    has_a_part_that_cannot_be_decoded,
    has_a_frontier_that_cannot_be_decoded,
)
def test_a_damaged_job_is_a_sentence_and_nothing_is_changed(stopped, jobdir, damage):
    damage(jobdir)
    before = tree(jobdir)
    said = finish(stopped, code=2)
    assert is_one_sentence(said, f"The crawl in JOBDIR {jobdir} cannot be resumed")
    assert before.items() <= tree(jobdir).items()


# --- standard input and signals


def test_a_crawl_waiting_for_seeds_on_standard_input_can_be_stopped(web, command, jobdir):
    line = command("-")
    running = warm.Popen(line, cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for text in running.stderr:
        if "Spider opened" in text:
            break
    time.sleep(0.5)
    running.send_signal(signal.SIGTERM)
    # Standard input stays open: nobody says that the seeds have ended.
    output = running.stderr.read()
    assert running.wait(LIMIT_SECS) == 0, output
    running.stdin.close()
    running.stderr.close()
    assert "stopped by a signal" in output
    assert "Traceback" not in output
    done = warm.run(line, input=next(iter(web[0].world.seeds())))
    assert done.returncode == 0, done.stderr
    assert stats_of(jobdir)["seeds/read"] == 1


def test_a_second_signal_ends_it_at_once_and_loses_nothing(tmp_path):
    faults = dataclasses.replace(Faults.none(), stall=0.7)
    with clean_web(
        tmp_path, hosts=8, max_pages=1, mean_pages=1.0, faults=faults, stall_secs=600
    ) as (web, seeds):
        job = tmp_path / "job"
        line = crawl_command(
            web,
            seeds,
            job,
            DOWNLOAD_TIMEOUT=600,
            SHUTDOWN_GRACE_SECS=500,
            ROBOTSTXT_OBEY=False,
            POLITENESS_MAX_DELAY=0.2,
        )
        running = start_crawl(line)
        time.sleep(1)
        running.send_signal(signal.SIGINT)
        time.sleep(0.3)
        running.send_signal(signal.SIGINT)
        output = output_of(running)  # which waits for less
        finish([*line, "-s", "DOWNLOAD_TIMEOUT=1", "-s", "FRONTIER_RETRY_TIMES=0"])
    stats = stats_of(job)
    # The stalling hosts were under way when it ended: they are asked again and time out.
    assert stats.get("outcome/timeout", 0) >= 1, output
    assert stats["frontier/leased"] == 0


def test_a_crawl_with_nothing_to_fetch_is_not_a_success(command, tmp_path):
    excluded = tmp_path / "excluded.txt"
    excluded.write_text("c.test\n")
    seeds = tmp_path / "seeds.txt"
    long = f"http://a.test/{'x' * 100}"
    seeds.write_text(f"http://a.test/\nhttp://b.test/\n{long}\nhttps://c.test/\n")
    line = command(
        seeds,
        LOG_LEVEL="CRITICAL",
        URL_RESTRICT_TO="https?://c[.]test/|.*x",
        URL_MAX_LENGTH_BYTES=60,
        EXCLUSION_FILE=excluded,
    )
    for _ in range(2):  # and no more when it is run again
        said = finish(line, code=2)
        refused = "restrict_to 2, length 1"
        assert f"     seeds  4 read; refused by filters: {refused}\n" in said
        assert said.endswith(
            "webcrawl: Nothing was fetched, because there was nothing to fetch (seeds refused by "
            f"filters: {refused}; excluded 1).\n"
        )


@each("mode warns", (0o755, False), (0o720, True), (0o702, True))
def test_a_job_directory_that_others_may_write_to_gets_a_warning(command, jobdir, mode, warns):
    jobdir.chmod(mode)
    said = finish(command(CLOSESPIDER_PAGECOUNT=1))
    assert ("Other users may write to JOBDIR" in said) is warns
