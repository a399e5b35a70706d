"""Crawls that stay within bounds, judged by the simulated web's own record."""

import pytest
from crawling import (
    access_log,
    kill,
    simulated,
    start_crawl,
    url_of_hit,
    wait_until,
)

from webcrawl.urls import host_of


@pytest.fixture
def web(tmp_path):
    with simulated(tmp_path, hosts=30, mean_pages=8.0, max_pages=40, crawl_delays=0.0) as web:
        yield web


def hosts_asked(web):
    """All that were contacted, be it for robots.txt alone."""
    return {host_of(url_of_hit(hit)) for hit in web.hits()}


def test_a_crawl_within_its_seeds_leaves_no_other_host_a_trace(web):
    seeds = list(web.world.seeds())[:4]
    web.seeds.write_text("\n".join(seeds) + "\n")
    # sim.test is no public suffix, so every host is a domain of its own.
    settings = {"URL_SCOPE": "seeds", "POLITENESS_MIN_DELAY": 0.2}
    first = start_crawl(web.command(**settings))
    wait_until(lambda: len(access_log(web.log)) > 16)
    kill(first)
    # The seeds are not read again: what they allow survives.
    web.crawl(**settings)
    assert hosts_asked(web) == {host_of(url) for url in seeds}
    assert web.stats["urls/refused/whitelist"] > 0


def test_each_domain_by_itself_is_crawled_as_far_as_its_own_links_lead(web):
    web.crawl(URL_SCOPE="domain")
    assert web.stats["urls/refused/own_domain"] > 0
    assert hosts_asked(web) <= {host_of(url) for url in web.world.seeds()}
