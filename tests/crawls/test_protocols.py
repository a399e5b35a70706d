"""One crawl over hosts of all four protocols, judged by the simulated web's own record."""

from collections import Counter

import pytest
from crawling import USER_AGENT, impolite, pages_asked_for, simulated
from fastwarc.warc import ArchiveIterator, WarcRecordType
from patience import SLOWNESS
from web_truth import allowed_urls, fetchable_urls

from webcrawl.simweb import Faults
from webcrawl.simweb.accesslog import AnswerEnd

MIN_DELAY = 0.05


def crawled(directory, *, settings=None, **world):
    """Crawls a web of all protocols to its end; it has been stopped."""
    with simulated(directory, ftp_port=0, gopher_port=0, **world) as web:
        web.crawl(**{"GOPHER_PORTS": web.world.gopher_port, **(settings or {})})
        return web


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


def test_all_four_protocols_are_crawled_completely_politely_and_stored(tmp_path):
    size = {"hosts": 50, "mean_pages": 6.0, "max_pages": 30}
    # FTP takes many turns, each of which a busy machine may hold up; nothing may be tried again.
    settings = {"DOWNLOAD_TIMEOUT": 30}
    web = crawled(tmp_path, settings=settings, **size, seed=5, ftp=0.2, gopher=0.2)
    asked = web.judge(min_delay=MIN_DELAY)
    record, allowed = web.hits(), asked.keys()
    fetchable = fetchable_urls(web.world, USER_AGENT)
    assert min(by_scheme(allowed)[scheme] for scheme in ("http", "https", "ftp", "gopher")) > 20
    assert not {url for url, count in asked.items() if count > 1} & fetchable
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
    resources = stored(web.job / "warc", WarcRecordType.resource)
    responses = stored(web.job / "warc", WarcRecordType.response)
    assert set(by_scheme(resources)) == {"ftp", "gopher"}
    assert set(by_scheme(responses)) == {"http", "https"}
    revisits = stored(web.job / "warc", WarcRecordType.revisit)
    assert fetchable <= resources.keys() | responses.keys() | revisits.keys()
    assert 0 < len(revisits) <= web.stats["content/duplicates"]
    assert {url for url in resources if not url.endswith("/robots.txt")} <= fetchable
    for url, content_type in resources.items():
        if url.startswith("ftp:") and url.endswith("/"):
            assert content_type == "text/plain"
    assert "application/gopher-menu" in resources.values()


@pytest.mark.long
def test_hosts_that_fail_have_their_outcomes_and_the_crawl_goes_on(tmp_path):
    faults = Faults(
        **dict.fromkeys(("server_error", "refuse", "reset", "garbage", "stall", "nxdomain"), 0.07)
    )
    web = crawled(
        tmp_path,
        hosts=48,
        seed=6,
        ftp=0.4,
        gopher=0.2,
        faults=faults,
        mean_pages=3.0,
        max_pages=12,
        stall_secs=5 * SLOWNESS,
        settings={
            "DOWNLOAD_TIMEOUT": 2 * SLOWNESS,
            "FRONTIER_RETRY_TIMES": 1,
            "POLITENESS_MAX_DELAY": 0.3,
        },
    )
    record = web.hits()
    asked = set(pages_asked_for(record))
    assert asked >= fetchable_urls(web.world, USER_AGENT)
    # A web host may say 404 for robots.txt and break down only then, which is an answer.
    own = {url for url in asked if url.startswith(("ftp:", "gopher:"))}
    assert own <= allowed_urls(web.world, USER_AGENT)
    assert impolite(record, min_delay=MIN_DELAY) == []
    ended = {hit.outcome for hit in record if hit.origin.startswith("ftp:")}
    assert {AnswerEnd.RESET, AnswerEnd.STALL, AnswerEnd.GARBAGE} <= ended
    assert web.stats["finish_reason"] == "finished"


def test_what_the_settings_leave_out_is_not_contacted(tmp_path):
    world = {"hosts": 16, "mean_pages": 2.5, "max_pages": 8, "seed": 3, "ftp": 0.3, "gopher": 0.3}
    settings = {"DOWNLOAD_HANDLERS": '{"ftp": null}', "GOPHER_PORTS": "70"}
    web = crawled(tmp_path, **world, settings=settings)
    assert set(by_scheme(pages_asked_for(web.hits()))) <= {"http", "https"}
    stats = web.stats
    assert stats["urls/refused/scheme"] > 0
    assert stats["outcome/bad_url"] > 0  # hosts of Gopher, on a port that is none of its
