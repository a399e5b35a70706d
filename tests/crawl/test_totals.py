"""Counts of the whole crawl, over the runs that it takes."""

from __future__ import annotations

from scrapy.statscollectors import StatsCollector
from scrapy.utils.test import get_crawler

from webcrawl.crawl.totals import Totals


def run(clock, saved, counts, secs):
    """One run; the totals in its stats, and what a checkpoint saves of them."""
    stats = StatsCollector(get_crawler())
    totals = Totals(stats=stats, clock=clock)
    totals.open(saved)
    for name, count in counts.items():
        stats.set_value(name, count)
    clock.advance(secs)
    totals.publish()
    totals.publish()  # which adds nothing
    found = {
        name.removeprefix("crawl/"): value
        for name, value in stats.get_stats().items()
        if name.startswith("crawl/")
    }
    return found, totals.snapshot()


def test_each_run_adds_its_counts_and_nothing_else(clock):
    first = {"outcome/http_200": 5, "pauses/network_secs": 1.5, "pauses/now": "The network is gone"}
    gauges = {"frontier/waiting": 7, "frontier/finished": 5, "seeds/read": 3}
    found, saved = run(clock, None, first | gauges, 60)
    assert found == {
        "outcome/http_200": 5,
        "pauses/network_secs": 1.5,
        "elapsed_time_seconds": 60,
    }
    found, saved = run(clock, saved, {}, 1)
    assert found["outcome/http_200"] == 5
    found, _ = run(clock, saved, {"outcome/http_200": 2, "outcome/http_404": 1}, 30)
    assert found == {
        "outcome/http_200": 7,
        "outcome/http_404": 1,
        "pauses/network_secs": 1.5,
        "elapsed_time_seconds": 91,
    }
