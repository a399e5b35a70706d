"""One crawl over hosts of all four protocols, judged by the simulated web's own record."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from crawling import (
    USER_AGENT,
    access_log,
    crawl_command,
    impolite,
    pages_asked_for,
    run_crawl,
    stats_of,
)
from fastwarc.warc import ArchiveIterator, WarcRecordType

from webcrawl.simweb import (
    AnswerEnd,
    Faults,
    allowed_urls,
    fetchable_urls,
    preset,
    start_in_process,
)

MIN_DELAY = 0.05
PORTS = {"http_port": 0, "https_port": 0, "ftp_port": 0, "gopher_port": 0}


@pytest.fixture
def crawled(tmp_path):
    """Crawls a world to its end: its record, the job directory, and the world with its ports."""

    def crawl(world, **settings):
        with start_in_process(world, log_path=tmp_path / "access.log") as web:
            seeds = tmp_path / "seeds.txt"
            seeds.write_text("\n".join(web.world.seeds()) + "\n")
            job = tmp_path / "job"
            settings.setdefault("GOPHER_PORTS", web.world.gopher_port)
            done = run_crawl(crawl_command(web, seeds, job, **settings))
            assert done.returncode == 0, done.stdout
            time.sleep(0.4)  # the server writes its record at the latest 0.2 s after an answer
            return access_log(tmp_path / "access.log"), job, web.world

    return crawl


def stored(directory, kind):
    """Target URIs and content types of all records of *kind*."""
    found = {}
    for path in directory.glob("*.warc.gz"):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream, record_types=kind, parse_http=False):
                found[record.headers["WARC-Target-URI"]] = record.headers["Content-Type"]
    return found


def by_scheme(urls):
    return Counter(url.partition(":")[0] for url in urls)


def test_all_four_protocols_are_crawled_completely_politely_and_stored(crawled):
    world = preset(
        "clean", **PORTS, hosts=80, seed=5, ftp=0.2, gopher=0.2, mean_pages=6.0, max_pages=30
    )
    record, job, world = crawled(world)
    allowed = allowed_urls(world, USER_AGENT)
    fetchable = fetchable_urls(world, USER_AGENT)
    asked = Counter(pages_asked_for(record))
    assert set(asked) == allowed
    assert min(by_scheme(allowed)[scheme] for scheme in ("http", "https", "ftp", "gopher")) > 20
    assert not {url for url, count in asked.items() if count > 1} & fetchable
    assert impolite(record, min_delay=MIN_DELAY) == []
    # Asked for once for each FTP host, and for no Gopher host.
    robots = Counter(
        hit.origin for hit in record if hit.target == "/robots.txt" and hit.status < 500
    )
    origins = {url.rpartition("/")[0] for url in allowed if url.count("/") == 3}
    assert {one for one in robots if one.startswith("ftp:")} >= {
        one for one in origins if one.startswith("ftp:")
    }
    assert not any(origin.startswith("gopher:") for origin in robots)
    assert max(robots.values()) == 1
    # Every document is stored by the kind of record that it has to have.
    resources = stored(job / "warc", WarcRecordType.resource)
    responses = stored(job / "warc", WarcRecordType.response)
    assert set(by_scheme(resources)) == {"ftp", "gopher"}
    assert set(by_scheme(responses)) == {"http", "https"}
    assert len(fetchable - set(resources) - set(responses)) == stats_of(job)["content/duplicates"]
    assert set(resources) <= fetchable
    for url, content_type in resources.items():
        if url.startswith("ftp:") and url.endswith("/"):
            assert content_type == "text/plain"
    assert "application/gopher-menu" in resources.values()


def test_hosts_that_fail_have_their_outcomes_and_the_crawl_goes_on(crawled):
    faults = Faults(
        **dict.fromkeys(("server_error", "refuse", "reset", "garbage", "stall", "nxdomain"), 0.07)
    )
    world = preset(
        "clean",
        **PORTS,
        hosts=48,
        seed=6,
        ftp=0.4,
        gopher=0.2,
        faults=faults,
        mean_pages=3.0,
        max_pages=12,
        stall_secs=5.0,
    )
    record, job, world = crawled(
        world, DOWNLOAD_TIMEOUT=1, FRONTIER_RETRY_TIMES=1, POLITENESS_MAX_DELAY=0.3
    )
    asked = set(pages_asked_for(record))
    assert asked >= fetchable_urls(world, USER_AGENT)
    # A web host may say 404 for robots.txt and break down only then, which is an answer.
    own = {url for url in asked if url.startswith(("ftp:", "gopher:"))}
    assert own <= allowed_urls(world, USER_AGENT)
    assert impolite(record, min_delay=MIN_DELAY) == []
    ended = {hit.outcome for hit in record if hit.origin.startswith("ftp:")}
    assert {AnswerEnd.RESET, AnswerEnd.STALL, AnswerEnd.GARBAGE} <= ended
    assert stats_of(job)["finish_reason"] == "finished"


def test_what_the_settings_leave_out_is_not_contacted(crawled):
    small = {"hosts": 16, "mean_pages": 2.5, "max_pages": 8}
    world = preset("clean", **PORTS, **small, seed=3, ftp=0.3, gopher=0.3)
    record, job, world = crawled(world, DOWNLOAD_HANDLERS='{"ftp": null}', GOPHER_PORTS="70")
    assert set(by_scheme(pages_asked_for(record))) <= {"http", "https"}
    stats = stats_of(job)
    assert stats["urls/refused/scheme"] > 0
    assert stats["outcome/bad_url"] > 0  # hosts of Gopher, on a port that is none of its
