"""Walls in whole crawls, judged by the server's record: what is asked for, how often, how late."""

import json
import random
import sys
import time
from contextlib import ExitStack
from itertools import pairwise

import pytest
from crawling import crawl_of_urls, finish, stats_of, warc_urls
from http_site import HttpSite, serving

from webcrawl.crawl.lease.outcome_log import INFO_LOG

SCRAPY = [sys.executable, "-m", "scrapy"]
NAMES = ("storm", "flood", "hail", "frost", "snow", "drought", "thaw", "gale", "fog", "dew")
# 0.3 s after a challenge.
BACKOFF_SECS = 0.01
CHALLENGE = 403, {"Cf-Mitigated": "challenge"}, b"<title>Wait</title><a href=/more>x</a>"
ANUBIS = (
    "<title>Wait</title><p>Making sure that you are human</p><a href='/from/{0}'>why</a>"
    '<script id="anubis_challenge">{0}</script>'
)
MISSING = "<title>Oops</title><p>There is no such page, try /{0}</p><a href='/x/{0}'>more</a>"
LOST = "<title>Oops</title><p>There is no such page, try the front page, not /{0}"
TEXT = {
    "ITEM_PIPELINES": '{"webcrawl.pipelines.warc.WarcPipeline": 1, "webcrawl.pipelines.text'
    '.TextDataset": 2}',
    "TEXT_FORMAT": "jsonl",
}
SHOWN = NAMES[:8]


def html(text):
    return 200, {}, text.encode()


def texts_in(directory):
    lines = (directory / "text/text.jsonl").read_bytes().splitlines()
    return [json.loads(line) for line in lines]


def varied_error(path):
    """An error page with links to forty URLs of which there is none, drawn for each."""
    chance = random.Random(path)
    words = ["".join(chance.choices("bdfgklmnprst", k=6)) for _ in range(40)]
    links = "".join(f"<li><a href={word}-{chance.randrange(10**6)}.html>x</a>" for word in words)
    text = f"There is no such page as {path}, number {chance.getrandbits(40):010x}e1."
    return f"<title>Oops</title><h1>Oops</h1><p>{text}<ul>{links}</ul>"


class Crawl:
    """A crawl of a site's URLs by names, of which there is *answer*, called with the path."""

    def __init__(self, directory, answer, robots=(404, {}, b"")):
        self.at = []
        self.job = directory / "job"
        self._directory = directory
        self.site = HttpSite(self._answer)
        self._says = answer
        self._robots = robots

    def _answer(self, request):
        self.at.append((time.monotonic(), request.path))
        return self._robots if request.path == "/robots.txt" else self._says(request.path)

    def run(self, names=NAMES, **settings):
        urls = [f"{self.site.url}/{name}" for name in names]
        values = {"POLITENESS_MIN_DELAY": 0.005, "POLITENESS_DELAY_FACTOR": 0}
        values |= {"POLITENESS_BACKOFF_SECS": BACKOFF_SECS, **settings}
        return finish(crawl_of_urls(self._directory, *urls, **values))

    def why(self, path):
        return self.tool("why", self.site.url + path, "-s", f"JOBDIR={self.job}")

    def tool(self, *arguments):
        return finish([*SCRAPY, *arguments])

    @property
    def stats(self):
        return stats_of(self.job)

    @property
    def asked(self):
        return [path for _, path in self.at]

    def outcomes(self):
        return {line["url"].removeprefix(self.site.url): line["outcome"] for line in self.lines()}

    def lines(self):
        return list(map(json.loads, (self.job / INFO_LOG).read_bytes().splitlines()))

    def line(self, path):
        """Its last line in the log of finished URLs."""
        return [line for line in self.lines() if line["url"] == self.site.url + path][-1]

    def via(self, path):
        """The page that led to it."""
        return self.line(path).get("via", "").removeprefix(self.site.url)

    def flagged(self):
        return {path for path in self.outcomes() if self.line(path).get("flags") == "soft_error"}

    def stored(self):
        urls = warc_urls(self.job / "warc")
        return {url.removeprefix(self.site.url) for url in urls} - {"/robots.txt"}


@pytest.fixture
def crawl_of(tmp_path):
    with ExitStack() as stack:

        def make(answer, **rest):
            crawl = Crawl(tmp_path, answer, **rest)
            stack.enter_context(serving(crawl.site))
            return crawl

        yield make


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
    assert "walls  1 host sent challenge, login or consent pages; URLs: 10 challenged" in said
    why = crawl.why("/storm")
    assert "blocked the crawler: 3 challenged; its pauses are 8 times longer" in why
    asked = len(crawl.asked)
    crawl.run((*NAMES, "ice", "rime"))  # given up for an hour, over a restart
    assert len(crawl.asked) == asked


def test_a_challenge_in_answer_to_robots_txt_is_unreachable(crawl_of):
    crawl = crawl_of(lambda _: (200, {}, b"a page"), robots=CHALLENGE)
    crawl.run()
    assert crawl.asked == ["/robots.txt"] * 2
    assert set(crawl.outcomes().values()) == {"challenged"}


