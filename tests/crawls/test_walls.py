"""Walls in whole crawls, judged by the server's record: what is asked for, how often, how late."""

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise
from types import SimpleNamespace

import pytest
from crawling import crawl_command, run_crawl, stats_of, warc_urls
from http_site import HttpSite, serving

from webcrawl.crawl.lease.outcome_log import INFO_LOG

SCRAPY = [sys.executable, "-m", "scrapy"]
NAMES = ("storm", "flood", "hail", "frost", "snow", "drought", "thaw", "gale", "fog", "dew")
# 0.3 s after a challenge.
BACKOFF_SECS = 0.01
CHALLENGE = (
    403,
    {"Cf-Mitigated": "challenge"},
    b"<title>Wait</title><a href=/more>x</a>",
)
ANUBIS = (
    "<title>Wait</title><p>Making sure that you are human</p><a href='/from/{0}'>why</a>"
    '<script id="anubis_challenge">{0}</script>'
)
MISSING = "<title>Oops</title><p>There is no such page, try /{0}</p><a href='/x/{0}'>more</a>"


class Crawl:
    """A crawl of a site's URLs by names, of which there is *answer*, called with the path."""

    def __init__(self, directory, answer, robots=(404, {}, b"")):
        self.at: list[tuple[float, str]] = []
        self.job = directory / "job"
        self._seeds = directory / "seeds.txt"
        self.site = HttpSite(self._answer)
        self._says = answer
        self._robots = robots

    def _answer(self, request):
        self.at.append((time.monotonic(), request.path))
        return self._robots if request.path == "/robots.txt" else self._says(request.path)

    def run(self, names=NAMES, **settings):
        self._seeds.write_text("".join(f"{self.site.url}/{name}\n" for name in names))
        values = {"POLITENESS_MIN_DELAY": 0.005, "POLITENESS_DELAY_FACTOR": 0}
        values |= {"POLITENESS_BACKOFF_SECS": BACKOFF_SECS, **settings}
        done = run_crawl(crawl_command(SimpleNamespace(dns=""), self._seeds, self.job, **values))
        assert done.returncode == 0, done.stdout
        return done.stdout

    def tool(self, *arguments):
        done = run_crawl([*SCRAPY, *arguments])
        assert done.returncode == 0, done.stdout
        return done.stdout

    @property
    def stats(self):
        return stats_of(self.job)

    @property
    def asked(self):
        return [path for _, path in self.at]

    def outcomes(self):
        lines = map(json.loads, (self.job / INFO_LOG).read_bytes().splitlines())
        return {line["url"].removeprefix(self.site.url): line["outcome"] for line in lines}

    def flagged(self):
        lines = map(json.loads, (self.job / INFO_LOG).read_bytes().splitlines())
        soft = [line["url"] for line in lines if line.get("flags") == "soft_error"]
        return {url.removeprefix(self.site.url) for url in soft}

    def stored(self):
        urls = warc_urls(self.job / "warc")
        return {url.removeprefix(self.site.url) for url in urls} - {"/robots.txt"}


@pytest.fixture
def crawl_of(tmp_path):
    crawls = []

    def make(answer, **rest):
        crawl = Crawl(tmp_path, answer, **rest)
        crawls.append(serving(crawl.site))
        crawls[-1].__enter__()
        return crawl

    yield make
    for crawl in crawls:
        crawl.__exit__(None, None, None)


def test_a_host_of_challenges_gets_three_requests_each_later_than_the_last(crawl_of):
    crawl = crawl_of(lambda _: CHALLENGE)
    said = crawl.run()
    assert len(crawl.asked) == 4
    assert crawl.asked[0] == "/robots.txt"
    gaps = [later - sooner for (sooner, _), (later, _) in pairwise(crawl.at[1:])]
    assert min(gaps) >= 0.3
    assert set(crawl.outcomes().values()) == {"challenged"}
    assert crawl.stored() == set()
    stats = crawl.stats
    assert stats["walls/hosts"] == 1
    assert stats.get("content/tested", 0) == stats.get("links/found", 0) == 0
    assert "walls  of 1 host; URLs: 10 challenged" in said
    why = crawl.tool("why", f"{crawl.site.url}/storm", "-s", f"JOBDIR={crawl.job}")
    assert "no documents: 3 challenged; it rests 8 times longer" in why
    asked = len(crawl.asked)
    crawl.run((*NAMES, "ice", "rime"))  # given up for an hour, over a restart
    assert len(crawl.asked) == asked


