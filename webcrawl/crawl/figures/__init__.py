"""Statistics of a crawl, its progress line, and the summary at its end."""
