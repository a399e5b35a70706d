"""Makes the Request for the URL of a lease, or for its host's robots.txt.

Called by dispatcher.py. Scrapy's middlewares neither retry links nor follow their redirects: the
frontier retries them, and treats redirects as links. Ordinary Requests are restored as they were,
see request_codec.py. The rules of a robots.txt are stored when its host is released
(host_release.py); its callback only passes its Page on.
"""

from __future__ import annotations

import logging
from typing import Any

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.utils.log import failure_to_exc_info
from twisted.python.failure import Failure

from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.crawl.lease.item_limit import ItemLimit
from webcrawl.crawl.lease.page_builder import page_of
from webcrawl.crawl.lease.request_codec import LostRequestError, RequestCodec
from webcrawl.crawl.links.link_extractor import SITEMAP_MAX_BYTES
from webcrawl.crawl.links.submission import SITEMAP
from webcrawl.frontier import Entry
from webcrawl.hosts.robots.grammar import MAX_BYTES
from webcrawl.net.http.large_bodies import LARGE_BODY, LargeBodies, Permit
from webcrawl.net.limits import page_max_bytes
from webcrawl.net.outcomes import outcome_of
from webcrawl.rights.policy import TDM_PATH
from webcrawl.signals import ROBOTS, has_receivers, unforeseen, unprocessed

logger = logging.getLogger(__name__)

#: Size limit of a robots.txt, regardless of PAGE_MAX_BYTES, because a truncated file would allow
#: too much. The extra byte shows the parser that the last line is incomplete.
ROBOTS_MAX_BYTES = MAX_BYTES + 1
_LINK_META = {"dont_retry": True, "dont_redirect": True, "verbatim_url": True}
# Maximum number of sitemaps and pages over 1 MiB that are downloaded at the same time. Each may be
# in memory three times: as received, decoded and stored.
_SITEMAPS_AT_ONCE = 4
_PAGES_AT_ONCE = 16
# How long a large body waits for a permit. Must be shorter than the time after which a silent
# server is given up (NET_MIN_RATE_SECS).
_PATIENCE_SECS = 10.0


class LeaseRequests:
    """Makes Requests for leases, and forgets them once they are finished."""

    def __init__(self, *, crawler: Crawler, codec: RequestCodec, items: ItemLimit) -> None:
        """Create it; any page but a sitemap may have up to PAGE_MAX_BYTES.

        The limit applies to the body as received, and again to the decoded body. Raises FatalError
        if the setting is invalid.
        """
        self._signals = crawler.signals
        self._stats = crawler.stats
        self._codec = codec
        self._items = items
        self._large_sitemaps = LargeBodies(
            max_bytes=SITEMAP_MAX_BYTES, at_once=_SITEMAPS_AT_ONCE, patience=_PATIENCE_SECS
        )
        self._large_pages = LargeBodies(
            max_bytes=page_max_bytes(crawler.settings),
            at_once=_PAGES_AT_ONCE,
            patience=_PATIENCE_SECS,
        )
        # Whether an unexpected exception was logged.
        self._warned = False
        # The same object for all Requests, because Scrapy caches facts about each callback object.
        self._robots_callback = self._robots

    def for_robots(self, url: str) -> Request:
        """Return the Request for the robots.txt *url*."""
        # With ``handle_httpstatus_all``, modules get the response whatever its status is.
        meta = {
            **_LINK_META, "download_maxsize": ROBOTS_MAX_BYTES, "handle_httpstatus_all": True
        }  # fmt: skip
        return Request(
            url, callback=self._robots_callback, errback=self.failed, meta=meta, dont_filter=True
        )

    async def _robots(self, response: Response, **_: Any) -> list[Any]:
        """Send the signal ``unprocessed`` with the robots.txt in *response*, as its callback."""
        if has_receivers(self._signals, unprocessed):
            fetch: Fetch = response.meta["fetch"]
            page = page_of(response, fetch)
            page.kind = "tdmrep" if page.url.endswith(TDM_PATH) else ROBOTS
            page.via = fetch.robots_for
            await self._items.hand_over(page, fetch, ROBOTS)
        return []

    def for_link(self, entry: Entry, headers: dict[str, str], method: str = "GET") -> Request:
        """Return the Request for the URL of *entry*, with *headers* and *method*."""
        meta = {"depth": entry.depth, **_LINK_META, LARGE_BODY: self._permit(entry)}
        return Request(
            entry.url,
            method=method,
            headers=headers,
            errback=self.failed,
            meta=meta,
            dont_filter=True,
        )

    def for_spider(self, entry: Entry) -> Request | None:
        """Return the ordinary Request stored in *entry*.

        None if a restart has lost it, or it must not be decoded.
        """
        try:
            request = self._codec.unpack(entry.extra)
        except LostRequestError as error:
            return self._lost(entry, error)
        # The URL of the entry has determined the host, its robots.txt and its pause.
        if request.url != entry.url:
            return self._lost(entry, LostRequestError(f"it is a request for {request.url}"))
        if "download_maxsize" not in request.meta:  # the spider has set no limit of its own
            request.meta[LARGE_BODY] = self._permit(entry)
        return request

    def _lost(self, entry: Entry, error: LostRequestError) -> Request | None:
        logger.warning("The request for %s is lost: %s", entry.url, error)
        self._stats.inc_value(error.stat)
        return None

    def _permit(self, entry: Entry) -> Permit:
        """Return the permit with which the response for *entry* may have a large body."""
        return (self._large_sitemaps if entry.kind == SITEMAP else self._large_pages).permit()

    def adopt(self, request: Request) -> Request:
        """Return the Request to enqueue for *request*, which came from a spider or a middleware.

        If a middleware has made it from a link, it must not keep the link's errback, which cannot
        be saved, nor the flag that keeps Scrapy from retrying it.
        """
        if request.errback == self.failed:  # only Requests for links have this errback
            meta = {name: value for name, value in request.meta.items() if name != "dont_retry"}
            return request.replace(errback=None, meta=meta)
        return request

    def done(self, request: Request) -> None:
        """Give back the permit of *request*, because the engine has finished with it."""
        permit: Permit | None = request.meta.get(LARGE_BODY)
        if permit is not None:
            permit.give_back()

    def forget(self, entry: Entry) -> None:
        """Forget the stored Request of *entry*, which is finished."""
        if entry.extra:
            self._codec.forget(entry.extra)

    def failed(self, failure: Failure) -> None:
        """Log the first unexpected exception; the errback of the crawler's own requests.

        Expected failures are counted by completion.py. Any other exception is a bug in the program.
        """
        if outcome_of(failure) != "other":
            return
        url = getattr(getattr(failure, "request", None), "url", "")
        self._signals.send_catch_log(unforeseen, url=url, failure=failure)
        if self._warned:
            return
        self._warned = True
        logger.error(
            "A download or a middleware raised an unexpected exception; further ones are not "
            "logged, but counted in the stat outcome/other",
            exc_info=failure_to_exc_info(failure),
        )
