"""Old import paths of replaced parts of Scrapy, for settings and jobs from before 2026-11-25.

The classes are now in ``webcrawl.crawl.engine._engine``.
"""

from webcrawl.crawl.engine._engine import (
    PlainMetaRefreshMiddleware,
    PlainRedirectMiddleware,
    PlainStats,
)
