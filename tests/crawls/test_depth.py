"""Crawls with URL_MAX_DEPTH, judged by the truth of the simulated web and by its record."""

from __future__ import annotations

from crawling import (
    USER_AGENT,
    access_log,
    damage_in,
    kill,
    pages_asked_for,
    simulated,
    start_crawl,
    stats_of,
    wait_until,
)

from webcrawl.simweb import allowed_urls

MAX_DEPTH = 3


def test_nearly_all_pages_within_the_depth_are_reached(tmp_path):
    """A page that is found by a detour first has fewer links left to follow. Measured: all of
    them are reached; 77 to 80 % where a deeper level may be taken at any time."""
    world = {"hosts": 150, "mean_pages": 20.0, "max_pages": 150, "seed_share": 0.007, "seed": 3}
    settings = {"URL_MAX_DEPTH": MAX_DEPTH, "POLITENESS_DELAY_FACTOR": 0}
    with simulated(tmp_path, **world) as web:
        web.crawl(**settings)
        asked = {*pages_asked_for(web.hits())}
    near = allowed_urls(web.world, USER_AGENT, max_depth=MAX_DEPTH)
    assert asked <= near < allowed_urls(web.world, USER_AGENT)
    assert len(asked) >= 0.95 * len(near)
    stats = stats_of(web.job)
    assert stats["urls/refused/depth"] > len(near)
    assert stats["frontier/parked"] == 0


def test_a_job_goes_on_with_other_levels(tmp_path):
    """With 16 levels, with 64, with 3 and with 16 again; what was held for its depth is let in."""
    with simulated(tmp_path, hosts=40, mean_pages=10.0, max_pages=40, seed_share=0.1) as web:
        hits = 0
        for depth in (0, 100, 2):
            crawl = start_crawl(web.command(URL_MAX_DEPTH=depth, POLITENESS_DELAY_FACTOR=0))
            hits += 40
            wait_until(lambda: len(access_log(web.log)) >= hits)  # noqa: B023  # called at once
            kill(crawl)
            assert damage_in(web.job) == []
        # Refused links do not come back; those that wait do.
        web.crawl(URL_MAX_DEPTH=0, POLITENESS_DELAY_FACTOR=0)
        asked = {*pages_asked_for(web.hits())}
    assert asked >= allowed_urls(web.world, USER_AGENT, max_depth=2)
    assert damage_in(web.job) == []
    assert stats_of(web.job)["frontier/parked"] == 0
