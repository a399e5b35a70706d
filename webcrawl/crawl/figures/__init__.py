"""Figures of a crawl: statistics, the progress line, the summary at its end."""
