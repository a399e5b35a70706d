"""What Scrapy logs per page and per item, for a crawl of a billion of them: nothing.

Counts are in the stats, a progress line comes every ten seconds, and errors are still logged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.logformatter import LogFormatter

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.http import Response
    from twisted.python.failure import Failure


class QuietLogFormatter(LogFormatter):
    """``LOG_FORMATTER`` without a line per page: formatting one costs more than fetching it."""

    def crawled(self, request: Request, response: Response, spider: Spider) -> None:  # type: ignore[override]  # Scrapy's documentation allows None, its annotation does not
        """No line."""

    def scraped(  # type: ignore[override]  # as above
        self, item: Any, response: Response | Failure | None, spider: Spider
    ) -> None:
        """No line."""
