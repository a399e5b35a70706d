"""The main job from end to end, on the simulated web."""

import csv
import json
import signal
import time
from collections import Counter
from urllib.parse import urlsplit

import pytest
import warc_checks
import warm
from crawling import (
    RIGS,
    USER_AGENT,
    damage_in,
    finish,
    impolite,
    output_of,
    pages_asked_for,
    simulated,
    start_crawl,
    url_of_hit,
    warc_kinds,
    warc_urls,
)
from reading_report import open_crawl
from simweb_client import whole_log
from text_tables import each
from web_truth import allowed_urls, fetchable_urls

from webcrawl.jobs.inspect.info_log import outcome_lines
from webcrawl.seen.url_trace import read_trace

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


@each("fast", True, long=(False,))
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
    feeds = ["-O", feed, "-O", f"{links}:links", "-s", f"FEEDS={json.dumps({str(texts): chosen})}"]
    output = clean.crawl(*map(str, feeds), FAST_PATH_ENABLED=fast, RANKS_FILE=ranks, URL_TRACE=path)
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
    stats = clean.stats
    assert stats["ranks/rules"] == 1
    trace = read_trace(path)
    assert len(trace.fps) == stats["seen/submitted"]
    distinct = len(set(trace.fps.tolist()))
    assert distinct == stats["seen/new"] - stats.get("seen/named_twice", 0)
    assert 0 < trace.leaves.sum() < len(trace.fps)
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
    with open_crawl(clean.job) as crawl:
        contacted = crawl.hosts
    waits = crawl.counts("politeness/waits/")
    hosts = {urlsplit(hit.origin).hostname for hit in record}
    assert sum(waits.values()) == len(record) - len(hosts)
    assert min(float(name.partition("/")[2]) for name in waits) >= 2**-5  # 0.03 to 0.06
    assert contacted == stats["hosts/contacted"] == len(hosts) >= 30
    totals = crawl.log
    pages = sum(n for name, n in totals.counts.items() if name.startswith("outcome/http_2"))
    assert pages == len(fetched)
    assert totals.counts["content/duplicates"] == stats["content/duplicates"] == crawl.duplicates
    again = sum(one.bytes * (one.tries - 1) for one in outcome_lines(clean.job))
    assert totals.counts["fetch/bytes"] + again == stats["fetch/bytes"] == crawl.received
    assert warm.scrapy("report", clean.job).returncode == 0
    assert "=== crawl summary ===" in output
    assert "finished: nothing is left to fetch" in output
    assert stats["finish_reason"] == "finished"
    # Once more: there is nothing to do.
    assert "finished" in clean.crawl(FAST_PATH_ENABLED=fast)
    assert len(hits()) == len(record)


def test_a_stopped_crawl_resumes_where_it_was(clean, hits, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", RIGS)
    # The largest host takes 40 pages * 0.2 s: longer than the three runs that are stopped.
    counter = "counting_module.PageCounter"
    modules = json.dumps({"webcrawl.pipelines.warc.WarcPipeline": 100, counter: 200})
    settings = {"POLITENESS_MIN_DELAY": 0.2, "ITEM_PIPELINES": modules}
    for _ in range(3):
        crawl = start_crawl(clean.command(**settings))
        time.sleep(1.2)
        crawl.send_signal(signal.SIGTERM)
        output = output_of(crawl)
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


def test_a_trace_that_cannot_be_written_is_one_sentence(clean, tmp_path):
    path = tmp_path / "nowhere" / "trace"
    said = finish(clean.command(URL_TRACE=path), code=2)
    assert said.splitlines()[-1].startswith("webcrawl: The URL trace cannot be written: ")
    assert "Traceback" not in said
