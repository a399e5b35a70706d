"""Activity of a crawl at one moment, its counts, and the summary at its end."""
