"""The main job from end to end, on the simulated web."""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
import signal
import time
from collections import Counter

import pytest
import warm
from crawling import (
    USER_AGENT,
    access_log,
    clean_web,
    crawl_command,
    damage_in,
    impolite,
    pages_asked_for,
    run_crawl,
    start_crawl,
    stats_of,
    url_of_hit,
    warc_urls,
)

from webcrawl.crawl.outcome_log import NAMES
from webcrawl.simweb import (
    Faults,
    allowed_urls,
    fetchable_urls,
    is_endless_url,
    preset,
    start_in_process,
)

MIN_DELAY = 0.05


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """A web without faults and its seeds file; each test has its own part of the access log."""
    directory = tmp_path_factory.mktemp("simweb")
    with clean_web(directory, hosts=60, mean_pages=8.0, max_pages=40) as (web, seeds):
        yield web, seeds


@pytest.fixture
def hits(clean):
    """Tells what the server has recorded since the test began."""
    web, _ = clean
    before = len(access_log(web.log_path))

    def since():
        time.sleep(0.4)  # the server writes its record at the latest 0.2 s after an answer
        return access_log(web.log_path)[before:]

    return since


@pytest.mark.parametrize("fast", [True, False], ids=["fast path", "Scrapy's own ways"])
def test_a_crawl_fetches_every_allowed_url_once_politely_and_stores_it(clean, hits, tmp_path, fast):
    web, seeds = clean
    job, feed = tmp_path / "job", tmp_path / "pages.jsonl"
    line = crawl_command(web, seeds, job, FAST_PATH_ENABLED=fast)
    done = run_crawl([*line, "-O", str(feed)])
    assert done.returncode == 0, done.stdout
    record = hits()
    asked = Counter(pages_asked_for(record))
    assert set(asked) == allowed_urls(web.world, USER_AGENT)
    retried = {url for url, count in asked.items() if count > 1}
    fetched = fetchable_urls(web.world, USER_AGENT)
    assert not retried & fetched
    assert impolite(record, min_delay=MIN_DELAY) == []
    stored = Counter(warc_urls(job / "warc"))
    assert set(stored) <= {url_of_hit(hit) for hit in record}
    exported = map(json.loads, feed.read_text().splitlines())
    assert Counter(page["url"] for page in exported) == stored
    stats = stats_of(job)
    # Seen under another URL: not processed.
    assert len(fetched - set(stored)) == stats["content/duplicates"]
    assert stats["links/submitted"] >= len(asked)
    assert stats["robots/origins"] >= 50
    assert "=== crawl summary ===" in done.stdout
    assert "finished: nothing is left to fetch" in done.stdout
    assert stats["finish_reason"] == "finished"


def test_a_web_full_of_faults_is_crawled_completely_and_politely(tmp_path):
    world = preset("mercator", http_port=0, https_port=0, hosts=80, mean_pages=5.0, max_pages=30)
    with start_in_process(world, log_path=tmp_path / "access.log") as web:
        seeds = tmp_path / "seeds.txt"
        seeds.write_text("\n".join(web.world.seeds()) + "\n")
        job = tmp_path / "job"
        command = crawl_command(
            web, seeds, job, URL_MAX_DEPTH=40, DOWNLOAD_TIMEOUT=2, POLITENESS_MAX_DELAY=0.5
        )
        done = run_crawl(command, timeout=240)
        assert done.returncode == 0, done.stdout
        web.stop()
        record = access_log(tmp_path / "access.log")
        asked = {url for url in pages_asked_for(record) if not is_endless_url(url)}
        assert asked >= fetchable_urls(web.world, USER_AGENT)
        assert asked <= allowed_urls(web.world, USER_AGENT)
        assert impolite(record, min_delay=MIN_DELAY) == []
        outcomes = {name for name in stats_of(job) if name.startswith("outcome/")}
        assert {"outcome/connect_refused", "outcome/dns_not_found"} <= outcomes
        others = {name.removeprefix("outcome/") for name in outcomes} - NAMES
        assert all(re.fullmatch("http_[1-9][0-9]{2}", name, re.ASCII) for name in others)


