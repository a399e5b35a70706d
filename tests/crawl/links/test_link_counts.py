"""Counts of the links of pages."""

from webcrawl.crawl.links.link_counts import LinkCounts


def test_mean_median_and_different_links_of_a_page():
    counts = LinkCounts()
    assert counts.stats() == {}
    for found, distinct in ((0, 0), (2, 2), (3, 2), (20, 10)):
        counts.add(found, distinct)
    assert counts.stats() == {
        "links/pages": 4,
        "links/found": 25,
        "links/found_unique": 14,
        "pages/links_mean": 6.2,
        "pages/links_unique_mean": 3.5,
        "pages/links_median": 2,
    }
