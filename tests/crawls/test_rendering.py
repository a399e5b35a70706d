"""Pages that need a browser, in whole crawls of the simulated web; judged by its record. The engine
of most tests knows the scripts of the simulated sites (rigs/loaded/scripted_engine.py)."""

import random
import re
import threading
import time
from collections import Counter

import pytest
import warc_checks
import warm
from crawling import (
    RIGS,
    USER_AGENT,
    crawl_of_urls,
    damage_in,
    descendants,
    finish,
    impolite,
    kill,
    pages_asked_for,
    simulated,
    start_crawl,
    wait_for_the_end_of,
    wait_until,
)
from http_site import HttpSite, serving
from patience import LIMIT_SECS
from text_tables import each
from web_truth import allowed_urls, browser_truth, is_endless_url, subresources_of

from webcrawl.jobs.inspect.info_log import outcome_lines
from webcrawl.jobs.replay.warc_reader import stored_pages

SCRIPTED = "scripted_engine:ScriptedEngine"
_BUSTER = re.compile(r"\?_=\d+")


def subresources(world, agent):
    """All that a browser may ask for on the pages that *agent* may fetch, without cache-busters."""
    return {
        _BUSTER.sub("", host.origin + target)
        for page, _, _ in browser_truth(world, agent).values()
        if page.is_scripted
        for host, target in subresources_of(world, page)
    }


