"""The monitor of a crawl of a million URLs on a hundred thousand hosts: records as its crawl
would have left them, of which every page is small, fast, and can be used by everyone."""

import time
from contextlib import contextmanager

import psutil
import pytest
from axe import serious_findings
from browsing import Tab, chromium
from frontier_rig import entry
from monitored import Monitor
from patience import SLOWNESS
from reading_report import line, write_history, write_log
from redis_server import free_port
from scrapy.utils.project import get_project_settings
from stored_job import Stored
from text_tables import each

from webcrawl.monitor.launch import MonitorProcess

pytestmark = pytest.mark.long

HOSTS = 100_000
URLS = 1_000_000
MAX_SECS = 0.3 * SLOWNESS
MAX_BYTES = 50 << 20
PAGES = (
    "",
    "?range=hour",
    "?range=all",
    "hosts",
    "hosts?sort=failures&q=99&state=waiting",
    "help/",
    "token",
)


@contextmanager
def monitor_of(job, pages=URLS * 8 // 10):
    """The monitor of the crawl in *job*, which does not run, and its memory in bytes."""
    settings = get_project_settings()
    settings.setdict({"JOBDIR": str(job), "MONITOR_PORT": free_port()})
    process = MonitorProcess(settings)
    process.start()
    monitor = Monitor(job)
    try:
        while monitor.pages() < pages:  # a million lines take a while
            time.sleep(2)
        yield monitor, lambda: psutil.Process(process._process.pid).memory_info().rss
    finally:
        process.end()


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """The monitor of such a crawl, and its memory in bytes."""
    job = tmp_path_factory.mktemp("large") / "job"
    now = time.time()
    stored = Stored(job, lambda: now)
    for number in range(HOSTS):
        stored.rig.push(entry(f"www{number}.site{number % 9000}.test", 1))
    stored.rig.next()
    stored.publish()
    outcomes = ["http_200"] * 8 + ["http_404", "timeout"]
    block = [
        line(
            f"http://www{number}.site{number % 9000}.test/BLOCK/page.html",
            outcomes[number % 10],
            now + number,
            sent=now + number,
            bytes=number % 50_000,
            kind="a",
            depth=number % 9,
        )
        for number in range(HOSTS)
    ]
    path = write_log(job, block)
    data = path.read_bytes()
    with path.open("wb") as file:
        for number in range(URLS // HOSTS):
            file.write(data.replace(b"/BLOCK/", b"/%d/" % number))
    write_history(
        job, [now + 3600 * hour for hour in range(700)], waiting=lambda hour: 10**6 - hour
    )
    with monitor_of(job) as served:
        yield served


def test_each_page_is_served_within_time_and_memory(large, tmp_path):
    monitor, memory = large
    for path in PAGES:
        secs = []
        for _ in range(5):
            began = time.monotonic()
            assert monitor.status("GET", f"/{path}") in (200, 401), path
            secs.append(time.monotonic() - began)
        assert min(secs) < MAX_SECS, path
    write_log(tmp_path / "small", [line("http://a.test/", "http_200", 1e9)])
    with monitor_of(tmp_path / "small", 1) as (_, memory_of_small):
        assert memory() - memory_of_small() < MAX_BYTES


@each("scheme", "light", "dark")
@each("width", 400, 800, 1280)
def test_each_page_fits_its_window_and_can_be_used_by_everyone(large, width, scheme):
    monitor, _ = large
    with chromium() as browser:
        origin = monitor.url.removesuffix("/")
        given = {"username": "", "password": monitor.token, "origin": origin}
        tab = Tab(browser, width=width, color_scheme=scheme, http_credentials=given)
        for path in PAGES:
            tab.page.goto(monitor.url + path)
            assert tab.wide <= 0, path
            assert serious_findings(tab) == [], path
        assert [url for url in tab.asked if not url.startswith(monitor.url)] == []
