"""The parts of a process that take URLs from the frontier, fetch them and complete them."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from scrapy import Spider

from webcrawl.clock import now
from webcrawl.crawl.completion import Completion
from webcrawl.crawl.dispatcher import Dispatcher
from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.crawl.lease.host_release import HostRelease
from webcrawl.crawl.lease.lease_requests import LeaseRequests
from webcrawl.crawl.lease.request_codec import RequestCodec
from webcrawl.crawl.lease.services import ProcessServices
from webcrawl.crawl.links.submission import LinkSubmitter
from webcrawl.crawl.task.hub_request import HubRequest
from webcrawl.crawl.task.page_reader import PageReader
from webcrawl.crawl.task.page_visit import PageVisit
from webcrawl.crawl.task.robots_fetch import RobotsFetch
from webcrawl.crawl.task.side_downloads import SideDownloads
from webcrawl.crawl.task.subresource import Subresource
from webcrawl.crawl.task.task import Tasks
from webcrawl.frontier import ASIDE, HUB, ROBOTS_REDIRECT, SUBRESOURCE


class Leases:
    """Parts of one process that handle leases.

    reader: makes Pages of responses, and submits their links.
    codec: stores ordinary Requests as entries of the frontier.
    requests: makes Requests for leases.
    tasks: what leases are for.
    dispatcher, completion: hand out leases and complete them.
    side_downloads: requests that bypass the scheduler and wait for their host's turn.
    hub_requests: requests to WebSub hubs.
    items: the time limit for pages in processing modules.
    """

    def __init__(
        self,
        *,
        services: ProcessServices,
        links: LinkSubmitter,
        wake: Callable[[], None],
        is_temporary: bool,
        reader: PageReader,
    ) -> None:
        crawler = services.crawler
        key_of = services.rules.key_of
        # Without a JOBDIR, Requests wait in memory. In a hive, they must have a plain form.
        self.codec = RequestCodec(
            spider=cast("Spider", crawler.spider),
            stats=crawler.stats,
            fingerprinter=crawler.request_fingerprinter,
            key_of=key_of,
            comparison_form=links.comparison_form,
            in_memory=is_temporary,
            only_plain=services.shards.remote is not None,
        )
        self.side_downloads = SideDownloads(
            shards=services.shards, key_of=key_of, stats=crawler.stats, clock=now
        )
        self.items = reader.items
        self.requests = LeaseRequests(crawler=crawler, codec=self.codec, items=self.items)
        self.reader = reader
        self.hub_requests = HubRequest(requests=self.requests, stats=crawler.stats)
        host_release = HostRelease(services=services, wake=wake)
        robots = RobotsFetch(
            requests=self.requests,
            host_release=host_release,
            shards=services.shards,
            rules=services.rules.hosts,
        )
        # Shared by the completion, which changes it, and the task of subresources, which reads it.
        under_way: dict[int, Fetch] = {}
        self.tasks = self._build_tasks(services, under_way, robots)
        self.completion = Completion(
            services=services,
            host_release=host_release,
            requests=self.requests,
            tasks=self.tasks,
            under_way=under_way,
        )
        self.dispatcher = Dispatcher(
            services=services,
            completion=self.completion,
            links=links,
            tasks=self.tasks,
            robots=robots,
        )

    def _build_tasks(
        self, services: ProcessServices, under_way: dict[int, Fetch], robots: RobotsFetch
    ) -> Tasks:
        """Build the tasks of leases; *under_way* has the contacts in process."""
        stats = services.crawler.stats
        return Tasks(
            page=PageVisit(
                reader=self.reader,
                requests=self.requests,
                outcome_log=services.outcome_log,
                reading=services.reading,
                stats=stats,
                visits=services.visits,
                renderer=services.renderer,
            ),
            others={
                ROBOTS_REDIRECT: robots,
                ASIDE: self.side_downloads,
                HUB: self.hub_requests,
                SUBRESOURCE: Subresource(
                    renderer=services.renderer,
                    reader=self.reader,
                    requests=self.requests,
                    items=self.items,
                    outcome_log=services.outcome_log,
                    stats=stats,
                    under_way=under_way,
                ),
            },
        )

    def close_side_downloads(self) -> None:
        """Refuse all side downloads, because the crawl is closing.

        Pages that may have waited for one are put back, so that the next run fetches and processes
        them again.
        """
        if self.side_downloads:
            self.completion.put_back_pages()
        self.side_downloads.close()
