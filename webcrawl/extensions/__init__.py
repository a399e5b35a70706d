"""Mercator's background thread, as Scrapy extensions: statistics, checkpoints, the summary."""
