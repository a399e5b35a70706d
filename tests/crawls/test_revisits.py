"""REVISIT in virtual time: by the servers' record, when each page is visited again."""

import re
from collections import defaultdict

import pytest
from crawling import damage_in, printed
from faults import Episode
from faulty_crawl import Fault
from text_tables import each
from virtual_crawl import VirtualCrawl
from web_truth import fetchable_urls

from webcrawl.jobs.inspect.info_log import known_since, outcome_lines
from webcrawl.sim.loop import BEGAN
from webcrawl.storage.line_log import number_of, numbered_files

DAY = 86_400.0
REVISIT = {
    "REVISIT": 1,
    "REVISIT_FIRST_SECS": "1d",
    "REVISIT_POLICY": "webcrawl.revisit.policies.Adaptive",
}
AGENT = "webcrawl/0.5"


@pytest.fixture
def crawl(tmp_path):
    return VirtualCrawl(tmp_path, hosts=4, mean_pages=4, max_pages=8, restricting=0.0)


def gaps(crawl):
    """Of each document of the web, days between the requests for it."""
    found = defaultdict(list)
    for hit in crawl.hits():
        found[hit.origin + hit.target].append(hit.start / DAY)
    return {
        url: [after - before for before, after in zip(found[url], found[url][1:], strict=False)]
        for url in fetchable_urls(crawl.world, AGENT)
    }


def are_due(days, due):
    """Whether *days* are those after which visits were *due*, none early, and none late by more
    than a sixth, and an hour."""
    return len(days) == len(due) and all(
        at <= found <= at * 7 / 6 + 1.5 / 24 for found, at in zip(days, due, strict=True)
    )


def test_pages_are_visited_at_intervals_that_grow_while_they_do_not_change(crawl):
    crawl.run(3, **REVISIT)
    assert all(are_due(days, [1, 1.4]) for days in gaps(crawl).values())
    stats = crawl.stats()
    pages = len(gaps(crawl))
    assert stats["visits/unchanged"] == 2 * pages
    assert stats["outcome/http_200"] == stats["crawl/outcome/http_200"] == pages
    assert stats["frontier/due"] >= pages
    assert "Spider closed (closespider_timeout)" in crawl.said


def test_readers_tell_of_the_next_visit(crawl):
    crawl.run(0.5, STATISTICS_INTERVAL_SECS=3600, **REVISIT)
    url = next(iter(gaps(crawl)))
    said = printed("why", crawl.job, url)
    assert "It was fetched before and will be visited again after 2027-01-16" in said
    assert "waits  for its next visit" in said
    said = printed("frontier", crawl.job)
    assert re.search(r"^ +due  \d+ visits planned$", said, re.MULTILINE)
    assert "nothing left: waiting for visits from 2027-01-16" in crawl.said
    known = crawl.stats()["frontier/due"]
    assert f", 0 visits (0/s), {known} URLs seen within 7 days, " in crawl.said
    seen = f"freshness  {known} URLs seen within 7 days; {known} wait for their next visit\n"
    assert seen in crawl.said


def test_no_due_time_is_lost_to_kill_9(crawl):
    told = crawl.run(3, fault=Fault("kill", room="done", after=60), **REVISIT)
    assert told.has_failed
    crawl.run(4 - told.ended / DAY, **REVISIT)
    assert damage_in(crawl.job) == []
    # What was in process then was asked for again at once.
    visits = [[gap for gap in days if gap > 0.01] for days in gaps(crawl).values()]
    assert all(are_due(days, [1, 1.4]) for days in visits)


def test_a_job_that_was_finished_without_it_is_taken_up(crawl):
    crawl.run(0.1)
    assert "finished: nothing is left to fetch" in crawl.said
    crawl.run(1.3, **REVISIT)
    assert all(are_due(days, [1]) for days in gaps(crawl).values())
    crawl.run(0.1, **REVISIT)  # once
    assert all(are_due(days, [1]) for days in gaps(crawl).values())


def test_logs_are_kept_for_days_and_readers_say_since_when_they_know(crawl):
    crawl.run(4, KEEP_DAYS=1, INFO_LOG_MAX_FILE_BYTES=400, **REVISIT)
    assert "KEEP_DAYS without" not in crawl.said
    full = numbered_files(crawl.job / "logs/info.jsonl")
    assert len(full) == 1
    assert number_of(full[0]) > 2 * len(gaps(crawl))
    told = {line.url for line in outcome_lines(crawl.job)}
    url = next(one for one in gaps(crawl) if one not in told)
    said = printed("why", crawl.job, url)
    assert "It was fetched before and will be visited again after 2027-01-" in said
    assert re.search(r"last visited 2027-01-1[78] .*: 0 of the last 3 visits found a change", said)
    begins = "the log begins on 2027-01-17; URLs that were finished before are not known\n"
    assert begins in said
    assert begins in printed("frontier", crawl.job, "--refetch", "all")


def test_a_log_is_not_cut_without_a_sentence(crawl):
    crawl.run(0.1, KEEP_DAYS=3, INFO_LOG_MAX_FILE_BYTES=400)
    assert "KEEP_DAYS without REVISIT: URLs that finished more than 3 days ago" in crawl.said
    assert known_since(crawl.job) is None
    files = numbered_files(crawl.job / "logs/info.jsonl")
    assert [number_of(one) for one in files] == [*range(1, len(files) + 1)]
    lines = outcome_lines(crawl.job)
    first = next(lines).url
    files[1].unlink()  # while the log is read
    assert [first, *(one.url for one in lines)]


def test_pages_that_robots_txt_denies_for_days_come_back(tmp_path):
    crawl = VirtualCrawl(tmp_path, hosts=2, mean_pages=4, max_pages=8, restricting=0.0)
    name = crawl.world.host(0).name
    script = [Episode(1.5 * DAY, 20 * DAY, name, "deny_all")]
    crawl.run(19, script=script, **REVISIT)
    lost = {url: days for url, days in gaps(crawl).items() if f"//{name}" in url}
    assert lost
    assert max(map(sum, lost.values())) < 2
    assert f"them again: {len(lost)} of {name}\n" in crawl.said
    visits = [
        line.at for line in outcome_lines(crawl.job) if line.url in lost and line.visit == "gone"
    ]
    assert len(lost) < len(visits) < 5 * len(lost)  # ever more rarely
    crawl.run(23, script=script, **REVISIT)
    assert all(sum(days) > 20 for url, days in gaps(crawl).items() if url in lost)
    assert "lost  " not in crawl.said
    assert damage_in(crawl.job) == []


@each("lies", "304", long=("", "same"))
def test_validators_that_lie_are_dropped_and_no_others(tmp_path, lies):
    web = {"hosts": 3, "mean_pages": 6, "max_pages": 6, "restricting": 0.0}
    crawl = VirtualCrawl(tmp_path, lies=lies, changes_per_day=0.3, **web)
    daily = REVISIT | {"REVISIT_POLICY": "webcrawl.revisit.policies.Uniform"}
    crawl.run(25, **daily)
    crawl.run(5, **daily)
    last = defaultdict(float)
    for hit in crawl.hits():
        if hit.status == 304:
            last[hit.origin] = (hit.start - BEGAN) / DAY
    assert len(last) == 3 or lies  # one may be found out before its first 304
    assert {day < 20 for day in last.values()} == {bool(lies)}
    assert damage_in(crawl.job) == []
