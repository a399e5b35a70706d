"""URLs that were given up go back in line, once each, and are fetched."""

import asyncio
import json

import pytest
import warm
from disk import file_size_limit
from frontier_rig import entry
from linked_site import Answer, crawl, served
from looking import contents
from msgspec.structs import replace
from scrapy.crawler import Crawler
from scrapy.utils.project import get_project_settings
from stored_job import in_use
from text_tables import each, table

from webcrawl.crawl.job.jobdir import Job
from webcrawl.crawl.lease.outcome_log import MAX_URL, OutcomeLine
from webcrawl.errors import FatalError
from webcrawl.jobs.inspect import last_lines
from webcrawl.jobs.inspect.job_view import ask
from webcrawl.jobs.inspect.requeueing import (
    PutBack,
    UrlList,
    answered_filter,
    given_up_filter,
    put_back,
)
from webcrawl.jobs.inspect.stopped_job import open_stopped_job
from webcrawl.spiders.web import WebSpider


def retry_command(jobdir, outcomes, *more):
    options = ["--retry", outcomes, "-s", f"JOBDIR={jobdir}", *more]
    return warm.scrapy("frontier", *options)


def crawler_of(jobdir):
    settings = get_project_settings()
    settings.setmodule("webcrawl.settings")
    settings.set("JOBDIR", str(jobdir))
    return Crawler(WebSpider, settings)


def retry_here(jobdir, *outcomes, on_progress=lambda count, what: None):
    takes = given_up_filter(",".join(outcomes))
    return put_back(crawler_of(jobdir), takes, as_visit=False, on_progress=on_progress)


def entries(jobdir):
    """What waits, in all of its places, by URL."""

    def found(view):
        frontier = view.shards[0].frontier
        return [one.entry for one in frontier.entries(frontier.finished_keys())]

    return sorted(ask(jobdir, found), key=lambda one: one.url)


def waiting(jobdir):
    return [one.url for one in entries(jobdir)]


def test_urls_whose_last_outcome_was_given_up_go_back_once(stored, monkeypatch):
    for number in range(4):
        stored.end(entry("lost.test", number), "dns_not_found", depth=2, kind="img", via="x")
    for host, outcome in table("""
        lost.test  | dns_not_found
        tried.test | dns_not_found
        tried.test | http_200
        other.test | http_404
        later.test | http_200
        later.test | connect_refused
        back.test  | dns_not_found
    """):  # the first again, by a process that died
        stored.end(entry(host), outcome)
    stored.end(replace(entry("form.test"), kind="request"), "dns_not_found", kind="request")
    stored.end(entry("long.test", "x" * MAX_URL), "dns_not_found")
    stored.log.append(b"no line of ours")
    # One has come back by itself, as after an outage, and waits.
    stored.rig.push(entry("back.test"), entry("new.test"))
    stored.publish()
    monkeypatch.setattr(last_lines, "_PASS_BYTES", 1000)  # several parts of URLs
    told = []
    done = retry_here(
        stored.path,
        "dns_not_found",
        "connect_refused",
        on_progress=lambda count, what: told.append(what),
    )
    assert done == PutBack(urls=5, waiting=1, left_out=2)
    assert retry_here(stored.path, "http_599").in_words == (
        "0 URLs put back in line: the log has no such finished URLs"
    )
    expected = [
        *("http://back.test/0", "http://later.test/0"),
        *(f"http://lost.test/{number}" for number in range(4)),
        "http://new.test/0",
    ]
    assert waiting(stored.path) == expected
    assert "lines of the log read" in told
    assert retry_here(stored.path, "dns_not_found") == PutBack(urls=0, waiting=5, left_out=2)
    assert waiting(stored.path) == expected
    lost = entries(stored.path)[3]
    assert (lost.host, lost.depth, lost.kind, lost.via) == ("lost.test", 2, "img", "x")


def test_a_url_only_in_the_log_after_a_power_failure_is_not_new(stored, tmp_path):
    stored.end(entry("lost.test"), "dns_not_found")
    stored.publish()
    assert retry_here(stored.path, "dns_not_found").urls == 1
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("http://lost.test/0\nhttp://new.test/0\n")
    with open_stopped_job(crawler_of(stored.path)) as job:
        assert [*job.submit_seeds([str(seeds)])][-1].seeds_read == 2
        job.decide()
        assert job.state.facts()["in_eliminator"] == 1


def test_a_retry_that_dies_loses_nothing_and_is_run_again(stored, monkeypatch):
    for number in range(3):
        stored.end(entry("lost.test", number), "timeout", kind="a")
    stored.publish()

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Job, "publish", die)
        with pytest.raises(KeyboardInterrupt):
            retry_here(stored.path, "timeout")
    assert len(waiting(stored.path)) == 3
    assert retry_here(stored.path, "timeout") == PutBack(urls=0, waiting=3)