def test_a_stopped_crawl_resumes_where_it_was(clean, hits, tmp_path):
    web, seeds = clean
    # The largest host takes 40 pages * 0.2 s: longer than the three runs that are stopped.
    command = crawl_command(web, seeds, tmp_path / "job", POLITENESS_MIN_DELAY=0.2)
    for _ in range(3):
        crawl = start_crawl(command)
        time.sleep(1.2)
        crawl.send_signal(signal.SIGTERM)
        output = crawl.communicate(timeout=60)[1]
        assert crawl.returncode == 0, output
        assert "stopped by a signal" in output
        assert damage_in(tmp_path / "job") == []
    done = run_crawl(command)
    assert "finished: nothing is left" in done.stdout
    assert damage_in(tmp_path / "job") == []
    record = hits()
    asked = Counter(pages_asked_for(record))
    assert set(asked) == allowed_urls(web.world, USER_AGENT)
    assert impolite(record, min_delay=0.2) == []
    twice = {url for url, count in asked.items() if count > 1}
    assert not twice & fetchable_urls(web.world, USER_AGENT)


def test_a_stopped_crawl_does_not_wait_for_servers_that_hang(tmp_path):
    faults = dataclasses.replace(Faults.none(), stall=0.7)
    with clean_web(tmp_path, hosts=30, mean_pages=3.0, faults=faults, stall_secs=50) as (
        web,
        seeds,
    ):
        command = crawl_command(
            web,
            seeds,
            tmp_path / "job",
            DOWNLOAD_TIMEOUT=60,
            SHUTDOWN_GRACE_SECS=1,
            CHECKPOINT_INTERVAL_SECS=0.2,
        )
        crawl = start_crawl(command)
        time.sleep(2)
        crawl.send_signal(signal.SIGTERM)
        stopped_at = time.monotonic()
        output = crawl.communicate(timeout=30)[1]
        assert time.monotonic() - stopped_at < 10
        assert crawl.returncode == 0, output
        assert "Traceback" not in output
        assert stats_of(tmp_path / "job")["frontier/waiting"] > 0
        # One may have been under way; the last one is made when nothing else is.
        assert output.partition("Closing spider")[2].count("Checkpoint made") <= 2


def test_a_finished_crawl_that_is_run_again_fetches_nothing(clean, hits, tmp_path):
    web, seeds = clean
    command = crawl_command(web, seeds, tmp_path / "job", URL_MAX_DEPTH=1)
    assert run_crawl(command).returncode == 0
    first = len(hits())
    done = run_crawl(command)
    assert done.returncode == 0
    assert "finished" in done.stdout
    assert len(hits()) == first


def test_a_second_crawl_in_the_same_jobdir_is_refused(clean, tmp_path):
    web, seeds = clean
    command = crawl_command(web, seeds, tmp_path / "job", POLITENESS_MIN_DELAY=1)
    crawl = start_crawl(command)
    try:
        time.sleep(0.5)
        second = run_crawl(command)
        assert second.returncode == 2
        assert f"in use by process {crawl.pid}" in second.stdout
        assert "Traceback" not in second.stdout
    finally:
        crawl.kill()
        crawl.stderr.close()
        crawl.wait()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"POLITENESS_MIN_DELAY": "soon"}, "POLITENESS_MIN_DELAY must be a number"),
        ({"POLITENESS_MIN_DELAY": -1}, "POLITENESS_MIN_DELAY must be a number"),
        ({"POLITENESS_MIN_DELAY": 200}, "floor"),
        ({"FRONTIER_LEVELS": 0}, "FRONTIER_LEVELS must be a whole number"),
        ({"FRONTIER_PRIORITIZER": "no.such.Thing"}, "FRONTIER_PRIORITIZER"),
        ({"SEEN_ELIMINATOR": "no.such.Thing"}, "SEEN_ELIMINATOR"),
        ({"SEEN_BUFFER_SIZE": "big"}, "SEEN_BUFFER_SIZE"),
        ({"MEMORY_BUDGET": 1_000_000}, "MEMORY_BUDGET must be at least 10240000 bytes"),
        ({"CHECKPOINT_INTERVAL_SECS": -5}, "CHECKPOINT_INTERVAL_SECS"),
        ({"PAGE_MAX_BYTES": 0}, "PAGE_MAX_BYTES"),
        ({"DNS_SERVERS": "not a server"}, "DNS_SERVERS"),
        ({"WARC_MAX_FILE_BYTES": "x"}, "WARC_MAX_FILE_BYTES"),
        ({"JOBDIR": ""}, "JOBDIR"),
        ({"JOBDIR": "/proc/nowhere"}, "JOBDIR /proc/nowhere cannot be used"),
    ],
)
def test_a_setting_that_cannot_be_is_one_sentence(clean, tmp_path, settings, sentence):
    web, seeds = clean
    done = run_crawl(crawl_command(web, seeds, tmp_path / "job", LOG_LEVEL="ERROR", **settings))
    assert done.returncode == 2, done.stdout
    assert sentence in done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "no such file"),
        (b"", "seed"),
        (b"# only a comment\n\n", "seed"),
    ],
)
def test_missing_or_empty_seeds_are_one_sentence(clean, tmp_path, content, sentence):
    web, _ = clean
    seeds = tmp_path / "seeds.txt"
    if content is not None:
        seeds.write_bytes(content)
    done = run_crawl(crawl_command(web, seeds, tmp_path / "job", LOG_LEVEL="CRITICAL"))
    assert done.returncode == 2, done.stdout
    assert sentence in done.stdout.lower()
    assert str(seeds) in done.stdout
    assert len(done.stdout.strip().splitlines()) == 1, done.stdout


