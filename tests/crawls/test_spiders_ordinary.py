"""A user's own spider on the Mercator frontier: every way in which a Request can end gives its
host back and ends the crawl, as the simulated web recorded it."""

import dataclasses
import json
import os
import re
import signal
import time
from collections import Counter

import pytest
from crawling import (
    RIGS,
    access_log,
    crawl_command,
    finish,
    impolite,
    is_robots,
    kill,
    output_of,
    simulated,
    start_contacting,
    start_crawl,
    wait_until,
)
from patience import SLOWNESS
from text_tables import cases

from webcrawl.simweb import Faults
from webcrawl.simweb.host_spec import OPEN_ROBOTS, RobotsKind
from webcrawl.simweb.leaves import PageKind
from webcrawl.simweb.pages import page, redirect_target, url_of

MIN_DELAY = 0.05
# Asked for in its callback's own download, past the frontier: as impolite as its user wants.
NAMES = """
plain, twice, once, post, callback raises, pipeline raises, item dropped, ignored before,
raises before, answered before, replaced before, ignored after, replaced after, without errback,
errback asks, errback raises, asynchronous, generator, own download, in memory, closure,
class callback, other, asked by errback, generated, downloaded"""
NAMES = " ".join(NAMES.split()).split(", ")
WORLD = {"hosts": 80, "mean_pages": 6.0, "max_pages": 30, "errors": 0.25, "redirects": 0.2}
WORLD |= {"restricting": 0.3, "https_share": 0.2}


@dataclasses.dataclass
class Crawled:
    """What a crawl of the ordinary spider left."""

    plan: dict
    output: str
    record: list[dict]
    asked: Counter
    hits: list
    stats: dict

    def called(self, name):
        return [line for line in self.record if line["name"] == name]


def hosts(world):
    return [world.host(index) for index in range(world.hosts)]


def open_hosts(world):
    """Hosts that let everything be fetched."""
    return [host for host in hosts(world) if host.robots in set(OPEN_ROBOTS)]


def pages(world, host):
    return [page(world, host, number) for number in range(host.pages)]


def make_plan(world):
    """A URL for each request of the spider, on a host of its own."""
    free = open_hosts(world)
    plan = {
        "denied": next(h for h in hosts(world) if h.robots is RobotsKind.DENY_ALL).origin + "/",
        "nowhere": "http://nowhere.sim.test/",
        "no host": "data:,hello",
    }
    failing = next(p for h in free for p in pages(world, h) if p.leaf.status == 500)
    plan["failing"] = failing.host.origin + failing.path
    free.remove(failing.host)
    for host in free:
        moved = next((p for p in pages(world, host) if leads_to_document(world, p)), None)
        if moved is not None:
            plan["redirecting"] = host.origin + moved.path
            plan["target"] = url_of(world, redirect_target(world, moved))
            free.remove(host)
            break
    unused = [h for h in free if not plan["target"].startswith(h.origin + "/")]
    plan |= {name: host.origin + "/" for name, host in zip(NAMES, unused, strict=False)}
    assert len(plan) == len(NAMES) + 6
    return plan | {f"one site {n}": f"{plan['plain']}?{n}" for n in range(8)}


def leads_to_document(world, found):
    if found.kind is not PageKind.REDIRECT:
        return False
    key = redirect_target(world, found)
    host = world.host(key >> 32)
    target = page(world, host, key >> 8 & 0xFFFFFF, key & 0xFF)
    return target.leaf.status == 200 and target.kind is PageKind.HTML and host in open_hosts(world)


def command(web, spider, plan, **settings):
    """The command that crawls *web* with *spider* by *plan*."""
    (web.job.with_name("plan.json")).write_text(json.dumps(plan))
    settings = {"SPIDER_MODULES": "ordinary_spider", **settings}
    line = crawl_command(web.web, "", web.job, **settings)
    at = line.index("web")
    files = {"plan": web.job.with_name("plan.json"), "record": web.job.with_name("record.jsonl")}
    arguments = [part for name, file in files.items() for part in ("-a", f"{name}={file}")]
    return [*line[:at], spider, *arguments, *line[at + 3 :]]


