"""Crawls on a disk with little room, judged by the simulated web's own record."""

import os
import shutil
import signal

import pytest
from crawling import (
    USER_AGENT,
    access_log,
    crawl_command,
    finish,
    lines_until,
    output_of,
    pages_asked_for,
    simulated,
    start_crawl,
    stats_of,
    wait_until,
)
from disk import fill_disk_of
from scrapy.exceptions import NotConfigured
from scrapy.utils.test import get_crawler
from web_truth import allowed_urls

from webcrawl.extensions.disk_guard import DiskGuard
from webcrawl.simweb import preset, start_in_process

MIB = 1 << 20
PAUSED = "in process; paused: disk\n"


@pytest.fixture
def web(tmp_path):
    world = preset(
        "clean", http_port=0, https_port=0, hosts=12, mean_pages=4.0, max_pages=12, crawl_delays=0.0
    )
    with start_in_process(world, log_path=tmp_path / "access.log") as web:
        yield web


def begin(web, tmp_path, **settings):
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("\n".join(web.world.seeds()))
    return start_crawl(crawl_command(web, seeds, tmp_path / "job", **settings))


def test_on_a_full_disk_no_host_is_contacted_and_the_summary_says_why(web, tmp_path):
    crawl = begin(web, tmp_path, DISK_MIN_FREE_BYTES=1 << 60, STATISTICS_INTERVAL_SECS=0.5)
    log = "".join(lines_until(crawl, PAUSED) for _ in range(3))
    crawl.send_signal(signal.SIGTERM)
    log += output_of(crawl)
    web.stop()
    assert list(access_log(web.log_path)) == []
    assert "less than DISK_MIN_FREE_BYTES" in log
    summary = log[log.index("=== crawl summary ===") :]
    assert " s: disk\n" in summary
    assert "still paused at the end: " in summary
    assert "free some space, and the crawl resumes by itself." in " ".join(summary.split())
    assert stats_of(tmp_path / "job")["pauses/disk_secs"] > 0.5


@pytest.mark.cures("free some space, and the crawl resumes by itself.")
def test_when_there_is_room_again_the_crawl_goes_on_and_misses_nothing(web, tmp_path):
    ballast = tmp_path / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 600 * MIB)
    free = shutil.disk_usage(tmp_path).free
    crawl = begin(web, tmp_path, DISK_MIN_FREE_BYTES=free + 150 * MIB, STATISTICS_INTERVAL_SECS=0.5)
    for _ in range(3):
        lines_until(crawl, PAUSED)
    assert list(access_log(web.log_path)) == []
    ballast.unlink()
    log = output_of(crawl)
    assert "The crawl resumes: " in log
    stats = stats_of(tmp_path / "job")
    assert stats["pauses/disk_secs"] > 0.5
    assert stats["pauses/now"] == ""
    world = web.world
    web.stop()
    asked = pages_asked_for(access_log(web.log_path))
    assert set(asked) == allowed_urls(world, USER_AGENT)


def test_a_floor_of_nothing_turns_it_off(tmp_path):
    settings = {"JOBDIR": str(tmp_path), "DISK_MIN_FREE_BYTES": 0, "WARC_DIR": ""}
    with pytest.raises(NotConfigured):
        DiskGuard.from_crawler(get_crawler(settings_dict=settings))


def test_after_a_full_disk_the_summary_names_the_partial_totals(tmp_path):
    settings = {"CHECKPOINT_INTERVAL_SECS": 0.5, "DISK_MIN_FREE_BYTES": 0}
    with simulated(tmp_path, hosts=4, mean_pages=60.0, max_pages=90, crawl_delays=0.0) as web:
        crawl = start_crawl(web.command(**settings))
        wait_until((web.job / "CURRENT").exists)
        fill_disk_of(crawl)
        assert "is full: free some space" in output_of(crawl, code=3)
        said = " ".join(finish(web.command(**settings)).split())
    assert " the last minute of 1 run without a last checkpoint this run " in said
    assert " contacted" not in said
