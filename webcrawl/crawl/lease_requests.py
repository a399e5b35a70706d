"""The Request that goes to Scrapy's engine for a lease.

Made by the dispatcher on the lease's way out. Links are asked for as they stand: the frontier tries
again, and redirects are links, so Scrapy's middlewares leave both alone. Ordinary Requests come
back as they were, see request_codec.py.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from scrapy import Request
from scrapy.utils.log import failure_to_exc_info

from webcrawl.crawl.request_codec import LostRequestError
from webcrawl.hosts.robots.grammar import MAX_BYTES
from webcrawl.net.outcomes import outcome_of
from webcrawl.signals import unforeseen

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from twisted.python.failure import Failure

    from webcrawl.crawl.request_codec import RequestCodec
    from webcrawl.crawl.sitemaps import Sitemaps
    from webcrawl.frontier import Entry

logger = logging.getLogger(__name__)

_LINK_META: Final = {"dont_retry": True, "dont_redirect": True, "verbatim_url": True}


class LeaseRequests:
    """Makes and ends them."""

    def __init__(self, *, crawler: Crawler, codec: RequestCodec, sitemaps: Sitemaps) -> None:
        self._signals = crawler.signals
        self._stats = crawler.stats
        self._codec = codec
        self._sitemaps = sitemaps
        self._warned = False

    def for_robots(self, url: str) -> Request:
        """For the robots.txt *url*."""
        # Whatever PAGE_MAX_BYTES is: half a robots.txt allows too much. With a byte more its reader
        # sees that the last line is not whole.
        meta = {**_LINK_META, "download_maxsize": MAX_BYTES + 1}
        return Request(url, callback=_ignore, errback=self._unforeseen, meta=meta, dont_filter=True)

    def for_entry(self, entry: Entry) -> Request | None:
        """For the URL of *entry*; None for a Request that a restart has lost."""
        if not entry.extra:
            meta = {"depth": entry.depth, **_LINK_META, **self._sitemaps.meta(entry)}
            return Request(entry.url, errback=self._unforeseen, meta=meta, dont_filter=True)
        try:
            request = self._codec.unpack(entry.extra)
        except LostRequestError as error:
            logger.warning("The request for %s is lost: %s", entry.url, error)
            self._stats.inc_value("scheduler/lost")
            return None
        if "download_maxsize" not in request.meta:
            request.meta.update(self._sitemaps.meta(entry))
        return request

    def adopt(self, request: Request) -> Request | None:
        """What to enqueue for *request*, which a spider or a middleware wants to be fetched.

        A middleware may have put it in the place of one of the crawler's own. In place of a
        robots.txt: None, which is asked for again anyway. In place of a link: without the
        link's errback, which is nothing to be saved, and free to be retried by Scrapy.
        """
        if request.callback is _ignore:
            return None
        if request.errback == self._unforeseen:
            meta = {name: value for name, value in request.meta.items() if name != "dont_retry"}
            return request.replace(errback=None, meta=meta)
        return request

    def done(self, request: Request) -> None:
        """The engine is through with *request*."""
        self._sitemaps.done(request)

    def forget(self, entry: Entry) -> None:
        """*entry* is finished."""
        if entry.extra:
            self._codec.forget(entry.extra)

    def _unforeseen(self, failure: Failure) -> None:
        """Errback of the crawler's own requests. Outcomes are counted by completion.py; an
        exception of no known kind is an error of the program and shown, the first time."""
        if outcome_of(failure) != "other":
            return
        url = getattr(getattr(failure, "request", None), "url", "")
        self._signals.send_catch_log(unforeseen, url=url, failure=failure)
        if self._warned:
            return
        self._warned = True
        logger.error(
            "A download or a middleware raised an unforeseen exception; no more of these will be "
            "logged, see the stat outcome/other",
            exc_info=failure_to_exc_info(failure),
        )


def _ignore(_: object) -> None:
    """Callback of a robots.txt, whose answer completion.py reads off the Fetch."""
