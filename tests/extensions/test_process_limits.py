"""Limits of the process: open files, malloc's options, the garbage collector's thresholds."""

import gc
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from crawling import clean_web, crawl_command, run_crawl
from frontier_rig import Rig, entry
from records_rig import opened
from scrapy import signals
from scrapy.utils.project import get_project_settings
from scrapy.utils.test import get_crawler
from seen_rig import InlineExecutor, disk_eliminator, names, publish, submit
from text_tables import cases, each

from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.errors import FatalError
from webcrawl.extensions.process_limits import ProcessLimits
from webcrawl.frontier import encode
from webcrawl.net.limits import FIXED, most_open_files
from webcrawl.seen.content import ContentSeen
from webcrawl.seen.fingerprint import fingerprints

HOSTS, URLS_OF_A_HOST = 800, 60


def said_by(script, *arguments):
    """The output of a process of its own: most limits are for good."""
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=Path(__file__).parents[2],
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def descriptors():
    return len([*Path("/proc/self/fd").iterdir()])


def test_many_hosts_and_runs_are_few_open_files(tmp_path, clock):
    before = descriptors()
    rig = Rig(tmp_path / "frontier", clock, queues=HOSTS + 1, max_queues=HOSTS + 1)
    for host in range(HOSTS):
        # Far more than a queue has in memory.
        rig.frontier.push(
            [encode(entry(f"h{host}.test", serial)) for serial in range(URLS_OF_A_HOST)]
        )
    while rig.frontier.refill(10_000):
        pass
    assert rig.frontier.stats()["frontier/queues/spilled"] == HOSTS
    eliminator = disk_eliminator(tmp_path / "seen", buffer_size=500, log_file_bytes=20_000)
    eliminator.open(None)
    content = ContentSeen(path=tmp_path / "content", executor=InlineExecutor(), buffer_size=500)
    content.open(None)
    ranks = HostRanks(path=tmp_path / "ranks")
    ranks.open(None)
    records = opened(tmp_path / "hosts", InlineExecutor())
    most = 0
    for first in range(0, 30_000, 100):
        urls = names(100, first)
        submit(eliminator, urls)
        # What comes out is taken late: the runs of several merges are open beside the levels.
        if first % 2000 == 0:
            while eliminator.take(1000):
                pass
            publish(eliminator)
        for fingerprint in fingerprints(urls):
            content.test(fingerprint)
            content.commit(fingerprint)
        most = max(most, descriptors() - before)
    assert eliminator.stats()["seen/merge/count"] >= 50
    for part in (eliminator, content, ranks, records):
        part.close()
    rig.frontier.close()
    assert most <= FIXED // 4
    assert descriptors() <= before


def test_the_open_files_of_a_crawl_follow_from_its_settings():
    settings = get_project_settings()
    settings.setdict({"CONCURRENT_REQUESTS": 100, "NET_KEEPALIVE_CONNECTIONS": 10})
    assert most_open_files(settings) == 200 + 50 + FIXED


def test_a_system_that_does_not_allow_it_is_one_sentence(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 512))
    with pytest.raises(FatalError, match=r"2256 open files .* allows 512 \(ulimit -Hn\)"):
        ProcessLimits.from_crawler(
            get_crawler(settings_dict={"CONCURRENT_REQUESTS": 1000} | IDLE_0)
        )


@cases(
    "hive shards allowed",
    """
        ""  | 64 | 264
        web | 64 | 1800
    """,
)
def test_the_shards_of_a_hive_have_open_files_as_far_as_the_system_allows(
    monkeypatch, hive, shards, allowed
):
    raised = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: raised.append(limits))
    settings = IDLE_0 | {"CONCURRENT_REQUESTS": 4, "HIVE": hive, "HIVE_SHARDS": shards}
    for hard in (4096, 1500):
        monkeypatch.setattr(resource, "getrlimit", lambda _, hard=hard: (256, hard))
        limits = ProcessLimits.from_crawler(get_crawler(settings_dict=settings))
        limits.spider_opened()
        limits.engine_stopped()
    assert raised == [(allowed, 4096), (min(allowed, 1500), 1500)]


