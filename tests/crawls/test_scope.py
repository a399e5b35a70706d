"""Crawls that stay within bounds, judged by the simulated web's own record."""

from __future__ import annotations

import pytest
from crawling import (
    USER_AGENT,
    access_log,
    crawl_command,
    pages_asked_for,
    run_crawl,
    start_crawl,
    stats_of,
    url_of_hit,
)

from webcrawl.simweb import allowed_urls, preset, start_in_process
from webcrawl.urls import host_of


@pytest.fixture
def web(tmp_path):
    world = preset(
        "clean", http_port=0, https_port=0, hosts=30, mean_pages=8.0, max_pages=40, crawl_delays=0.0
    )
    with start_in_process(world, log_path=tmp_path / "access.log") as web:
        yield web


def command(web, tmp_path, seeds, **settings):
    path = tmp_path / "seeds.txt"
    path.write_text("\n".join(seeds) + "\n")
    return crawl_command(web, path, tmp_path / "job", **settings)


def hosts_asked(web):
    """All that were contacted, be it for robots.txt alone."""
    web.stop()
    return {host_of(url_of_hit(hit)) for hit in access_log(web.log_path)}


def test_a_crawl_within_its_seeds_leaves_no_other_host_a_trace(web, tmp_path):
    seeds = list(web.world.seeds())[:4]
    # sim.test is no public suffix, so every host is a domain of its own.
    line = command(web, tmp_path, seeds, URL_SCOPE="seeds", POLITENESS_MIN_DELAY=0.2)
    first = start_crawl(line)
    with pytest.raises(Exception, match="timed out"):
        first.communicate(timeout=3)
    first.kill()
    first.communicate()
    # The seeds are not read again: what they allow survives.
    done = run_crawl(line)
    assert done.returncode == 0, done.stdout
    assert hosts_asked(web) == {host_of(url) for url in seeds}
    assert stats_of(tmp_path / "job")["urls/refused/whitelist"] > 0


def test_each_domain_by_itself_is_crawled_as_far_as_its_own_links_lead(web, tmp_path):
    seeds = list(web.world.seeds())
    done = run_crawl(command(web, tmp_path, seeds, URL_SCOPE="domain"))
    assert done.returncode == 0, done.stdout
    stats = stats_of(tmp_path / "job")
    assert stats["urls/refused/own_domain"] > 0
    assert hosts_asked(web) <= {host_of(url) for url in seeds}


def test_only_urls_that_match_are_asked_for(web, tmp_path):
    pattern = r"https?://site0000[0-9]\.sim\.test[:/].*"
    seeds = list(web.world.seeds())
    done = run_crawl(command(web, tmp_path, seeds, URL_RESTRICT_TO=pattern))
    assert done.returncode == 0, done.stdout
    asked = hosts_asked(web)
    assert asked
    assert all(host.startswith("site0000") for host in asked)
    assert stats_of(tmp_path / "job")["urls/refused/restrict_to"] > 0


def test_a_scope_that_does_not_exist_is_one_sentence(web, tmp_path):
    done = run_crawl(command(web, tmp_path, web.world.seeds(), URL_SCOPE="here"))
    assert done.returncode == 2
    last = done.stdout.splitlines()[-1]
    assert last == "webcrawl: URL_SCOPE must be open, seeds or domain, not 'here'."


def test_the_default_filters_lose_no_page_of_an_ordinary_web(web, tmp_path):
    done = run_crawl(command(web, tmp_path, web.world.seeds()))
    assert done.returncode == 0, done.stdout
    world = web.world
    web.stop()
    assert set(pages_asked_for(access_log(web.log_path))) == allowed_urls(world, USER_AGENT)
