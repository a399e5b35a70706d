"""Sees to it that the crawl may open as many files and connections as it can need at once.

What it can need is bounded by settings: two connections for each request under way (FTP has one
for the dialogue and one for the data), idle connections of the handlers of http and https (and of
both to proxies), and a fixed number for all else, however many hosts and URLs there are: queues on
disk hold no file open between calls, fingerprints are in a few dozen runs, and logs, WARC file,
SQLite, name servers and the event loop have a few each. The usual soft limit of 1,024 is below
that, and a crawl that met it would take its own failures for those of hosts.
"""

from __future__ import annotations

import logging
import resource
from typing import TYPE_CHECKING, Final, Self

from scrapy import signals

from webcrawl.configuration.values import flag, whole
from webcrawl.errors import FatalError
from webcrawl.net.limits import FetchLimits

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

# All that is neither a worker's nor idle. Most of it are 64 questions to name servers by TCP; after
# hours of crawling there were 40 besides (tests/extensions/test_open_files.py counts the parts).
FIXED: Final = 256


def most_open_files(settings: BaseSettings) -> int:
    """How many descriptors a crawl with *settings* has open at most."""
    workers = whole(settings, "CONCURRENT_REQUESTS", at_least=1)
    limits = FetchLimits.from_settings(settings)
    idle = sum(limits.idle_by_scheme.values())
    if flag(settings, "HTTPPROXY_ENABLED"):
        idle += 2 * limits.idle_connections
    return 2 * workers + idle + FIXED


class OpenFiles:
    """Extension. Raises the soft limit of the process to *needed* if it is lower."""

    def __init__(self, *, needed: int) -> None:
        self._needed = needed

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises FatalError with one sentence when the system does not allow what is needed."""
        needed = most_open_files(crawler.settings)
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise FatalError(
                f"The crawl may have {needed} files and connections open at once, and the system "
                f"allows {hard} (ulimit -Hn): raise that, or lower CONCURRENT_REQUESTS or "
                "NET_KEEPALIVE_CONNECTIONS."
            )
        extension = cls(needed=needed)
        crawler.signals.connect(extension.spider_opened, signal=signals.spider_opened)
        return extension

    def spider_opened(self) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY or soft >= self._needed:
            return
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._needed, hard))
        logger.info("Raised the limit of open files from %d to %d", soft, self._needed)
