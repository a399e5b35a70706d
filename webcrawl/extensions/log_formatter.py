"""Quiet log formatter: Scrapy's messages, but without a line for each page and item.

Counts are in the stats, a progress line appears every ten seconds, and errors are still logged. A
failing disk is logged once, by crawl/engine/stop.py, and not for every page in progress.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy.logformatter import LogFormatter, LogFormatterResult

from webcrawl.errors import is_storage_lost, module_of, path_of

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.http import Response
    from twisted.python.failure import Failure


class QuietLogFormatter(LogFormatter):
    """``LOG_FORMATTER`` without a line per page: formatting one costs more than fetching it."""

    def crawled(self, request: Request, response: Response, spider: Spider) -> None:  # type: ignore[override]  # Scrapy's documentation allows None, its annotation does not
        """Log nothing."""

    def scraped(  # type: ignore[override]  # as above
        self, item: Any, response: Response | Failure | None, spider: Spider
    ) -> None:
        """Log nothing."""

    def item_error(
        self,
        item: Any,
        exception: BaseException,
        response: Response | Failure | None,
        spider: Spider,  # noqa: ARG002  # Scrapy's interface
    ) -> LogFormatterResult:
        """Return a message that names the module and the page.

        Its level is DEBUG if it would only repeat that the disk fails.
        """
        url = getattr(item, "url", None) or getattr(response, "url", None) or "no page"
        return {
            "level": logging.DEBUG if is_storage_lost(exception) else logging.ERROR,
            "msg": "The module %s failed on %s: %r",
            "args": (path_of(module_of(exception)), url, exception),
        }

    def spider_error(
        self,
        failure: Failure,
        request: Request,
        response: Response | Failure,
        spider: Spider,
    ) -> LogFormatterResult:
        """Return Scrapy's message, at level DEBUG if it would only repeat that the disk fails.

        Disk errors can occur in callbacks, because these pass pages on to modules.
        """
        line = super().spider_error(failure, request, response, spider)
        if is_storage_lost(failure.value):
            line["level"] = logging.DEBUG
        return line
