"""The main job with Nielsen's Bloom filter in place of the exact eliminator."""

from __future__ import annotations

import pytest
from crawling import (
    USER_AGENT,
    access_log,
    clean_web,
    crawl_command,
    impolite,
    pages_asked_for,
    run_crawl,
    start_crawl,
    stats_of,
    wait_until,
)

from webcrawl.simweb import allowed_urls

# Far above the number of URLs: of a hundred none is lost.
SETTINGS = {
    "SEEN_ELIMINATOR": "webcrawl.seen.bloom.BloomEliminator",
    "SEEN_BLOOM_CAPACITY": 1_500,
    "POLITENESS_MAX_DELAY": 0.3,
}
MIN_DELAY = 0.05


@pytest.fixture
def simulated(tmp_path):
    """The simulated web, its seeds, and what it has recorded when it has been stopped."""
    log = tmp_path / "access.log"
    with clean_web(tmp_path, hosts=30, mean_pages=5.0, max_pages=14) as (web, seeds):

        def record():
            web.stop()
            return access_log(log)

        yield web, seeds, record


def test_a_crawl_with_a_bloom_filter_is_complete_and_tells_its_loss(simulated, jobdir):
    web, seeds, record = simulated
    done = run_crawl(crawl_command(web, seeds, jobdir, **SETTINGS))
    assert done.returncode == 0, done.stdout
    assert "finished: nothing is left to fetch" in done.stdout
    hits = record()
    assert set(pages_asked_for(hits)) == allowed_urls(web.world, USER_AGENT)
    assert impolite(hits, min_delay=MIN_DELAY) == []
    stats = stats_of(jobdir)
    assert stats["seen/bloom/capacity"] == 1_500
    assert 0 < stats["seen/bloom/expected_loss"] < 1e-3
    assert stats["seen/bloom/measured_loss"] == 0
    assert stats["seen/waiting"] == 0
    assert stats["frontier/leased"] == 0
    assert "seen/merge/count" not in stats
    assert stats["seen/submitted"] == stats["links/submitted"]
    assert list((jobdir / "shards/00/seen").glob("discovered-*.log"))


def test_a_crawl_with_a_bloom_filter_survives_kill_9(simulated, jobdir):
    web, seeds, record = simulated
    command = crawl_command(
        web, seeds, jobdir, **SETTINGS, POLITENESS_MIN_DELAY=0.15, CHECKPOINT_INTERVAL_SECS=0.4
    )
    for contacts in (1, 40):
        crawl = start_crawl(command)
        wait_until(lambda: len(access_log(web.log_path)) >= contacts)  # noqa: B023  # asked within this turn
        assert crawl.poll() is None, "it ended before it was killed"
        crawl.kill()
        crawl.stderr.close()
        crawl.wait()
    done = run_crawl(command)
    assert done.returncode == 0, done.stdout
    assert "finished: nothing is left to fetch" in done.stdout
    hits = record()
    assert set(pages_asked_for(hits)) == allowed_urls(web.world, USER_AGENT)
    assert impolite(hits, min_delay=0.15) == []
    assert stats_of(jobdir)["job/resumed"] == 1


def test_a_job_of_the_other_eliminator_is_refused_with_a_sentence(simulated, jobdir):
    web, seeds, _ = simulated
    command = crawl_command(web, seeds, jobdir, LOG_LEVEL="CRITICAL", CLOSESPIDER_PAGECOUNT=5)
    assert run_crawl(command).returncode == 0
    done = run_crawl(crawl_command(web, seeds, jobdir, LOG_LEVEL="CRITICAL", **SETTINGS))
    assert done.returncode == 2, done.stdout
    (line,) = done.stdout.splitlines()
    assert line.startswith(f"webcrawl: The crawl in JOBDIR {jobdir} cannot be resumed: ")
    assert "disk" in line
    assert run_crawl(command).returncode == 0
