"""Old import paths of parts of Scrapy's engine.

For settings and jobs saved before 2026-11-25.
"""

from webcrawl.crawl.engine._engine import (
    PlainMetaRefreshMiddleware,
    PlainRedirectMiddleware,
    PlainStats,
)

__all__ = ["PlainMetaRefreshMiddleware", "PlainRedirectMiddleware", "PlainStats"]
