"""The parts of a process that take URLs from the frontier, fetch them and complete them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from webcrawl.clock import now
from webcrawl.crawl.lease.completion import Completion
from webcrawl.crawl.lease.dispatcher import Dispatcher
from webcrawl.crawl.lease.host_release import HostRelease
from webcrawl.crawl.lease.item_limit import ItemLimit
from webcrawl.crawl.lease.lease_requests import LeaseRequests
from webcrawl.crawl.lease.request_codec import RequestCodec
from webcrawl.crawl.lease.side_downloads import SideDownloads

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Spider

    from webcrawl.crawl.lease.services import ProcessServices
    from webcrawl.crawl.links.submission import LinkSubmitter


class Leases:
    """Parts of one process that handle leases.

    codec: stores ordinary Requests as entries of the frontier.
    requests: makes Requests for leases.
    dispatcher, completion: hand out leases and complete them.
    side_downloads: requests that bypass the scheduler and wait for their host's turn.
    items: the time limit for pages in processing modules.
    """

    def __init__(
        self,
        *,
        services: ProcessServices,
        links: LinkSubmitter,
        wake: Callable[[], None],
        is_temporary: bool,
    ) -> None:
        crawler, key_of = services.crawler, services.rules.key_of
        self.codec = RequestCodec(
            spider=cast("Spider", crawler.spider),
            stats=crawler.stats,
            fingerprinter=crawler.request_fingerprinter,
            key_of=key_of,
            comparison_form=links.comparison_form,
            in_memory=is_temporary,
            only_plain=services.shards.remote is not None,
        )
        self.side_downloads = SideDownloads(shards=services.shards, key_of=key_of, clock=now)
        self.items = ItemLimit(clock=now, crawler=crawler)
        self.requests = LeaseRequests.from_crawler(crawler, codec=self.codec, items=self.items)
        self.completion = Completion(
            services=services,
            host_release=HostRelease(services=services, wake=wake),
            requests=self.requests,
        )
        self.dispatcher = Dispatcher(
            services=services,
            side_downloads=self.side_downloads,
            requests=self.requests,
            completion=self.completion,
            links=links,
        )

    def close_side_downloads(self) -> None:
        """Refuse all side downloads, because the crawl is closing.

        Pages that may have waited for one are put back, so that the next run fetches and processes
        them again.
        """
        if self.side_downloads:
            self.completion.put_back_pages()
        self.side_downloads.close()
