"""The one resolver of a crawler.

Scrapy builds a download handler per scheme, and others look up names as well: they share a cache
and the coalescing of look-ups, which is why the resolver belongs to none of them.

Invariant: every caller within a crawler gets the same resolver, and it is closed when the engine
stops; its counts are in the stats as ``dns/...`` when the spider closes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy import signals

from webcrawl.net.dns.resolver import Resolver

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

_resolvers: WeakKeyDictionary[Crawler, Resolver] = WeakKeyDictionary()


def resolver_of(crawler: Crawler) -> Resolver:
    """Return the resolver of *crawler*, made from its settings by the first call.

    Raises FatalError with one sentence for a setting that cannot work.
    """
    resolver = _resolvers.get(crawler)
    if resolver is None:
        resolver = _resolvers[crawler] = Resolver.from_settings(crawler.settings)

        def spider_closed() -> None:
            assert crawler.stats is not None
            for name, count in resolver.counts().items():
                crawler.stats.set_value(f"dns/{name}", count)

        # Not weakly: nothing else holds these receivers.
        crawler.signals.connect(spider_closed, signal=signals.spider_closed, weak=False)
        crawler.signals.connect(resolver.close, signal=signals.engine_stopped, weak=False)
    return resolver
