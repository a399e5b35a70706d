"""Counts of the links of pages."""

from __future__ import annotations

from webcrawl.crawl.links.link_counts import LinkCounts
from webcrawl.urls import Link


def test_mean_median_and_different_links_of_a_page():
    counts = LinkCounts()
    assert counts.stats() == {}
    for urls in ("", "ab", "aab", "abcdefghij" * 2):
        counts.add([Link(f"http://{name}.test/") for name in urls])
    assert counts.stats() == {
        "links/pages": 4,
        "links/found": 25,
        "links/found_unique": 14,
        "pages/links_mean": 6.2,
        "pages/links_unique_mean": 3.5,
        "pages/links_median": 2,
    }