def test_a_challenge_in_answer_to_robots_txt_is_unreachable(crawl_of):
    crawl = crawl_of(lambda _: (200, {}, b"a page"), robots=CHALLENGE)
    crawl.run()
    assert crawl.asked == ["/robots.txt"] * 2
    assert set(crawl.outcomes().values()) == {"challenged"}


def test_marks_in_bodies_flag_until_three_urls_have_shown_them(crawl_of):
    crawl = crawl_of(lambda path: (200, {}, ANUBIS.format(path[1:]).encode()))
    said = crawl.run(NAMES[:5])
    flagged = sorted(path for path in crawl.stored() if "from" not in path)
    assert len(flagged) == 2
    assert crawl.stats["walls/flagged"] == 2
    assert "2 pages stored that may be one" in said
    followed = [path for path in crawl.outcomes() if path.startswith("/from/")]
    assert sorted(followed) == [path.replace("/", "/from/") for path in flagged]
    assert len(crawl.asked) == 1 + 2 + 3


def test_soft_errors_are_stored_with_a_flag_and_their_links_are_followed(crawl_of, tmp_path):
    crawl = crawl_of(lambda path: (200, {}, MISSING.format(path[1:]).encode()))
    crawl.run(REPUTATION_BASE_PAGES=0)
    outcomes = crawl.outcomes()
    assert set(outcomes.values()) == {"http_200"}
    assert crawl.stored() == set(outcomes)
    assert {f"/x/{name}" for name in NAMES} <= set(outcomes)
    assert sorted(crawl.asked) == sorted(["/robots.txt", *outcomes])
    flagged = crawl.flagged()
    assert len(flagged) >= len(NAMES) - 3
    assert crawl.stats["walls/soft_errors"] == len(flagged)
    page = tmp_path / "report.html"
    crawl.tool("report", str(crawl.job), "--output", str(page))
    assert "Walled hosts" in page.read_text()
    # What was learned outlives the run, and their host rests no longer than any.
    crawl.run((*NAMES, "ice"))
    assert "/ice" in crawl.flagged()


def test_a_login_in_the_way_is_not_followed_and_costs_no_other_page(crawl_of):
    members = [f"members/{name}" for name in (*NAMES, *map(str, range(5)))]

    def answer(path):
        if path.startswith("/members/"):
            return (302, {"Location": f"/login?next={path}"}, b"")
        return (200, {}, f"<title>{path}</title><p>on {path} there is much to say".encode())

    crawl = crawl_of(answer)
    crawl.run([*members, *NAMES])
    urls = [f"/{name}" for name in (*members, *NAMES)]
    assert sorted(crawl.asked) == sorted(["/robots.txt", *urls])
    assert crawl.stored() == {f"/{name}" for name in NAMES}
    walled = {path for path, outcome in crawl.outcomes().items() if outcome == "walled"}
    assert walled == {f"/{name}" for name in members}


def test_an_application_of_one_shell_is_stored_and_its_links_are_followed(crawl_of):
    shell = "<title>App</title><link rel=next href=/more{0}><div id=root></div><script>"
    shell += "var csrf='8f3a91c{1}'</script><noscript>This application needs JavaScript</noscript>"
    at = iter(range(1000))
    crawl = crawl_of(
        lambda path: (200, {}, shell.format(path if "more" not in path else "", next(at)).encode())
    )
    crawl.run()
    assert {f"/{name}" for name in NAMES} <= crawl.stored()
    assert set(crawl.outcomes().values()) == {"http_200"}
    assert {f"/more/{name}" for name in NAMES} <= set(crawl.asked)
    assert "walls/hosts" not in crawl.stats
