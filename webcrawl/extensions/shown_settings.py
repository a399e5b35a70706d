"""Logs the crawl's settings without credentials, instead of Scrapy's own message."""

from __future__ import annotations

import logging
from pprint import pformat
from typing import TYPE_CHECKING, Self

from scrapy import signals
from scrapy.settings import overridden_settings

from webcrawl.configuration.secrets import mask

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)


class ShownSettings:
    """Extension that logs the settings that differ from Scrapy's defaults, at DEBUG."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Replace Scrapy's message, which also shows passwords in settings."""
        # Hide Scrapy's message, which is logged as soon as all extensions are created.
        logging.getLogger("scrapy.crawler").addFilter(
            lambda record: not str(record.msg).startswith("Overridden settings")
        )

        def show() -> None:
            overridden = overridden_settings(crawler.settings)
            shown = {name: mask(name, value) for name, value in overridden}
            logger.debug("Overridden settings:\n%s", pformat(shown))

        crawler.signals.connect(show, signal=signals.spider_opened, weak=False)
        return cls()
