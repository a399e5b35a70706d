"""Hints of sitemaps in virtual time: what is visited because of them, by the servers' record."""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import SimpleNamespace

import pytest
from crawling import damage_in, printed
from text_tables import cases, each
from virtual_crawl import VirtualCrawl

from webcrawl.frontier import Entry
from webcrawl.frontier.entry import FOREIGN
from webcrawl.hosts.records import HostRecord, HostRecords
from webcrawl.revisit.hints import Hints
from webcrawl.revisit.history import History
from webcrawl.revisit.policies import Uniform
from webcrawl.revisit.visits import Visits
from webcrawl.signals import UNCHANGED
from webcrawl.simweb.changes import changes
from webcrawl.simweb.pages import page
from webcrawl.simweb.robots import SITEMAP_PATH

DAY = 86_400.0
HOUR = 3600.0
WEB = {"hosts": 3, "mean_pages": 6, "max_pages": 10, "restricting": 0.0, "changes_per_day": 0.3}
UNIFORM = {"REVISIT": 1, "REVISIT_POLICY": "webcrawl.revisit.policies.Uniform"}


def times(crawl):
    """When each URL was asked for, by host and path."""
    found = defaultdict(list)
    for hit in crawl.hits():
        found[hit.origin, hit.target].append(hit.start)
    return found


def documents(world):
    """The pages that are documents, by host and path."""
    found = {}
    for host in map(world.host, range(world.hosts)):
        for one in (page(world, host, number) for number in range(host.pages)):
            if one.leaf.status == 200:
                found[host.origin, one.path] = one
    return found


def test_what_a_sitemap_tells_is_visited_and_nothing_else(tmp_path):
    crawl = VirtualCrawl(tmp_path, lastmod_recall=1.0, **WEB)
    crawl.run(6, **UNIFORM, REVISIT_FIRST_SECS="60d")
    asked, told = times(crawl), 0
    for (origin, path), one in documents(crawl.world).items():
        _, *visits = asked[origin, path]
        for before, after in pairwise(asked[origin, SITEMAP_PATH]):
            if changes(crawl.world, one, before + 1, after - 1):
                assert 0 < visits.pop(0) - after < HOUR
                told += 1
        assert visits == []
    assert told > 10
    assert all(len(asked[crawl.world.host(host).origin, SITEMAP_PATH]) > 3 for host in range(3))
    assert crawl.stats()["hints/followed"] == told
    assert damage_in(crawl.job) == []


@cases(
    "verdict rate precision",
    """
        right | 0.3  | 1.0
        wrong | 0.03 | 0.02
    """,
)
def test_hints_are_judged_when_their_urls_are_due(tmp_path, verdict, rate, precision):
    web = WEB | {"changes_per_day": rate, "lastmod_precision": precision}
    crawl = VirtualCrawl(tmp_path, lastmod_recall=0.5, **web)
    crawl.run(9, **UNIFORM, REVISIT_FIRST_SECS="4d")
    stats = crawl.stats()
    judged = {one: stats[f"hints/{one}"] for one in ("right", "wrong")}
    assert judged[verdict] > 0.6 * sum(judged.values()) > 4
    # A page that was visited for a hint is due again from then on.
    for visits in (times(crawl)[name] for name in documents(crawl.world)):
        assert visits[-1] > visits[0] + 4 * DAY
    assert damage_in(crawl.job) == []


@pytest.mark.long
def test_hints_bring_a_host_at_most_as_many_visits_as_it_has(tmp_path):
    """Of a site whose pages all change twice a day, as its sitemap says."""
    web = {"hosts": 1, "mean_pages": 130, "max_pages": 150, "changes_per_day": 2.0}
    crawl = VirtualCrawl(tmp_path, lastmod_recall=1.0, **WEB | web)
    crawl.run(8, **UNIFORM, REVISIT_FIRST_SECS="4d")
    pages = len(documents(crawl.world))
    assert pages > 100
    assert pages < crawl.stats()["hints/followed"] <= 64 + 2 * pages
    assert damage_in(crawl.job) == []


@pytest.fixture
def told(tmp_path):
    """Hints on real records; ``now`` is their clock, and ``pushed`` has what they follow."""
    now, pushed = [1e9], []
    with ThreadPoolExecutor(1) as pool:
        records = HostRecords(path=tmp_path, size=9, robots_size=9, executor=pool)
        records.open()
        hints = Hints(
            records=records,
            frontier=SimpleNamespace(push=pushed.extend),
            visits=Visits(policy=Uniform(DAY), first=DAY, shortest=DAY, longest=9 * DAY),
            knows=lambda _: True,
            clock=lambda: now[0],
        )
        yield SimpleNamespace(now=now, pushed=pushed, records=records, hints=hints)
        records.close()


def test_a_url_is_hinted_at_once_within_the_shortest_interval(told):
    told.records.put(HostRecord("a.test", hints=[2, 1, 1]))  # as of an older job
    for after, number in ((0, 1), (0, 1), (HOUR, 1), (DAY, 2), (HOUR, 2)):
        told.now[0] += after
        told.hints.follow(Entry("http://a.test/1", "a.test"), 7)
        assert len(told.pushed) == number


def test_what_another_domain_says_uses_up_none_of_a_hosts_hints(told):
    for foreign, followed in ((FOREIGN, 64), (0, 128)):
        for number in range(200):
            told.hints.follow(
                Entry(f"http://a.test/{foreign}/{number}", "a.test", foreign=foreign), 7
            )
        assert len(told.pushed) == followed


@each("liar followed", (FOREIGN, 64), (0, 1))
def test_wrong_hints_of_another_domain_are_not_those_of_the_host(told, liar, followed):
    """Hints that are all wrong: of the host itself, only one is followed until it is judged."""
    lies = [Entry(f"http://a.test/lie/{page}", "a.test", foreign=liar) for page in range(9)]
    unchanged = SimpleNamespace(
        before=History(content=5), change=UNCHANGED, after=History(content=5)
    )
    for lie in lies:
        told.hints.follow(lie, 7)
        told.hints.note_visit(lie, unchanged)
    assert told.hints.stats()["hints/wrong"] == len(lies)
    told.pushed.clear()
    for number in range(200):
        told.hints.follow(Entry(f"http://a.test/{number}", "a.test"), 7)
    assert len(told.pushed) == followed


def test_a_refetch_of_urls_that_are_due_visits_them_once(tmp_path):
    crawl = VirtualCrawl(tmp_path, **WEB | {"changes_per_day": 0.0})
    crawl.run(1, **UNIFORM, REVISIT_FIRST_SECS="4d")
    for log in crawl.job.glob("logs/info*.jsonl"):
        log.unlink()  # as KEEP_DAYS does
    told = printed("frontier", crawl.job, "--refetch", "all")
    number = told.split()[0]
    assert len(documents(crawl.world)) <= int(number) <= len(times(crawl)), told
    assert "already waiting: 0;" in told
    again = printed("frontier", crawl.job, "--refetch", "all")
    assert again.startswith("0 URLs put back in line")
    assert f"already waiting: {number};" in again
    crawl.run(6, **UNIFORM, REVISIT_FIRST_SECS="4d")
    for visits in (times(crawl)[name] for name in documents(crawl.world)):
        first, at_once, later = visits
        assert at_once - first < 1.1 * DAY
        assert 4 * DAY - 1 < later - at_once < 5 * DAY  # times are whole seconds
    assert damage_in(crawl.job) == []
