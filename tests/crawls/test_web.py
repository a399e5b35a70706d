"""The main job from end to end, on the simulated web."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import json
import signal
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import counting_module
import pytest
import warc_checks
import warm
from crawling import (
    USER_AGENT,
    crawl_command,
    damage_in,
    impolite,
    kill,
    pages_asked_for,
    run_crawl,
    simulated,
    start_crawl,
    stats_of,
    url_of_hit,
    warc_kinds,
    warc_urls,
)
from reading_report import crawl_of
from simweb_client import whole_log

from webcrawl.jobs.inspect.info_log import ends
from webcrawl.seen.url_trace import read_trace
from webcrawl.simweb import Faults, allowed_urls, fetchable_urls

MIN_DELAY = 0.05


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A web without faults; each test has its own part of the access log."""
    directory = tmp_path_factory.mktemp("simweb")
    with simulated(directory, hosts=40, mean_pages=7.0, max_pages=40) as web:
        yield web


@pytest.fixture
def clean(served, tmp_path):
    """That web, with a job directory that is new."""
    served.job = tmp_path / "job"
    return served


@pytest.fixture
def hits(clean):
    """Tells what the server has recorded since the test began."""
    before = len(whole_log(clean.web))
    return lambda: whole_log(clean.web)[before:]


@pytest.mark.parametrize("fast", [True, False], ids=["fast path", "Scrapy's own ways"])
def test_a_crawl_fetches_every_allowed_url_once_politely_and_stores_it(clean, hits, tmp_path, fast):
    feed, links, ranks = (tmp_path / name for name in ("pages.jsonl", "links.csv", "ranks.csv"))
    path = clean.job / "links.trace"
    ranks.write_text("1,site00007.sim.test\n")
    texts = tmp_path / "texts.jsonl"
    chosen = {
        "format": "jsonlines",
        "item_filter": "webcrawl.pipelines.feed_filter.Documents",
        "fields": ["url", "status", "title", "text"],
    }
    feeds = (
        "-O",
        str(feed),
        "-O",
        f"{links}:links",
        "-s",
        f"FEEDS={json.dumps({str(texts): chosen})}",
    )
    output = clean.crawl(*feeds, FAST_PATH_ENABLED=fast, RANKS_FILE=ranks, URL_TRACE=path)
    record = hits()
    asked = Counter(pages_asked_for(record))
    assert set(asked) == allowed_urls(clean.world, USER_AGENT)
    retried = {url for url, count in asked.items() if count > 1}
    fetched = fetchable_urls(clean.world, USER_AGENT)
    assert not retried & fetched
    assert impolite(record, min_delay=MIN_DELAY) == []
    stored = Counter(warc_urls(clean.job / "warc"))
    assert set(stored) <= {url_of_hit(hit) for hit in record}
    exported = list(map(json.loads, feed.read_text().splitlines()))
    assert Counter(page["url"] for page in exported) == stored
    counted = json.loads((clean.job / "statistics/content_types.json").read_text())
    types = Counter(page["content_type"] or "(none)" for page in exported if page["status"] == 200)
    assert {name: row["documents"] for name, row in counted.items()} == types
    documents = list(map(json.loads, texts.read_text().splitlines()))
    assert {page["url"] for page in documents} == fetched & set(stored)
    assert {page["status"] for page in documents} == {200}
    titled = [page for page in documents if page["title"]]
    assert len(titled) > 20
    assert all(f"<title>{page['title']}</" in page["text"] for page in titled)
    with links.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["source"] for row in rows} <= set(stored)
    found = {page["url"] for page in exported if page["via"] in stored}
    assert found <= {row["target"] for row in rows}
    stats = stats_of(clean.job)
    assert stats["ranks/rules"] == 1
    trace = read_trace(path)
    assert len(trace.fps) == stats["seen/submitted"]
    assert len(set(trace.fps.tolist())) == stats["seen/new"]
    assert 0 < trace.leave.sum() < len(trace.fps)
    # Seen under another URL: not processed.
    assert len(fetched - set(stored)) == stats["content/duplicates"]
    kept = warc_kinds(clean.job / "warc")
    assert kept.keys() == {url_of_hit(hit) for hit in record}
    assert list(kept.values()).count("revisit") == stats["warc/revisits"] > 0
    files = sorted((clean.job / "warc").glob("*.warc.gz"))
    assert warc_checks.dangling(files) == []
    of_robots = [
        {*one.body.splitlines()} >= {b"kind: robots", b"notProcessed: robots"}
        for one in warc_checks.records(files[0])
        if one.kind == "metadata" and one.headers["WARC-Target-URI"].endswith("/robots.txt")
    ]
    assert len(of_robots) >= 30
    assert all(of_robots)
    assert stats["links/submitted"] >= len(asked)
    crawl = crawl_of(clean.job)
    waits = crawl.counts("politeness/waits/")
    assert sum(waits.values()) == len(record) - len(
        {urlsplit(hit.origin).hostname for hit in record}
    )
    assert min(float(name.partition("/")[2]) for name in waits) >= 2**-5  # 0.03 to 0.06
    assert stats["robots/origins"] >= 30
    totals = crawl.log
    assert totals.pages == len(fetched)
    assert crawl.servers.number == len({urlsplit(url).hostname for url in asked})
    assert totals.duplicates == stats["content/duplicates"]
    again = sum(one.bytes * (one.tries - 1) for one in ends(clean.job))
    assert totals.bytes + again == stats["fetch/bytes"]
    assert warm.scrapy("report", clean.job).returncode == 0
    assert "=== crawl summary ===" in output
    assert "finished: nothing is left to fetch" in output
    assert stats["finish_reason"] == "finished"
    # Once more: there is nothing to do.
    assert "finished" in clean.crawl(FAST_PATH_ENABLED=fast)
    assert len(hits()) == len(record)


