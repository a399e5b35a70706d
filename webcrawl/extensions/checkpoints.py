"""Periodic checkpoints of the crawl's state (Mercator, section 3: the background thread).

``scheduler.close()`` makes the last checkpoint, at the end of the crawl and on SIGTERM or SIGINT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scrapy.exceptions import NotConfigured

from webcrawl.configuration.values import number
from webcrawl.extensions.periodic import while_crawling
from webcrawl.scheduler import process_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class Checkpoints:
    """Extension that starts a checkpoint every CHECKPOINT_INTERVAL_SECS seconds."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Start the periodic checkpoints. Raises NotConfigured if the interval is 0."""
        every = number(crawler.settings, "CHECKPOINT_INTERVAL_SECS", at_least=0)
        if not every:
            raise NotConfigured("CHECKPOINT_INTERVAL_SECS is 0")

        def checkpoint() -> None:
            process = process_of(crawler)
            if process is not None:
                process.checkpoints.start_scheduled()

        while_crawling(crawler, checkpoint, every=every)
        return cls()
