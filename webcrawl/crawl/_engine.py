"""Old import paths of parts of Scrapy's engine, for settings and saved jobs from before
2026-11-25."""

from webcrawl.crawl.engine._engine import (
    PlainMetaRefreshMiddleware,
    PlainRedirectMiddleware,
    PlainStats,
)

__all__ = ["PlainMetaRefreshMiddleware", "PlainRedirectMiddleware", "PlainStats"]