def test_a_stopped_crawl_resumes_where_it_was(clean, hits, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(counting_module.__file__).parent))
    # The largest host takes 40 pages * 0.2 s: longer than the three runs that are stopped.
    counter = "counting_module.PageCounter"
    modules = json.dumps({"webcrawl.pipelines.warc.WarcPipeline": 100, counter: 200})
    settings = {"POLITENESS_MIN_DELAY": 0.2, "ITEM_PIPELINES": modules}
    for _ in range(3):
        crawl = start_crawl(clean.command(**settings))
        time.sleep(1.2)
        crawl.send_signal(signal.SIGTERM)
        output = crawl.communicate(timeout=60)[1]
        assert crawl.returncode == 0, output
        assert "stopped by a signal" in output
        assert damage_in(clean.job) == []
    assert "finished: nothing is left" in clean.crawl(**settings)
    assert damage_in(clean.job) == []
    counted = Counter(json.loads((clean.job / "counted.json").read_text()))
    assert counted == Counter(warc_urls(clean.job / "warc"))
    record = hits()
    asked = Counter(pages_asked_for(record))
    assert set(asked) == allowed_urls(clean.world, USER_AGENT)
    assert impolite(record, min_delay=0.2) == []
    twice = {url for url, count in asked.items() if count > 1}
    assert not twice & fetchable_urls(clean.world, USER_AGENT)


def test_a_stopped_crawl_does_not_wait_for_servers_that_hang(tmp_path):
    settings = {
        "DOWNLOAD_TIMEOUT": 60,
        "SHUTDOWN_GRACE_SECS": 1,
        "CHECKPOINT_INTERVAL_SECS": 0.2,
    }
    faults = dataclasses.replace(Faults.none(), stall=0.7)
    with simulated(tmp_path, hosts=30, mean_pages=3.0, faults=faults, stall_secs=50) as web:
        crawl = web.start(**settings)
        time.sleep(2)
        crawl.send_signal(signal.SIGTERM)
        stopped_at = time.monotonic()
        output = crawl.communicate(timeout=30)[1]
        assert time.monotonic() - stopped_at < 10
        assert crawl.returncode == 0, output
        assert "Traceback" not in output
        assert stats_of(web.job)["frontier/waiting"] > 0
        # One may have been under way; the last one is made when nothing else is.
        assert output.partition("Closing spider")[2].count("Checkpoint made") <= 2


def test_a_second_crawl_in_the_same_jobdir_is_refused(clean):
    command = clean.command(POLITENESS_MIN_DELAY=1)
    crawl = start_crawl(command)
    try:
        time.sleep(0.5)
        second = run_crawl(command)
        assert second.returncode == 2
        assert f"in use by process {crawl.pid}" in second.stdout
        assert "Traceback" not in second.stdout
    finally:
        kill(crawl)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "no such file"),
        (b"", "seed"),
        (b"# only a comment\n\n", "seed"),
    ],
)
def test_missing_or_empty_seeds_are_one_sentence(clean, tmp_path, content, sentence):
    seeds = tmp_path / "seeds.txt"
    if content is not None:
        seeds.write_bytes(content)
    done = run_crawl(crawl_command(clean.web, seeds, clean.job, LOG_LEVEL="CRITICAL"))
    assert done.returncode == 2, done.stdout
    assert sentence in done.stdout.lower()
    assert str(seeds) in done.stdout
    assert len(done.stdout.strip().splitlines()) == 1, done.stdout


def test_a_trace_that_cannot_be_written_is_one_sentence(clean, tmp_path):
    path = tmp_path / "nowhere" / "trace"
    done = run_crawl(clean.command(URL_TRACE=path))
    assert done.returncode == 2, done.stdout
    assert done.stdout.splitlines()[-1].startswith("webcrawl: The URL trace cannot be written: ")
    assert "Traceback" not in done.stdout


def test_seeds_come_from_standard_input_gzip_and_several_files(clean, hits, tmp_path):
    urls = list(clean.world.seeds())
    hosts = {url: url.split("/")[2] for url in urls}
    (tmp_path / "a.csv").write_text("".join(f"{n},{hosts[u]}\n" for n, u in enumerate(urls[:3], 1)))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(f"# more\n{urls[3]}\nhttp://[bad\n".encode()))
    sources = f"{tmp_path / 'a.csv'},-,{tmp_path / 'b.txt.gz'}"
    command = crawl_command(clean.web, sources, clean.job, URL_MAX_DEPTH=0)
    done = warm.run(command, input=f"{urls[4]}\n")
    assert done.returncode == 0, done.stderr
    stats = stats_of(clean.job)
    assert stats["seeds/read"] == 5
    assert stats["seeds/bad"] == 1
    assert "b.txt.gz:3" in done.stderr
    asked = set(pages_asked_for(hits()))
    assert {u for u in urls[:5] if u.startswith("http://")} <= asked
