"""Statistics of the links of pages."""

from __future__ import annotations

from collections import Counter


class LinkCounts:
    """Counts the links on this run's pages. `PAGE_MAX_BYTES` limits the memory used."""

    def __init__(self) -> None:
        # The number of pages, by their number of links.
        self._pages: Counter[int] = Counter()
        self._unique = 0

    def add(self, found: int, distinct: int) -> None:
        """Add a page with *found* links to *distinct* URLs."""
        self._pages[found] += 1
        self._unique += distinct

    def stats(self) -> dict[str, float]:
        """Return sums and averages per page, keyed by their names in the crawl's stats."""
        pages = self._pages.total()
        if not pages:
            return {}
        found = sum(links * count for links, count in self._pages.items())
        return {
            "links/pages": pages,
            "links/found": found,
            "links/found_unique": self._unique,
            "pages/links_mean": round(found / pages, 1),
            "pages/links_unique_mean": round(self._unique / pages, 1),
            "pages/links_median": self._median(pages),
        }

    def _median(self, pages: int) -> int:
        """Return the median number of links of *pages* pages."""
        so_far = 0
        for links, count in sorted(self._pages.items()):
            so_far += count
            if 2 * so_far >= pages:
                return links
        return 0
