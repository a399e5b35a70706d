"""Paths of replaced parts of Scrapy in settings and saved jobs of before 2026-11-25."""

from webcrawl.crawl.engine._engine import (
    PlainMetaRefreshMiddleware,
    PlainRedirectMiddleware,
    PlainStats,
)

__all__ = ["PlainMetaRefreshMiddleware", "PlainRedirectMiddleware", "PlainStats"]
