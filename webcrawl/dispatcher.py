"""One URL from the frontier to the engine and back.

``dispatch`` turns a lease into the Request for the URL, or for its host's robots.txt first, or
into nothing when robots.txt forbids it. The downloader gives the host back by way of
``Fetch.release``; when the engine is through with the request, ``done`` finishes the URL, lets
it be tried again, or puts it back.

The invariant: a URL is finished only when everything that came of it (links, requests, retries)
is on disk. After a log could not be written that is uncertain, so nothing is finished any more.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import msgspec
from scrapy import Request
from scrapy.utils.log import failure_to_exc_info

from webcrawl.fetch import Fetch, fetch_of
from webcrawl.frontier.politeness import cut_off
from webcrawl.net.outcomes import is_transient, outcome_of
from webcrawl.prelude import Verdict
from webcrawl.request_codec import LostRequestError

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector
    from twisted.python.failure import Failure

    from webcrawl.ending import Ending
    from webcrawl.frontier import DelayPolicy, Frontier, Lease
    from webcrawl.prelude import HostPrelude
    from webcrawl.request_codec import RequestCodec
    from webcrawl.seen.content import ContentSeen

logger = logging.getLogger(__name__)

# The frontier retries, and redirects are links: Scrapy's middlewares must stay out of it.
_LINK_META = {"dont_retry": True, "dont_redirect": True, "verbatim_url": True}


class Dispatcher:
    """Knows what goes on with every lease. *ending* is told when a log could not be written: then
    nothing that matters has been lost, but the crawl must end."""

    def __init__(
        self,
        *,
        frontier: Frontier,
        prelude: HostPrelude,
        content: ContentSeen,
        codec: RequestCodec,
        stats: StatsCollector,
        retry_times: int,
        max_crawl_delay: float,
        delay: DelayPolicy,
        ending: Ending,
    ) -> None:
        self._frontier = frontier
        self._prelude = prelude
        self._content = content
        self._codec = codec
        self._stats = stats
        self._retry_times = retry_times
        self._max_crawl_delay = max_crawl_delay
        self._delay = delay
        self._ending = ending
        # The contacts that are not done, by the ids of their leases.
        self._under_way: dict[int, Fetch] = {}
        self._warned = False

    def dispatch(self, lease: Lease) -> Request | None:
        """The Request to send for *lease*; None when there is nothing to send."""
        entry = lease.entry
        verdict = self._prelude.decide(entry.url)
        if verdict is Verdict.FETCH:
            return self._request(lease, refusal="")
        if verdict is Verdict.FETCH_ROBOTS:
            # The URL goes back to the head of its queue: only the host is in process now.
            self._frontier.put_back(lease)
            url = self._prelude.robots_url(entry.url)
            request = Request(
                url,
                callback=_ignore,
                errback=self._unforeseen,
                meta=_LINK_META,
                dont_filter=True,
            )
            return self._bound(request, self._fetch(lease, robots_url=url))
        denied = verdict is Verdict.DENIED
        refusal = "robots_denied" if denied else self._prelude.outcome(entry.url)
        if entry.extra:
            return self._request(lease, refusal=refusal)
        self._stats.inc_value(f"outcome/{refusal}")
        self._give_up(lease)
        return None

    def adopt(self, request: Request) -> Request | None:
        """What to enqueue for *request*, which a spider or a middleware wants to be fetched.

        A middleware may have put it in the place of one of the crawler's own. In place of a
        robots.txt: None, the host prelude asks again by itself. In place of a link: without the
        link's errback, which is nothing to be saved, and free to be retried by Scrapy.
        """
        if request.callback is _ignore:
            return None
        if request.errback == self._unforeseen:
            meta = {name: value for name, value in request.meta.items() if name != "dont_retry"}
            return request.replace(errback=None, meta=meta)
        return request

    def done(self, request: Request) -> None:
        """The engine is through with *request*, in whatever way it ended."""
        fetch = fetch_of(request)
        if fetch is None:
            return
        fetch.end_download()
        self._under_way.pop(fetch.lease.id, None)
        if not fetch.expired and not fetch.robots_url:
            try:
                self._finish(fetch)
            except Exception as error:  # noqa: BLE001  # the URL would stay leased
                self._ending.fail(error)
        # The answer leads back here by its request: a page must not wait for the garbage
        # collector to be freed. And a later request may get the id of this one.
        fetch.response = None
        fetch.request_id = 0

    def expire(self, older_than: float) -> None:
        """Take back leases that nobody gave back within *older_than* seconds."""
        for lease in self._frontier.expire(older_than):
            fetch = self._under_way.pop(lease.id, None)
            if fetch is not None:  # else it is done, but for a log that could not be written
                fetch.expired = True
                # The next one to fetch this URL must not find its document in process.
                self._discard_content(fetch)
            self._stats.inc_value("scheduler/expired")
            logger.error("Nobody gave %s back: it returns to its queue", lease.entry.url)

    def _fetch(self, lease: Lease, *, robots_url: str = "", refusal: str = "") -> Fetch:
        return Fetch(
            lease=lease,
            release=self._release,
            clock=time.monotonic,
            robots_url=robots_url,
            refusal=refusal,
        )

    def _bound(self, request: Request, fetch: Fetch) -> Request:
        """*request* with its *fetch*."""
        request.meta["fetch"] = fetch
        fetch.request_id = id(request)
        self._under_way[fetch.lease.id] = fetch
        return request

    def _request(self, lease: Lease, *, refusal: str) -> Request | None:
        """The Request for the URL itself. With a *refusal* nothing is sent: the downloader fails
        it with IgnoreRequest, since an ordinary Request may have an errback that waits for it."""
        entry = lease.entry
        if not entry.extra:
            meta = {"depth": entry.depth, **_LINK_META}
            request = Request(entry.url, errback=self._unforeseen, meta=meta, dont_filter=True)
            return self._bound(request, self._fetch(lease))
        try:
            request = self._codec.unpack(entry.extra)
        except LostRequestError as error:
            logger.warning("The request for %s is lost: %s", entry.url, error)
            self._stats.inc_value("scheduler/lost")
            self._give_up(lease)
            return None
        return self._bound(request, self._fetch(lease, refusal=refusal))

    def _unforeseen(self, failure: Failure) -> None:
        """Errback of the crawler's own requests. Outcomes are counted by ``done``; an exception
        that nobody foresaw is an error of the program and shown, the first time."""
        if outcome_of(failure) != "other" or self._warned:
            return
        self._warned = True
        logger.error(
            "A download or a middleware raised an unforeseen exception; no more of these will be "
            "logged, see the stat outcome/other",
            exc_info=failure_to_exc_info(failure),
        )

    def _give_up(self, lease: Lease) -> None:
        """Finish a URL without a contact."""
        self._frontier.release(lease.entry.host, rest=0.0)
        self._frontier.finish(lease)

    def _release(self, fetch: Fetch) -> None:
        """The download of *fetch* is over: its host's pause begins."""
        if fetch.expired:
            return
        try:
            if fetch.robots_url and fetch.outcome:
                self._learn(fetch)
            pause = max(self._prelude.crawl_delay(fetch.lease.entry.url), _retry_after(fetch))
            pause = min(pause, self._max_crawl_delay)
            rest = max(cut_off(self._delay, fetch.took), pause) if fetch.reached_host else pause
            self._frontier.release(
                fetch.lease.entry.host,
                rest=rest,
                least=pause if fetch.reached_host else None,
            )
        except Exception as error:  # noqa: BLE001  # the host would stay in process
            self._ending.fail(error)

    def _learn(self, fetch: Fetch) -> None:
        """*fetch* was for a robots.txt."""
        self._prelude.answered(fetch.lease.entry.url, fetch.outcome, fetch.response)
        self._stats.inc_value(f"robots/{fetch.outcome}")
        self._stats.set_value("robots/origins", self._prelude.settled)

    def _finish(self, fetch: Fetch) -> None:
        lease, entry = fetch.lease, fetch.lease.entry
        if fetch.abandoned or not fetch.outcome or self._ending.has_begun:
            self._discard_content(fetch)
            self._frontier.put_back(lease)
            return
        if fetch.response is not None:
            body = fetch.response.meta.get("wire_body", fetch.response.body)
            self._stats.inc_value("fetch/bytes", len(body))
        outcome = fetch.outcome
        if is_transient(outcome) and entry.attempts < self._retry_times and not entry.extra:
            self._stats.inc_value(f"retry/{outcome}")
            self._frontier.requeue(msgspec.structs.replace(entry, attempts=entry.attempts + 1))
        else:
            self._stats.inc_value(f"outcome/{outcome}")
        if fetch.unprocessed:
            self._discard_content(fetch)
        if fetch.content_fingerprint is None:
            self._frontier.finish(lease)
        else:
            self._frontier.finish(lease, note=fetch.content_fingerprint.to_bytes(8, "little"))
            self._content.commit(fetch.content_fingerprint)
        if entry.extra:
            self._codec.forget(entry.extra)

    def _discard_content(self, fetch: Fetch) -> None:
        if fetch.content_fingerprint is not None:
            self._content.discard(fetch.content_fingerprint)
            fetch.content_fingerprint = None


def _ignore(_: object) -> None:
    """Callback of a robots.txt, whose answer ``_release`` reads off the Fetch."""


def _retry_after(fetch: Fetch) -> float:
    """Seconds that a 429 or 503 asks us to stay away; 0 without such a wish."""
    if fetch.response is None or fetch.response.status not in {429, 503}:
        return 0.0
    value = fetch.response.headers.get(b"Retry-After") or b""
    return float(value) if value.isdigit() and len(value) < 10 else 0.0
