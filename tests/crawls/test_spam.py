"""Spam farms and endless calendars get a small share of a crawl, and nobody else pays for it."""

from __future__ import annotations

import re
import time
from urllib.parse import urlsplit

import pytest
from crawling import USER_AGENT, access_log, crawl_command, run_crawl, stats_of
from spam_crawl import shares, spam_world

from webcrawl.simweb import allowed_urls, start_in_process
from webcrawl.simweb.farm import DOMAINS


@pytest.mark.parametrize(
    ("hosts", "endless", "most"),
    [(100, 0.03, 0.1), pytest.param(300, 0.005, 0.05, marks=pytest.mark.long)],
)
def test_farm_and_calendar_get_a_small_share_while_all_hosts_are_crawled(
    tmp_path, hosts, endless, most
):
    log, job = tmp_path / "access.log", tmp_path / "job"
    with start_in_process(spam_world(hosts=hosts, endless=endless), log_path=log) as web:
        seeds = tmp_path / "seeds.txt"
        seeds.write_text("\n".join(web.world.seeds()) + "\n")
        allowed = allowed_urls(web.world, USER_AGENT)

        def crawl(**settings):
            done = run_crawl(crawl_command(web, seeds, job, **settings), timeout=200)
            assert done.returncode == 0, done.stdout
            return done.stdout

        output = crawl(REPUTATION_ROUNDS=0)
        time.sleep(0.4)  # the server writes its record at the latest 0.2 s after an answer
        found = shares(log, allowed, output)
        # A calendar's host may have spent its own budget on it; nobody else waits.
        hosts = [web.world.find(urlsplit(url).hostname) for url in found.missing]
        assert [host.name for host in hosts if not host.endless] == []
        assert min(found.farm_then, found.calendar_then) > 0  # they were there
        assert found.share_then < most
        assert found.share < most
        said = re.search(r"([0-9,]+) more over what their domain's reputation allows", output)
        assert said is not None
        waiting = int(said[1].replace(",", ""))
        assert waiting == stats_of(job)["frontier/parked/reputation"] > 100

        # The same command with more rounds goes on.
        requests = len(access_log(log))
        crawl(REPUTATION_ROUNDS=1)
        stats = stats_of(job)
        assert stats["reputation/round"] == 1
        assert stats["frontier/admitted"] > 0
        web.stop()
        assert len(access_log(log)) > requests
        assert shares(log, allowed, output).missing == set()


def test_domain_has_its_hard_budget_and_gets_more_when_that_is_raised(tmp_path):
    log, job = tmp_path / "access.log", tmp_path / "job"
    world = spam_world(hosts=30, farm_links=0.2, endless=0.0)
    with start_in_process(world, log_path=log) as web:
        seeds = tmp_path / "seeds.txt"
        seeds.write_text("\n".join(web.world.seeds()) + "\n")

        def farm_pages(**settings):
            done = run_crawl(
                crawl_command(web, seeds, job, REPUTATION_BASE_PAGES=0, **settings), timeout=100
            )
            assert done.returncode == 0, done.stdout
            time.sleep(0.4)  # the server writes its record at the latest 0.2 s after an answer
            hits = [hit for hit in access_log(log) if hit.target != "/robots.txt"]
            return [sum(f".{name}:" in hit.origin for hit in hits) for name in DOMAINS]

        assert farm_pages(BUDGET_DOMAIN_PAGES=15) == [15, 15, 15]
        assert stats_of(job)["frontier/parked/domain_budget"] > 0
        assert farm_pages(BUDGET_DOMAIN_PAGES=20) == [20, 20, 20]
