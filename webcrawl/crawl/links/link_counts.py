"""Statistics of the links of pages."""

from __future__ import annotations

from collections import Counter


class LinkCounts:
    """Counts the links on this run's pages. `PAGE_MAX_BYTES` limits the memory used."""

    def __init__(self) -> None:
        # The number of pages, by their number of links.
        self._pages: Counter[int] = Counter()
        # The number of different URLs that each page links to, added up over all pages.
        self._unique = 0

    def add(self, link_count: int, distinct_count: int) -> None:
        """Add a page that has *link_count* links to *distinct_count* different URLs."""
        self._pages[link_count] += 1
        self._unique += distinct_count

    def stats(self) -> dict[str, float]:
        """Return sums and averages per page, keyed by their names in the crawl's stats."""
        pages = self._pages.total()
        if not pages:
            return {}
        link_count = sum(links * count for links, count in self._pages.items())
        return {
            "links/pages": pages,
            "links/found": link_count,
            "links/found_unique": self._unique,
            "pages/links_mean": round(link_count / pages, 1),
            "pages/links_unique_mean": round(self._unique / pages, 1),
            "pages/links_median": self._median(pages),
        }

    def _median(self, pages: int) -> int:
        """Return the median number of links of *pages* pages."""
        counted_pages = 0
        for links, count in sorted(self._pages.items()):
            counted_pages += count
            if 2 * counted_pages >= pages:
                return links
        return 0
