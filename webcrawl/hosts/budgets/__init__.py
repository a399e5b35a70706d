"""Shares of the crawl: quotas, reputation, depths, traps."""
