"""Spam farms and endless calendars get a small share of a crawl, and nobody else pays for it."""

import re
from urllib.parse import urlsplit

import pytest
from simweb_client import whole_log
from spam_crawl import share, shares, spam_web
from text_tables import each

from webcrawl.simweb.farm import DOMAINS


@each("hosts endless most", (100, 0.03, 0.1), long=((300, 0.005, 0.05),))
def test_farm_and_calendar_get_a_small_share_while_all_hosts_are_crawled(
    tmp_path, hosts, endless, most
):
    with spam_web(tmp_path, hosts=hosts, endless=endless) as web:
        output = web.crawl(REPUTATION_ROUNDS=0)
        found = shares(web.world, whole_log(web.web))
        # A calendar's host may have spent its own budget on it; nobody else waits.
        hosts = [web.world.find(urlsplit(url).hostname) for url in found.missing]
        assert [host.name for host in hosts if not host.endless] == []
        assert min(found.then["farm"], found.then["calendar"]) > 0  # they were there
        assert share(found.then) < most
        assert share(found.whole) < most
        said = re.findall(r"([0-9,]+) URLs parked because of their domain's page budget", output)
        waiting = int(said[-1].replace(",", ""))
        assert waiting == web.stats["frontier/parked/reputation"] > 100

        # The same command with more rounds goes on.
        web.crawl(REPUTATION_ROUNDS=1)
        stats = web.stats
        assert stats["reputation/round"] == 1
        assert stats["frontier/admitted"] > 0
    again = shares(web.world, web.hits())
    assert again.whole.total() > found.whole.total()
    assert again.missing == set()


@pytest.mark.long
def test_domain_has_its_hard_budget_and_gets_more_when_that_is_raised(tmp_path):
    with spam_web(tmp_path, hosts=30, farm_links=0.2, endless=0.0) as web:

        def farm_pages(**settings):
            web.crawl(REPUTATION_BASE_PAGES=0, **settings)
            hits = [hit for hit in whole_log(web.web) if hit.target != "/robots.txt"]
            return [sum(f".{name}:" in hit.origin for hit in hits) for name in DOMAINS]

        assert farm_pages(BUDGET_DOMAIN_PAGES=15) == [15, 15, 15]
        assert web.stats["frontier/parked/domain_budget"] > 0
        assert farm_pages(BUDGET_DOMAIN_PAGES=20) == [20, 20, 20]
