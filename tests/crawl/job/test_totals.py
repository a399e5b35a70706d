"""Counts of the whole crawl, over the runs that it takes."""

import msgspec
from scrapy.statscollectors import StatsCollector
from scrapy.utils.test import get_crawler

from webcrawl.crawl.job.totals import Totals, of_older_job


def run(clock, saved, counts, secs, of_shards=(), *, is_over=True):
    """One run; the totals in its stats, and what a checkpoint saves of them. *of_shards* are what
    they have counted, at each time that they are asked."""
    stats = StatsCollector(get_crawler())
    asked = iter([dict(one) for one in of_shards or [{}, {}]])
    totals = Totals(
        stats=stats, clock=clock, of_shards=lambda: next(asked), is_over=lambda: is_over
    )
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
    first = {"warc/records": 5, "pauses/network_secs": 1.5, "pauses/now": "The network is gone"}
    gauges = {"frontier/waiting": 7, "frontier/finished": 5, "seeds/read": 3}
    found, saved = run(clock, None, first | gauges, 60)
    assert found == {
        "warc/records": 5,
        "pauses/network_secs": 1.5,
        "elapsed_time_seconds": 60,
    }
    found, saved = run(clock, saved, {}, 1)
    assert found["warc/records"] == 5
    found, _ = run(clock, saved, {"warc/records": 2, "warc/bytes": 1}, 30)
    assert found == {
        "warc/records": 7,
        "warc/bytes": 1,
        "pauses/network_secs": 1.5,
        "elapsed_time_seconds": 91,
    }


def test_runs_that_were_cut_off_are_counted(clock):
    saved = None
    for is_over, before in ((True, 0), (False, 0), (False, 1), (True, 2), (True, 2)):
        found, saved = run(clock, saved, {}, 1, is_over=is_over)
        assert found.get("job/cut_off", 0) == before


def test_what_shards_count_is_theirs_and_goes_with_them(clock):
    theirs = {"outcome/http_200": 5, "contacts": 9}
    run_counts = {"outcome/http_200": 2, "contacts": 3}
    found, saved = run(clock, None, run_counts, 1, of_shards=[theirs, theirs])
    assert found == theirs | {"elapsed_time_seconds": 1}
    found, _ = run(clock, saved, {}, 1, of_shards=[theirs, {}])
    assert found == dict.fromkeys(theirs, 0) | {"elapsed_time_seconds": 2}


def test_counts_of_a_job_of_before_the_shards_counted_stay(clock):
    older = msgspec.msgpack.encode({"outcome/http_200": 70, "warc/bytes": 1})
    theirs = {"outcome/http_200": 5}
    for _ in range(2):
        found, older = run(clock, older, {"outcome/http_200": 5}, 1, of_shards=[theirs, theirs])
        assert (found["outcome/http_200"], found["warc/bytes"]) == (75, 1)
    assert of_older_job(older) == {"outcome/http_200": 70}
