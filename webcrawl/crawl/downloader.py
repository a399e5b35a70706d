"""Path of the downloader in settings and saved jobs of before 2026-11-25."""

from webcrawl.crawl.lease.downloader import MercatorDownloader

__all__ = ["MercatorDownloader"]