def record_of(web):
    lines = web.job.with_name("record.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def answers_in(web):
    return [entry for entry in record_of(web) if entry["name"] == "post"]


@pytest.fixture(scope="module", autouse=True)
def spider_path():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", RIGS)
        yield


@pytest.fixture(scope="module")
def crawled(tmp_path_factory):
    with simulated(tmp_path_factory.mktemp("ordinary"), **WORLD) as web:
        plan = make_plan(web.world)
        output = finish(command(web, "ordinary", plan, REPUTATION_ROUNDS=0))
    hits = access_log(web.log)
    return Crawled(
        plan=plan,
        output=output,
        record=record_of(web),
        asked=Counter(hit.url for hit in hits if not is_robots(hit)),
        hits=hits,
        stats=web.stats,
    )


def test_the_crawl_ends_by_itself_with_no_lease_and_no_host_left(crawled):
    assert crawled.stats["finish_reason"] == "finished"
    left = ("leased", "hosts/in_process", "waiting")
    assert [crawled.stats[f"frontier/{name}"] for name in left] == [0, 0, 0]
    assert crawled.stats["seen/waiting"] == 0
    assert "scheduler/expired" not in crawled.stats
    assert crawled.stats["elapsed_time_seconds"] < 100 * SLOWNESS


@cases(
    "times names",
    """
        0 | ignored before, raises before, answered before, replaced before, denied, errback asks
        0 | errback raises
        1 | plain, once, post, redirecting, target, callback raises, pipeline raises, item dropped
        1 | ignored after, replaced after, without errback, asynchronous, generator, generated
        1 | own download, downloaded, in memory, closure, class callback, asked by errback
        2 | twice, other
        3 | failing
    """,
)
def test_each_url_is_asked_for_as_often_as_the_spider_meant(crawled, times, names):
    for name in names.split(", "):
        assert crawled.asked[crawled.plan[name]] == times, name


def test_only_the_urls_of_the_spider_s_plan_are_requested(crawled):
    assert set(crawled.asked) <= set(crawled.plan.values())


def test_own_requests_have_no_reputation_budget(crawled):
    site = [url for name, url in crawled.plan.items() if name.startswith("one site")]
    assert [crawled.asked[url] for url in site] == [1] * 8


def test_every_host_is_asked_politely_robots_txt_and_redirects_included(crawled):
    # The download that a callback started by itself is one of them.
    assert crawled.asked[crawled.plan["downloaded"]] == 1
    assert len(crawled.hits) > 40
    assert impolite(crawled.hits, min_delay=MIN_DELAY) == []
    robots = Counter(hit.origin for hit in crawled.hits if is_robots(hit))
    asked = {hit.origin for hit in crawled.hits}
    assert set(robots) == asked
    assert set(robots.values()) <= {1, 2}


def test_every_robots_txt_is_handed_over_whatever_its_status(crawled):
    handed = Counter((entry["url"], entry["status"]) for entry in crawled.called("robots"))
    asked = Counter((hit.url, hit.status) for hit in crawled.hits if is_robots(hit))
    assert {status for _, status in handed} >= {200, 404}
    assert handed == asked


def test_callbacks_get_their_meta_and_arguments(crawled):
    assert crawled.called("plain") == [
        {
            "name": "plain",
            "url": crawled.plan["plain"],
            "status": 200,
            "meta": ["deep", {"a": 1}],
            "kwargs": {"k": "v"},
        }
    ]


@cases(
    "name told",
    """
        twice            | [{"status": 200}, {"status": 200}]
        once             | [{"status": 200}]
        generated        | [{"status": 200}]
        post             | [{"status": 405}]
        redirecting      | [{"status": 200, "url": "target"}]
        failing          | [{"error": "HttpError"}]
        raises before    | [{"error": "KeyError"}]
        errback asks     | [{"error": "IgnoreRequest"}]
        asked by errback | [{"status": 200}]
        ignored before   | [{"error": "IgnoreRequest"}]
        ignored after    | [{"error": "IgnoreRequest"}]
        denied           | [{"error": "IgnoreRequest"}]
        nowhere          | [{"error": "HostNotFoundError"}]
        no host          | [{"error": "NotSupported"}]
        answered before  | [{"status": 200}]
        replaced before  | [{"url": "other"}]
        replaced after   | [{"url": "other"}]
        own download     | [{"kwargs": {"own": 200}}]
        closure          | [{"kwargs": {"closure": True}}]
    """,
)
def test_callbacks_and_errbacks_get_the_end_of_their_requests(crawled, name, told):
    for call, facts in zip(crawled.called(name), told, strict=True):
        url = {"url": crawled.plan[facts["url"]]} if "url" in facts else {}
        assert call.items() >= (facts | url).items()


def test_a_bug_in_a_callback_a_pipeline_or_a_middleware_is_logged_and_no_more(crawled):
    assert crawled.stats["spider_exceptions/RuntimeError"] == 2
    assert "a bug in a pipeline" in crawled.output
    assert len(crawled.called("pipeline raises")) == 1


def test_items_of_its_own_go_through_the_pipelines(crawled):
    # From start(), beside a dropped one, from a coroutine, after 250 requests.
    assert crawled.stats["item_scraped_count"] == 4
    assert crawled.stats["item_dropped_count"] == 1


def test_what_cannot_be_pickled_works_within_the_process(crawled):
    assert len(crawled.called("in memory")) == 1
    assert crawled.stats["scheduler/unserializable"] == 3
    assert crawled.output.count("is only in memory") == 1
    assert "scheduler/lost" not in crawled.stats


def test_a_download_of_the_callback_s_own_leaves_the_lease_alone(crawled):
    assert "is not held" not in crawled.output
    assert "is not in process" not in crawled.output


def test_every_outcome_is_counted_once(crawled):
    counted = {
        name.removeprefix("outcome/"): count
        for name, count in crawled.stats.items()
        if name.startswith("outcome/")
    }
    # A replaced request counts as such, and the one in its place for itself.
    expected = {"robots_denied": 1, "dns_not_found": 1, "http_405": 1, "ignored": 4, "other": 1}
    assert counted.items() >= (expected | {"replaced": 2 + 1 + 2}).items()
    # The callback's own download had its turn in the frontier, too.
    assert crawled.stats["side_downloads/http_200"] == 1
    assert sum(counted.values()) + 1 == crawled.stats["frontier/finished"]


def test_the_log_has_no_unexpected_warnings_or_errors(crawled):
    errors = re.findall(r"\[([\w.]+)\] (?:ERROR|CRITICAL|WARNING): (.*)", crawled.output)
    allowed = ("Spider error processing", "Error processing", "is only in memory", "Dropped:")
    unexpected = [error for error in errors if not any(part in error[1] for part in allowed)]
    gave_up = f"Gave up retrying <GET {crawled.plan['failing']}> (failed 3 times): "
    gave_up += "500 Internal Server Error"
    assert unexpected == [("scrapy.downloadermiddlewares.retry", gave_up)]


def test_posts_that_wait_survive_kill_9(tmp_path):
    settings = {"POLITENESS_MIN_DELAY": 0.3, "POLITENESS_MAX_DELAY": 0.6}
    with simulated(tmp_path, **WORLD) as web:
        origins = [host.origin for host in open_hosts(web.world)[:8]]
        urls = [f"{origin}/form/{n}" for n in range(8) for origin in origins]
        line = command(web, "waiting", {"first": True, "urls": urls}, **settings)
        kills = (0, 16, 32)
        for contacts in kills:
            crawl = start_crawl(line)
            wait_until(lambda: "all are asked for" in {one["name"] for one in record_of(web)})
            wait_until(lambda: len(access_log(web.log)) >= contacts)  # noqa: B023  # in this turn
            kill(crawl)
            # From now on nobody but the job directory knows of them.
            line = command(web, "waiting", {"first": False, "urls": urls}, **settings)
        finish(line)
    hits = access_log(web.log)
    posts = Counter(hit.url for hit in hits if hit.method == "POST")
    assert set(posts) == set(urls)
    assert sum(posts.values()) - len(posts) <= len(kills) * len(origins)
    answered = Counter(entry["meta"] for entry in answers_in(web))
    assert set(answered) == set(range(len(urls)))
    assert impolite(hits, min_delay=0.3) == []
    assert web.stats["frontier/leased"] == 0


def test_downloads_that_pages_in_memory_wait_for_go_on_when_no_more_pages_are_taken(tmp_path):
    # One page is too much.
    settings = {"SCRAPER_SLOT_MAX_ACTIVE_SIZE": 1, "POLITENESS_MAX_DELAY": 0.1}
    with simulated(tmp_path, **WORLD) as web:
        urls = [host.origin + "/" for host in open_hosts(web.world)[:6]]
        plan = {"urls": urls, "images": 2}
        finish(command(web, "illustrated", plan, CLOSESPIDER_TIMEOUT=100 * SLOWNESS, **settings))
    assert web.stats["finish_reason"] == "finished"
    answered = [entry["kwargs"]["own"] for entry in record_of(web)]
    assert answered == [[404, 404]] * len(urls)
    assert impolite(access_log(web.log), min_delay=MIN_DELAY) == []


def test_middlewares_may_download_by_themselves_and_nobody_waits_for_ever(tmp_path):
    with simulated(tmp_path, **WORLD) as web:
        own, before, after, other = (host.origin for host in open_hosts(web.world)[:4])
        plan = {
            "own": (f"{own}/", "ask before", f"{own}/x"),
            "before": (f"{before}/", "ask before", f"{other}/x"),
            "after": (f"{after}/", "ask after", f"{after}/x"),
        }
        settings = {"POLITENESS_MAX_DELAY": 0.1, "CLOSESPIDER_TIMEOUT": 100 * SLOWNESS}
        finish(command(web, "asking", plan, **settings))
    assert web.stats["finish_reason"] == "finished"
    answered = {entry["name"]: entry["meta"] for entry in record_of(web)}
    # Its host is busy with the very request whose middleware waits.
    assert "its host is busy with" in answered.pop("own")
    assert answered == {"before": 404, "after": 404}
    assert impolite(access_log(web.log), min_delay=MIN_DELAY) == []


def test_on_a_full_disk_no_request_of_a_callback_is_lost(tmp_path):
    children = 5
    with simulated(tmp_path, **WORLD) as web:
        urls = [host.origin + "/" for host in open_hosts(web.world)[:8]]
        plan = {"urls": urls, "children": children}
        line = command(web, "tree", plan | {"first": True}, POLITENESS_MAX_DELAY=0.1)
        limited = 'ulimit -f 300; trap "" XFSZ; exec "$@"'
        finish(["bash", "-c", limited, "bash", *line], code=3)
        assert len(record_of(web)) < len(urls) * children
        finish(command(web, "tree", plan | {"first": False}, POLITENESS_MAX_DELAY=0.1))
    asked = {hit.url for hit in access_log(web.log) if not is_robots(hit)}
    assert asked == set(urls) | {f"{url}child/{n}" for url in urls for n in range(children)}
    assert web.stats["frontier/leased"] == 0


@pytest.fixture
def stalling(tmp_path):
    """A web most of whose hosts never answer, and a form on each."""
    faults = dataclasses.replace(Faults.none(), stall=0.7)
    with simulated(tmp_path, hosts=12, mean_pages=1.0, faults=faults, stall_secs=50) as web:
        yield web, [host.origin + "/form" for host in hosts(web.world)]


def test_requests_under_way_when_the_crawl_is_stopped_go_back_without_a_word(stalling):
    web, urls = stalling
    settings = {"ROBOTSTXT_OBEY": False, "DOWNLOAD_TIMEOUT": 60, "SHUTDOWN_GRACE_SECS": 0.5}
    line = command(web, "waiting", {"first": True, "urls": urls}, **settings)
    crawl = start_contacting(line, web.log)
    time.sleep(1)
    crawl.send_signal(signal.SIGTERM)
    output = output_of(crawl)
    assert "Traceback" not in output
    stats = web.stats
    answered = answers_in(web)
    assert all("error" not in entry for entry in answered)
    assert stats["frontier/waiting"] == len(urls) - len(answered) > 0
    assert stats["frontier/leased"] == 0


def test_a_request_that_would_wait_longer_than_its_lease_has_an_end(stalling):
    web, urls = stalling
    plan = {
        "first": True,
        "urls": urls,
        "meta": {"download_timeout": 40 * SLOWNESS, "dont_retry": True},
    }
    settings = {
        "ROBOTSTXT_OBEY": False,
        "POLITENESS_MAX_DELAY": 0.1,
        "DOWNLOAD_TIMEOUT": SLOWNESS,
        "FRONTIER_LEASE_SECS": 10 * SLOWNESS,
        "CLOSESPIDER_TIMEOUT": 100 * SLOWNESS,
    }
    finish(command(web, "waiting", plan, **settings))
    stats = web.stats
    assert stats["finish_reason"] == "finished"
    assert "scheduler/expired" not in stats
    web.web.stop()
    posts = [hit.url for hit in access_log(web.log)]
    assert len(posts) == len(set(posts))


CHANGED = """
import scrapy

class Changed(scrapy.Spider):
    name = 'waiting'
    handle_httpstatus_list = [404, 405]

    async def start(self):
        yield scrapy.Request(self.url, callback=self.seen)

    def seen(self, response):
        yield {'url': response.url}
"""


def test_a_spider_that_lost_a_callback_loses_only_its_requests(tmp_path, monkeypatch):
    (tmp_path / "changed.py").write_text(CHANGED)
    with simulated(tmp_path, **WORLD) as web:
        # Of one host: however late it is stopped, they are not all fetched.
        urls = [f"{open_hosts(web.world)[0].origin}/form?{number}" for number in range(5)]
        plan = {"first": True, "urls": urls}
        crawl = start_crawl(command(web, "waiting", plan, POLITENESS_MIN_DELAY=2))
        wait_until(lambda: "all are asked for" in {one["name"] for one in record_of(web)})
        crawl.send_signal(signal.SIGTERM)
        output_of(crawl)
        answered = web.stats["frontier/finished"]
        assert answered < len(urls)
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}")
        line = command(web, "waiting", plan, SPIDER_MODULES="changed", ITEM_PIPELINES="{}")
        finish([*line, "-a", f"url={urls[0]}"])
    stats = web.stats
    assert stats["scheduler/lost"] == len(urls) - answered
    assert stats["item_scraped_count"] == 1
    assert stats["frontier/leased"] == 0
