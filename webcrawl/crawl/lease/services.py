"""Rules and services shared by all contacts of a process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webcrawl.urls import host_of
from webcrawl.urls.registered_domain import POLITENESS_KEYS

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from webcrawl.crawl.engine.stop import CrawlStop
    from webcrawl.crawl.lease.outcome_log import OutcomeLog
    from webcrawl.crawl.links.reading import ReadingWatch
    from webcrawl.crawl.shard.live_settings import LiveSettings
    from webcrawl.crawl.shard.shards import Shards
    from webcrawl.crawl.task.renderer import Renderer
    from webcrawl.hosts.host_rules import HostRules
    from webcrawl.hosts.politeness.outage import Outage
    from webcrawl.hosts.politeness.pauses import Pauses
    from webcrawl.hosts.retry_policy import RetryPolicy
    from webcrawl.net.rates import Rates
    from webcrawl.revisit.visits import Visits


@dataclass(frozen=True, kw_only=True)
class ContactRules:
    """Rules for contacts with hosts, shared by all shards. *key* is POLITENESS_KEY."""

    key: str
    hosts: HostRules
    pauses: Pauses
    outage: Outage
    retries: RetryPolicy
    rates: Rates

    @property
    def key_of(self) -> Callable[[str], str]:
        """Return a function that returns the politeness key of a URL."""
        key_of_host = POLITENESS_KEYS[self.key]
        return lambda url: key_of_host(host_of(url))

    @property
    def shares_clocks(self) -> bool:
        """Return whether pauses also apply per IP address, to all hosts that share it."""
        return self.key == "address"


@dataclass(frozen=True, kw_only=True)
class ProcessServices:
    """Services shared by all contacts, in any shard.

    *visits* schedules repeat visits; None in a crawl without them. *live* holds the settings that
    can change during the crawl. *renderer* is None in a crawl that renders no pages.
    """

    crawler: Crawler
    shards: Shards
    rules: ContactRules
    outcome_log: OutcomeLog
    reading: ReadingWatch
    stop: CrawlStop
    visits: Visits | None
    live: LiveSettings
    renderer: Renderer | None