@pytest.mark.cures("The crawl in JOBDIR {} makes checkpoints faster than it can be read")
def test_a_crawl_with_checkpoint_after_checkpoint_is_read_when_it_has_stopped(stored):
    stored.publish()
    job = Job(path=stored.path)
    job.open(spider="web")

    def slowly(view):
        job.publish(job.prepare(job.own.facts))
        return len(view.shards)

    with pytest.raises(FatalError, match=r"faster than it can be read: .* or stop the crawl first"):
        ask(stored.path, slowly)
    job.close()
    assert ask(stored.path, lambda view: len(view.shards)) == 1


@pytest.mark.cures("The disk of JOBDIR {} is full: free some space and run the same command again.")
def test_a_retry_on_a_full_disk_is_run_again(stored):
    stored.end(entry("lost.test"), "timeout")
    stored.publish()
    with file_size_limit(100), pytest.raises(FatalError, match="is full: free some space"):
        retry_here(stored.path, "timeout")
    assert retry_here(stored.path, "timeout").urls == 1


@pytest.mark.cures("The list has more than {} URLs: split it.")
def test_a_list_that_is_too_long_is_split(monkeypatch):
    monkeypatch.setattr("webcrawl.jobs.inspect.requeueing._MAX_LISTED", 2)
    urls = ["http://a.test/", "http://b.test/", "http://c.test/"]
    with pytest.raises(FatalError, match="The list has more than 2 URLs: split it"):
        UrlList(urls)
    parts = UrlList(urls[:2]), UrlList(urls[2:])
    assert [url for part in parts for url in part.find_unanswered()] == urls


@each("name", "dns_faild", "http_200", "http_301", "http_4xx", "", "replaced")
def test_an_outcome_of_urls_not_given_up_is_refused(name):
    with pytest.raises(FatalError) as error:
        given_up_filter(f"dns_failed,{name}")
    assert f"{name!r} is not an outcome of URLs that are given up; choose from " in str(error.value)
    assert "dns_not_found" in str(error.value)
    given_up_filter("http_404, dns_failed")


@each("what", "*", "http*", "http://a.test/", "?ttp://a.test/*")
def test_patterns_take_whole_urls(what):
    assert answered_filter([what])(OutcomeLine(1.0, "http://a.test/", "", "http_200", ""))


def test_a_job_in_use_and_none_at_all_are_refused_in_a_sentence(stored, tmp_path):
    stored.end(entry("lost.test"), "dns_failed")
    stored.publish()
    with in_use(stored.path):
        before = contents(stored.path)
        run = retry_command(stored.path, "dns_failed")
        assert contents(stored.path) == before
    assert (run.returncode, run.stdout) == (2, "")
    assert "is in use by process" in run.stderr
    run = retry_command(tmp_path / "none", "dns_failed")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("frontier: There is no crawl in JOBDIR")
    assert not (tmp_path / "none").exists()


def test_a_site_that_was_down_is_crawled_after_a_retry(tmp_path):
    """Its host was given up for an hour, and the eliminator has seen all of its URLs."""
    asyncio.run(_down_and_up_again(tmp_path / "job"))


async def _down_and_up_again(job):
    names = {"a.test/": b'<a href="/1">1</a><a href="/2">2</a>', "a.test/1": b"1", "a.test/2": b"2"}
    impatient = {
        "POLITENESS_MAX_FAILURES": 1,
        "FRONTIER_RETRY_TIMES": 0,
        "OUTAGE_HOSTS": 0,
        "ROBOTSTXT_OBEY": 0,
        "URL_SCOPE": "seeds",  # which the command takes from the job
    }
    async with served({name: Answer(body) for name, body in names.items()}) as sites:
        down = {name: sites.pages.pop(name) for name in ("a.test/1", "a.test/2")}
        sites.pages |= {name: Answer(b"", status=503) for name in down}
        stats = await crawl(sites, job, "a.test", **impatient)
        assert (stats["outcome/http_503"], stats["outcome/host_failing"]) == (1, 1)
        sites.pages |= down
        run = await asyncio.to_thread(retry_command, job, "http_503,host_failing", "--json")
        assert run.returncode == 0, run.stderr
        assert json.loads(run.stdout) == {"urls": 2, "waiting": 0, "left_out": 0, "unknown": []}
        stats = await crawl(sites, job, "a.test", **impatient)
        assert stats["outcome/http_200"] == 2
        whole = {name: count for name, count in stats.items() if name.startswith("crawl/outcome/")}
        # Each URL counts as it ended last.
        assert {name: count for name, count in whole.items() if count} == {
            "crawl/outcome/http_200": 3
        }
    assert sites.pages_asked.count("a.test/") == 1
