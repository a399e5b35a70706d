"""Scrapy extensions: statistics, checkpoints, summary, limits (Mercator's background thread)."""