def test_seeds_come_from_standard_input_gzip_and_several_files(clean, hits, tmp_path):
    web, _ = clean
    urls = list(web.world.seeds())
    hosts = {url: url.split("/")[2] for url in urls}
    (tmp_path / "a.csv").write_text("".join(f"{n},{hosts[u]}\n" for n, u in enumerate(urls[:3], 1)))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(f"# more\n{urls[3]}\nhttp://[bad\n".encode()))
    sources = f"{tmp_path / 'a.csv'},-,{tmp_path / 'b.txt.gz'}"
    command = crawl_command(web, sources, tmp_path / "job", URL_MAX_DEPTH=0)
    done = warm.run(command, input=f"{urls[4]}\n")
    assert done.returncode == 0, done.stderr
    stats = stats_of(tmp_path / "job")
    assert stats["seeds/read"] == 5
    assert stats["seeds/bad"] == 1
    assert "b.txt.gz:3" in done.stderr
    asked = set(pages_asked_for(hits()))
    assert {u for u in urls[:5] if u.startswith("http://")} <= asked


def test_a_full_disk_ends_the_crawl_with_a_sentence_and_loses_nothing(clean, hits, tmp_path):
    web, seeds = clean
    job = tmp_path / "job"
    command = crawl_command(web, seeds, job)
    limited = ["bash", "-c", 'ulimit -f 128; trap "" XFSZ; exec "$@"', "bash", *command]
    done = run_crawl(limited)
    assert done.returncode == 3, done.stdout
    assert "Traceback" not in done.stdout.split("webcrawl: ")[-1]
    assert "run the same command again" in done.stdout
    assert damage_in(job) == []
    done = run_crawl(command)
    assert done.returncode == 0, done.stdout
    assert damage_in(job) == []
    record = hits()
    assert set(pages_asked_for(record)) == allowed_urls(web.world, USER_AGENT)
    assert impolite(record, min_delay=MIN_DELAY) == []
    stored = set(warc_urls(job / "warc"))
    missing = fetchable_urls(web.world, USER_AGENT) - stored
    assert all("/copy" in url or url for url in missing)


def test_a_jobdir_of_a_newer_format_is_refused_untouched(clean, tmp_path):
    web, seeds = clean
    job = tmp_path / "job"
    job.mkdir()
    (job / "CURRENT").write_text("manifest-000007.json\n")
    (job / "manifest-000007.json").write_text('{"format": 99}')
    done = run_crawl(crawl_command(web, seeds, job, LOG_LEVEL="ERROR"))
    assert done.returncode == 2
    assert "format 99" in done.stdout
    assert sorted(path.name for path in job.iterdir() if path.name != "stats.json") == [
        "CURRENT",
        "LOCK",
        "manifest-000007.json",
    ]
    assert (job / "manifest-000007.json").stat().st_size == 14