IDLE_0 = {"NET_KEEPALIVE_CONNECTIONS": 0}
RAISED = """
import resource
from scrapy import signals
from scrapy.utils.test import get_crawler
from webcrawl.extensions.process_limits import ProcessLimits

hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
for workers in (100, 10):
    settings = {"CONCURRENT_REQUESTS": workers, "NET_KEEPALIVE_CONNECTIONS": 0}
    crawler = get_crawler(settings_dict=settings)
    extension = ProcessLimits.from_crawler(crawler)
    print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    crawler.signals.send_catch_log(signals.spider_opened)
    print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def test_the_soft_limit_is_raised_when_the_crawl_begins_and_never_lowered():
    assert said_by(RAISED).split() == ["300", *3 * [str(200 + FIXED)]]


# Prints how much is kept of a hundred megabytes that were freed.
FREED = """
import sys
from scrapy.utils.test import get_crawler
from webcrawl.extensions.process_limits import ProcessLimits

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6

if sys.argv[1] == "with":
    ProcessLimits.from_crawler(get_crawler())
large = b"x" * (30 << 20)
del large
before = resident()
blocks, kept = [], []
for _ in range(100):
    blocks.append(b"x" * (1 << 20))
    kept.append(b"x" * 5000)
assert resident() - before >= 100
blocks.clear()
print(int(resident() - before))
"""


# Prints how much a checkpoint gives back of what is free between blocks.
FRAGMENTS = """
import sys
from pathlib import Path
from scrapy.utils.test import get_crawler
from webcrawl.extensions.process_limits import ProcessLimits
from webcrawl.signals import checkpoint

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6

crawler = get_crawler()
if sys.argv[1] == "with":
    extension = ProcessLimits.from_crawler(crawler)
blocks = [b"x" * 20_000 for _ in range(5000)]
kept = blocks[::10]
while_held = resident()
del blocks
crawler.signals.send_catch_log(checkpoint)
print(int(while_held - resident()))
"""


# Prints how many documents have blocks of their own.
BLOCKS = """
import ctypes, sys
from scrapy.utils.test import get_crawler
from selectolax.lexbor import LexborHTMLParser
from webcrawl.extensions.process_limits import ProcessLimits

class Malloc(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in "arena ordblks smblks hblks hblkhd".split()]
    _fields_ += [("rest", ctypes.c_int * 5)]

def blocks_of_their_own():
    mallinfo = ctypes.CDLL(None).mallinfo
    mallinfo.restype = Malloc
    return mallinfo().hblks

if sys.argv[1] == "with":
    ProcessLimits.from_crawler(get_crawler())
else:
    ctypes.CDLL(None).mallopt(-3, 128 * 1024)  # what it is in the beginning, kept there
before = blocks_of_their_own()
documents = [LexborHTMLParser(b"<p>text <a href=x>y</a></p>" * 800) for _ in range(20)]
print(blocks_of_their_own() - before)
"""


# Without the extension, to see that the limits are not met anyway.
@each("how", "with", long=("without",))
@cases(
    "script limits",
    """
        # Without it, by what the process has freed before.
        FREED     | {"with": (0, 20), "without": (30, 120)}
        FRAGMENTS | {"with": (50, 100), "without": (0, 10)}
        BLOCKS    | {"with": (0, 0), "without": (20, 1000)}
    """,
    globals(),
)
def test_only_with_the_extension_memory_is_given_back(script, limits, how):
    least, most = limits[how]
    assert least <= int(said_by(script, how)) <= most


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


def test_the_thresholds_hold_while_the_crawl_runs_and_not_after_it(thresholds):
    crawler = get_crawler(settings_dict=IDLE_0)
    extension = ProcessLimits.from_crawler(crawler)
    assert gc.get_threshold() == thresholds
    crawler.signals.send_catch_log(signals.spider_opened)
    assert gc.get_threshold() == (50_000, 10, 10)
    assert gc.get_freeze_count() > 0
    crawler.signals.send_catch_log(signals.engine_stopped)
    assert gc.get_threshold() == thresholds
    assert gc.get_freeze_count() == 0
    del extension


def test_pages_are_freed_without_the_collector(user_module, tmp_path):
    user_module("living", LIVING)
    with clean_web(tmp_path, hosts=16, mean_pages=4.0, max_pages=12) as (web, seeds):
        done = run_crawl(
            crawl_command(web, seeds, tmp_path / "job", EXTENSIONS='{"living.Living": 0}')
        )
    lines = done.stdout.splitlines()
    assert "0 Responses alive" in lines, done.stdout
    assert "0 Requests alive" in lines
    (answers,) = [int(line.split()[0]) for line in lines if line.endswith(" answers")]
    assert answers > 50
