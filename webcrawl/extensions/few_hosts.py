"""Ends a crawl when only a few hosts have had URLs left for some time (its long tail).

``scrapy crawl`` then writes the URLs that are left to JOBDIR/remainder.csv. The job can still be
resumed. Mischel's crawler does the same between segments, see docs/howto/crawl-in-segments.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scrapy.exceptions import NotConfigured

from webcrawl.clock import now
from webcrawl.configuration.values import number, whole_number
from webcrawl.crawl.seeds.few_hosts import HAS_FEW_HOSTS, FewHosts
from webcrawl.extensions.periodic import while_crawling
from webcrawl.scheduler import process_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

_INTERVAL_SECS = 0.5


class CloseWithFewHosts:
    """Extension that ends the crawl when only a few hosts have had URLs left for some time."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Start the periodic checks. Raises NotConfigured unless CLOSESPIDER_FEW_HOSTS is set."""
        min_hosts = whole_number(crawler.settings, "CLOSESPIDER_FEW_HOSTS", at_least=0)
        secs = number(crawler.settings, "CLOSESPIDER_FEW_HOSTS_SECS", at_least=0)
        if not min_hosts:
            raise NotConfigured
        few_hosts = FewHosts(min_hosts, secs=secs, clock=now)

        def check() -> None:
            process = process_of(crawler)
            if process is None or process.stop.is_ending:
                return
            if few_hosts.check(process.shards):
                process.stop.ask(HAS_FEW_HOSTS)

        while_crawling(crawler, check, every=_INTERVAL_SECS)
        return cls()
