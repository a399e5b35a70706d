"""Old import path of the downloader, for settings and saved jobs from before 2026-11-25."""

from webcrawl.crawl.lease.downloader import MercatorDownloader
