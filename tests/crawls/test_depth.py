"""Crawls with URL_MAX_DEPTH, judged by the truth of the simulated web and by its record."""

from crawling import (
    USER_AGENT,
    pages_asked_for,
    simulated,
)
from web_truth import allowed_urls

MAX_DEPTH = 3


def test_nearly_all_pages_within_the_depth_are_reached(tmp_path):
    """A page that is found by a detour first has fewer links left to follow. Measured: all of
    them are reached; 77 to 80 % where a deeper level may be taken at any time."""
    world = {"hosts": 60, "mean_pages": 20.0, "max_pages": 150, "seed_share": 0.017, "seed": 5}
    settings = {"URL_MAX_DEPTH": MAX_DEPTH, "POLITENESS_DELAY_FACTOR": 0}
    with simulated(tmp_path, **world) as web:
        web.crawl(**settings)
        asked = {*pages_asked_for(web.hits())}
    near = allowed_urls(web.world, USER_AGENT, max_depth=MAX_DEPTH)
    assert asked <= near < allowed_urls(web.world, USER_AGENT)
    assert len(asked) >= 0.95 * len(near)
    stats = web.stats
    assert stats["urls/refused/depth"] > len(near)
    assert stats["frontier/parked"] == 0