def test_marks_in_bodies_flag_until_three_urls_have_shown_them(crawl_of):
    crawl = crawl_of(lambda path: html(ANUBIS.format(path[1:])))
    said = crawl.run(NAMES[:5])
    flagged = sorted(path for path in crawl.stored() if "from" not in path)
    assert len(flagged) == 2
    assert crawl.stats["walls/flagged"] == 2
    assert "2 stored pages that may not be real documents" in said
    followed = [path for path in crawl.outcomes() if path.startswith("/from/")]
    assert sorted(followed) == [path.replace("/", "/from/") for path in flagged]
    assert len(crawl.asked) == 1 + 2 + 3


def test_soft_errors_are_stored_with_a_flag_and_lead_no_further_than_ten_urls(crawl_of, tmp_path):
    crawl = crawl_of(lambda path: html(MISSING.format(path[1:])))
    said = crawl.run(REPUTATION_BASE_PAGES=0)
    soft = crawl.flagged()
    assert len(NAMES) - 3 <= len(soft) == crawl.stats["walls/soft_errors"]
    assert f"{len(soft)} stored pages that may not be real documents" in said
    assert crawl.stored() == set(crawl.outcomes())
    assert set(crawl.outcomes().values()) == {"http_200"}
    # The links of those that were stored before it was learned, ten of the others, and ten beside
    # each of these that seemed to be a new page.
    unflagged = crawl.outcomes().keys() - soft
    pages = [one for one in unflagged if crawl.via(one) in soft]
    assert len(pages) <= 1
    assert len(crawl.asked) <= 1 + len(NAMES) + len(unflagged) + 10 + 11 * len(pages)
    assert sorted(crawl.asked) == sorted(["/robots.txt", *crawl.outcomes()])
    why = crawl.why(min(soft))
    assert "flagged as soft_error" in why
    # What was learned outlives the run, and their host rests no longer than any.
    crawl.run((*NAMES, "ice"))
    assert "/ice" in crawl.flagged()


def test_a_replay_knows_the_flag(crawl_of, tmp_path):
    crawl = crawl_of(lambda path: html(MISSING.format(path[1:])))
    crawl.run(REPUTATION_BASE_PAGES=0, **TEXT)
    texts = texts_in(crawl.job)
    stored = {f"{crawl.site.url}{path}" for path in crawl.stored() - crawl.flagged()}
    assert {text["url"] for text in texts} == stored
    again = tmp_path / "again"
    values = ['ITEM_PIPELINES={"webcrawl.pipelines.text.TextDataset": 1}', "TEXT_FORMAT=jsonl"]
    options = [word for value in (*values, "FLAGGED_PAGES=1") for word in ("-s", value)]
    crawl.tool("replay", str(crawl.job), "-o", str(again), *options)
    texts = texts_in(again)
    flagged = {text["url"] for text in texts if text["flags"] == "soft_error"}
    assert flagged == {f"{crawl.site.url}{path}" for path in crawl.flagged()}
    assert len(texts) == len(crawl.stored())


def test_a_site_of_invented_urls_gets_no_more_contacts_for_its_errors(crawl_of):
    """122 at b74f2d2d, which did not follow the links of soft errors."""
    crawl = crawl_of(lambda path: html(varied_error(path)))
    crawl.run(["first.html"], REPUTATION_BASE_PAGES=0)
    assert 122 <= len(crawl.asked) <= 1.2 * 122


def test_a_wall_in_the_place_of_a_document_is_none_at_the_first_visit(crawl_of):
    """Of each kind: a challenge, a login, and an error page that was learned."""
    now = {}

    def answer(path):
        name = path[1:]
        if name in SHOWN[:5]:
            return html(LOST.format(name))
        return html(now.get(name, f"<title>{name}</title><p>on {name} there is much to say"))

    crawl = crawl_of(answer)
    crawl.run(SHOWN, REPUTATION_BASE_PAGES=0)
    before = {name: crawl.line(f"/{name}") for name in SHOWN[5:8]}
    now |= {
        SHOWN[5]: ANUBIS.format(SHOWN[5]),
        SHOWN[6]: '<title>Members</title><p>Please log in<input type="password">',
        SHOWN[7]: LOST.format(SHOWN[7]),
    }
    due = [f"{crawl.site.url}/{name}" for name in SHOWN[5:8]]
    (crawl.job.parent / "due.txt").write_text("\n".join(due))
    crawl.tool("frontier", str(crawl.job), "--due", str(crawl.job.parent / "due.txt"))
    crawl.run(SHOWN, REPUTATION_BASE_PAGES=0)
    lines = {name: crawl.line(f"/{name}") for name in SHOWN[5:8]}
    assert [line["outcome"] for line in lines.values()] == ["challenged", "walled", "soft_error"]
    assert {line["visit"] for line in lines.values()} == {"failed"}
    for name, line in lines.items():
        assert line["content"] == before[name]["content"]


def test_a_login_in_the_way_is_not_followed_and_costs_no_other_page(crawl_of):
    members = [f"members/{name}" for name in (*NAMES, *map(str, range(5)))]

    def answer(path):
        if path.startswith("/members/"):
            return (302, {"Location": f"/login?next={path}"}, b"")
        return html(f"<title>{path}</title><p>on {path} there is much to say")

    crawl = crawl_of(answer)
    crawl.run([*members, *NAMES])
    urls = [f"/{name}" for name in (*members, *NAMES)]
    assert sorted(crawl.asked) == sorted(["/robots.txt", *urls])
    assert crawl.stored() == {f"/{name}" for name in NAMES}
    walled = {path for path, outcome in crawl.outcomes().items() if outcome == "walled"}
    assert walled == {f"/{name}" for name in members}