@pytest.fixture(autouse=True)
def _engines_of_tests(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", RIGS)


def judge(web, *, min_delay):
    """All pages that a browser finds, and what they need, were asked for in the turns of hosts."""
    hits = web.hits()
    assert impolite(hits, min_delay=min_delay) == []
    asked = {_BUSTER.sub("", url) for url in pages_asked_for(hits) if not is_endless_url(url)}
    parts = subresources(web.world, USER_AGENT)
    assert asked - parts == allowed_urls(web.world, USER_AGENT, browser=True)
    assert asked & parts


@each(
    "engine values",
    (SCRIPTED, {"hosts": 24}),
    long=((SCRIPTED, {"hosts": 40, "seed": 5}), ("chromium", {"hosts": 24})),
)
def test_auto_renders_what_gains_and_little_else(tmp_path, engine, values):
    settings = {
        "RENDER": "auto",
        "RENDER_ENGINE": engine,
        "RENDER_SHARE": 0.9,
        "RENDER_PROCESSES": 2,
    }
    with simulated(tmp_path, "rendered", mean_pages=24.0, max_pages=40, **values) as web:
        web.crawl(POLITENESS_MIN_DELAY=0.02, **settings)
        rendered = {line.url for line in outcome_lines(web.job) if line.passes}
        judge(web, min_delay=0.02)
        truth = browser_truth(web.world, USER_AGENT)
        files = sorted((web.job / "warc").glob("*.warc.gz"))
    assert [warc_checks.complaints(file) for file in files] == [{}] * len(files)
    pages = {
        page.url: page
        for file in files
        for page, _ in stored_pages(file, start=0, max_bytes=1 << 20)
    }
    assert {url for url, page in pages.items() if page.rendered} <= rendered
    assert not pages.keys() & subresources(web.world, USER_AGENT)
    found = next(page for url, page in pages.items() if page.rendered and page.links)
    assert {link.url for link in found.links} >= truth[found.url].links
    assert found.text == found.rendered != found.body.decode()
    assert re.search("rendered in [234] passes", warm.scrapy("why", web.job, found.url).stdout)
    gains = {url for url, page in truth.items() if page.gains}
    others = truth.keys() - gains
    assert len(gains & rendered) >= 0.95 * len(gains)
    assert len(others & rendered) <= 0.05 * len(others)


@each("vary", "Origin", long=("", "User-Agent"))
def test_the_pages_of_a_site_ask_once_for_their_script(tmp_path, vary):
    def answer(request):
        fields = {"Vary": vary} if vary else {}
        if request.path == "/":
            links = "".join(f"<a href=/{page}>{page}</a>" for page in range(30))
            return 200, fields, links.encode()
        if request.path[1:].isdigit():
            return 200, fields, b'<script src="/scripts/app.js"></script>' + request.path.encode()
        return (200 if request.path == "/scripts/app.js" else 404), fields, b""

    with serving(HttpSite(answer)) as site:
        settings = {"RENDER": "all", "RENDER_ENGINE": SCRIPTED, "POLITENESS_MIN_DELAY": 0}
        finish(crawl_of_urls(tmp_path, f"{site.url}/", **settings))
        asked = Counter(site.asked)
    assert asked["/scripts/app.js"] == 1
    assert sum(path.startswith("/api/0/") for path in asked) == 30  # they were rendered


def test_a_page_that_another_site_named_and_a_kill_interrupted_ends_once(tmp_path):
    is_second_run = threading.Event()
    is_named_by_its_own = threading.Event()

    def answer(request):
        other = site.url.replace("127.0.0.1", "127.0.0.2")
        links = []
        match request.path:
            case "/":
                links = [f"{other}/page", "/later"]
            case "/later":
                is_second_run.wait(LIMIT_SECS)
                links = [f"{other}/index"]
            case "/index":
                # The page comes out of the queue of other sites first.
                links = [f"/{number}" for number in range(20)] + ["/page"]
            case "/0":
                is_named_by_its_own.set()
            case "/page":
                script = site.url.replace("127.0.0.1", "127.0.0.3") + "/scripts/app.js"
                return 200, {}, f'<script src="{script}"></script>'.encode()
            case "/scripts/app.js":
                is_named_by_its_own.wait(LIMIT_SECS)
                return 200, {}, b""
            case _:
                return 404, {}, b""
        return 200, {}, "".join(f"<a href={link}>a</a>" for link in links).encode()

    with serving(HttpSite(answer, "0.0.0.0")) as site:
        settings = {"RENDER": "all", "RENDER_ENGINE": SCRIPTED, "POLITENESS_MIN_DELAY": 0.1}
        command = crawl_of_urls(tmp_path, f"{site.url}/", **settings)
        crawl = start_crawl(command)
        wait_until(lambda: {"/later", "/scripts/app.js"} <= {*site.asked})
        kill(crawl)
        is_second_run.set()
        finish(command)
    assert site.asked.count("/page") == 1
    # Lines of what the page needs have no passes.
    ends = [line.url for line in outcome_lines(tmp_path / "job") if line.passes]
    assert sum(url.endswith("/page") for url in ends) == 1


@each(
    "engine kills min_delay size",
    (SCRIPTED, 1, 0.1, {"hosts": 12, "max_pages": 10}),
    pytest.param(
        *("chromium", 20, 0.5, {"hosts": 14, "max_pages": 10}),
        marks=[pytest.mark.long, pytest.mark.timeout(3600)],
    ),
    long=((SCRIPTED, 20, 1.0, {"hosts": 24, "mean_pages": 24.0}),),
)
def test_rendering_survives_kills_and_waits_for_the_turns_of_hosts(
    tmp_path, engine, kills, min_delay, size
):
    rng = random.Random(kills)
    settings = {
        "RENDER": "all",
        "RENDER_ENGINE": engine,
        "POLITENESS_MIN_DELAY": min_delay,
        "CHECKPOINT_INTERVAL_SECS": 0.7,
    }
    with simulated(tmp_path, "rendered", **size) as web:
        for _ in range(kills):
            crawl = web.start(**settings)
            time.sleep(rng.uniform(0.5, 3.0))
            started = descendants(crawl.pid)
            kill(crawl)
            wait_for_the_end_of(started)
            assert damage_in(web.job) == []
        said = web.crawl(**settings)
        assert "finished: nothing is left to fetch" in said
        assert damage_in(web.job) == []
        judge(web, min_delay=min_delay)
