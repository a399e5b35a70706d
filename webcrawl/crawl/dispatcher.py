"""One URL from the frontier to the engine and back.

``dispatch`` turns a lease into the Request for the URL, or for its host's robots.txt first, or
into nothing when the host must be looked up, must wait, or is to be let alone. The downloader gives
the host back by way of ``Fetch.release``, see completion.py; when the engine is through with the
request, ``done`` finishes the URL, lets it be tried again, or puts it back.

The invariant: a URL is finished only when everything that came of it (links, requests, retries)
is on disk. After a log could not be written that is uncertain, so nothing is finished any more.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.utils.log import failure_to_exc_info

from webcrawl.crawl.completion import Aftermath, Retries
from webcrawl.crawl.fetch import Fetch, fetch_of
from webcrawl.crawl.request_codec import LostRequestError
from webcrawl.frontier import ASIDE, ERRAND, NO_URLS, Entry
from webcrawl.hosts.politeness.preconditions import Decision, Verdict
from webcrawl.hosts.retry_policy import BUG
from webcrawl.hosts.robots.grammar import MAX_BYTES
from webcrawl.net.guard import plain_address
from webcrawl.net.outcomes import PERMANENT, REDIRECTS, error_of, outcome_of
from webcrawl.signals import unforeseen
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.python.failure import Failure

    from webcrawl.crawl.host_knowledge import HostKnowledge
    from webcrawl.crawl.outcome_log import OutcomeLog
    from webcrawl.crawl.reading import ReadingWatch
    from webcrawl.crawl.request_codec import RequestCodec
    from webcrawl.crawl.side_downloads import SideDownloads
    from webcrawl.crawl.sitemaps import Sitemaps
    from webcrawl.crawl.stop import CrawlStop
    from webcrawl.frontier import Frontier, Lease
    from webcrawl.frontier.admission import Admission
    from webcrawl.seen.content import ContentSeen

logger = logging.getLogger(__name__)

# The frontier retries, and redirects are links: Scrapy's middlewares must stay out of it.
# A contact that has been on the wire for so long keeps its worker from others.
_SLOW_SECS = 3.0
_LINK_META = {"dont_retry": True, "dont_redirect": True, "verbatim_url": True}


class Dispatcher:
    """Knows what goes on with every lease. *stop* is told when a log could not be written: then
    nothing that matters has been lost, but the crawl must end.

    *wake* is called when a host that was looked up is ready.
    """

    def __init__(
        self,
        *,
        crawler: Crawler,
        frontier: Frontier,
        hosts: HostKnowledge,
        admission: Admission,
        side_downloads: SideDownloads,
        content: ContentSeen,
        codec: RequestCodec,
        outcome_log: OutcomeLog,
        sitemaps: Sitemaps,
        reading: ReadingWatch,
        stop: CrawlStop,
        wake: Callable[[], None],
    ) -> None:
        self._signals = crawler.signals
        self._stats = crawler.stats
        self._frontier = frontier
        self._hosts = hosts
        self._admission = admission
        self._side_downloads = side_downloads
        self._content = content
        self._codec = codec
        self._outcome_log = outcome_log
        self._aftermath = Aftermath(
            frontier=frontier, hosts=hosts, stats=crawler.stats, reading=reading, stop=stop
        )
        self.retries = Retries(frontier=frontier, stats=crawler.stats, policy=hosts.retries)
        self._sitemaps = sitemaps
        self._reading = reading
        self._stop = stop
        self._wake = wake
        # The contacts that are not done, by the ids of their leases.
        self._under_way: dict[int, Fetch] = {}
        # The hosts in process that are being looked up, by the ids of the leases put back.
        self._looked_up: dict[int, str] = {}
        self._warned = False

    @property
    def in_process(self) -> int:
        """Contacts under way, and pages of such that are being processed."""
        return len(self._under_way)

    @property
    def fetching_robots(self) -> int:
        """How many of them are for a robots.txt."""
        return sum(bool(fetch.robots_url) for fetch in self._under_way.values())

    @property
    def slow(self) -> int:
        """How many of them have been on the wire for some seconds."""
        sent_before = time.monotonic() - _SLOW_SECS
        return sum(
            not fetch.released and fetch.sent_at is not None and fetch.sent_at < sent_before
            for fetch in self._under_way.values()
        )

    @property
    def looking_up(self) -> int:
        """Hosts in process that no worker is spent on, because they are being looked up."""
        return len(self._looked_up)

    def dispatch(self, lease: Lease) -> Request | None:
        """The Request to send for *lease*; None when there is nothing to send now."""
        entry = lease.entry
        if not self._is_wanted(entry):
            self._give_up(lease)
            return None
        if entry.kind not in NO_URLS and (reason := self._admission.stops(entry)):
            self._frontier.park_leased(lease, reason)
            self._frontier.release(entry.host, rest=0.0)
            return None
        if self._reading.is_poison(entry.url) and entry.kind not in NO_URLS:
            request = self._refuse(lease, "poison")
            self._reading.set_aside(entry.url)
            return request
        decision = self._hosts.prelude.decide(entry)
        self._sitemaps.submit_named(entry)
        match decision.verdict:
            case Verdict.FETCH | Verdict.FETCH_ROBOTS:
                return self._contact(lease, decision)
            case Verdict.REFUSE:
                return self._refuse(lease, decision.outcome)
            case Verdict.RETRY:
                self._stats.inc_value(f"retry/{decision.outcome}")
                self._wait(lease, self._aftermath.lookup_failed(entry, decision))
            case Verdict.RESOLVE:
                self._look_up(lease)
            case Verdict.WAIT:
                self._wait(lease, decision.secs, behind=self._aftermath.errand(entry.url))
        return None

    def _is_wanted(self, entry: Entry) -> bool:
        """False when who waited for it is gone, or has begun anew and sent another errand."""
        if entry.kind == ASIDE:
            return entry.via in self._side_downloads
        return entry.kind != ERRAND or self._hosts.robots.errand(entry.via) == entry.url

    def _contact(self, lease: Lease, decision: Decision) -> Request | None:
        address = decision.address if self._hosts.shares_clocks else ""
        if address:
            secs = self._frontier.claim(lease, plain_address(address))
            if secs:
                self._wait(lease, secs)
                return None
        self._hosts.outage.probed()
        entry = lease.entry
        # A host without a queue for a while is unknown to the frontier, and if this process dies
        # now nobody would ask the host's record.
        delay = self._hosts.robots.crawl_delay(entry.url)
        self._frontier.promise(
            entry.host, self._hosts.politeness.least(entry.host, entry.url, crawl_delay=delay)
        )
        if entry.kind == ERRAND:
            return self._robots_request(lease, entry.url, address)
        if entry.kind == ASIDE and decision.verdict is Verdict.FETCH:
            self._give_turn(lease, address)
            return None
        if decision.verdict is Verdict.FETCH:
            return self._request(lease, address=address)
        # The URL goes back to the head of its queue: only the host is in process now.
        self._frontier.put_back(lease)
        return self._robots_request(lease, self._hosts.robots.robots_url(entry.url), address)

    def _robots_request(self, lease: Lease, url: str, address: str) -> Request:
        # Whatever PAGE_MAX_BYTES is: half a robots.txt allows too much. With a byte more its reader
        # sees that the last line is not whole.
        meta = {**_LINK_META, "download_maxsize": MAX_BYTES + 1}
        request = Request(
            url, callback=_ignore, errback=self._unforeseen, meta=meta, dont_filter=True
        )
        return self._bound(request, self._fetch(lease, robots_url=url, address=address))

    def _give_turn(self, lease: Lease, address: str) -> None:
        """The host is in process for somebody who asked the engine for a download."""
        fetch = self._fetch(lease, address=address)
        self._under_way[lease.id] = fetch
        if not self._side_downloads.give(lease.entry.via, fetch):
            del self._under_way[lease.id]
            self._give_up(lease)

    def _give_up(self, lease: Lease) -> None:
        """Nothing was sent, and nothing more will be."""
        self._frontier.release(lease.entry.host, rest=0.0)
        self._frontier.finish(lease)

    def _wait(self, lease: Lease, secs: float, *, behind: Entry | None = None) -> None:
        """Nothing is sent: the URL goes back, and its host is looked at again in *secs*."""
        self._frontier.put_back(lease, behind=behind)
        self._frontier.release(lease.entry.host, rest=secs)

    def _look_up(self, lease: Lease) -> None:
        """The host stays in process, so that it is asked for once, and no worker waits for it."""
        assert self._hosts.addresses is not None
        self._hosts.outage.probed()
        self._frontier.put_back(lease)
        self._looked_up[lease.id] = lease.entry.host

        def done(failure: Exception | None) -> None:
            host = self._looked_up.pop(lease.id, None)
            if failure is not None:
                self._stop.fail(failure)
            if host is None or self._stop.has_begun:
                return
            self._aftermath.looked_up(host_of(lease.entry.url))
            try:
                self._frontier.release(host, rest=0.0)
            except Exception as error:  # noqa: BLE001  # the host would stay in process
                self._stop.fail(error)
            self._wake()

        self._hosts.addresses.look_up(host_of(lease.entry.url), done)

    def _refuse(self, lease: Lease, outcome: str) -> Request | None:
        """Nothing is asked of the host, and the URL has come to its end."""
        entry = lease.entry
        if entry.extra:
            return self._request(lease, refusal=outcome)
        if entry.kind == ERRAND:
            self._aftermath.learn(entry.via, outcome, None)
        elif entry.kind == ASIDE:
            self._side_downloads.refuse(entry.via, error_of(outcome)(f"{entry.url}: {outcome}"))
            self._stats.inc_value(f"aside/{outcome}")
        else:
            self._end(entry, outcome)
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
        self._sitemaps.done(request)
        self._under_way.pop(fetch.lease.id, None)
        if not fetch.expired and (not fetch.robots_url or fetch.lease.entry.kind == ERRAND):
            try:
                self._finish(fetch)
            except Exception as error:  # noqa: BLE001  # the URL would stay leased
                self._stop.fail(error)
        # The answer leads back here by its request: a page must not wait for the garbage
        # collector to be freed. And a later request may get the id of this one.
        fetch.response = None
        fetch.request_id = 0

    def close_side_downloads(self) -> None:
        """The crawl is being closed: no more turns are given. Pages whose processing may have
        waited for one go back, to be fetched and processed whole by the next run."""
        if self._side_downloads:
            for fetch in self._under_way.values():
                fetch.abandoned = True
        self._side_downloads.close()

    def expire(self, older_than: float) -> None:
        """Take back leases that nobody gave back within *older_than* seconds.

        Not those of pages that may be waiting for a turn of another host, which takes as long as
        politeness wants: they would be fetched again and again. A download under way is broken
        off: its host is no longer ours.
        """
        turns = self._side_downloads.idle_secs <= older_than

        def waits(lease: Lease) -> bool:
            fetch = self._under_way.get(lease.id)
            return turns and fetch is not None and fetch.released

        for lease in self._frontier.expire(older_than, spare=waits):
            self._looked_up.pop(lease.id, None)
            fetch = self._under_way.pop(lease.id, None)
            if fetch is not None:  # else it is done, but for a log that could not be written
                fetch.expired = True
                if fetch.abort is not None and not fetch.released:
                    fetch.abort()
                # The next one to fetch this URL must not find its document in process.
                self._discard_content(fetch)
                if not (fetch.robots_url or fetch.refusal or lease.entry.kind in NO_URLS):
                    self._hosts.ledger.put_back(lease.entry)
            self._stats.inc_value("scheduler/expired")
            logger.error("Nobody gave %s back: it returns to its queue", lease.entry.url)

    def _fetch(
        self, lease: Lease, *, address: str = "", robots_url: str = "", refusal: str = ""
    ) -> Fetch:
        return Fetch(
            lease=lease,
            release=self._aftermath.contact_ended,
            clock=time.monotonic,
            address=address,
            robots_url=robots_url,
            refusal=refusal,
        )

    def _bound(self, request: Request, fetch: Fetch) -> Request:
        """*request* with its *fetch*."""
        request.meta["fetch"] = fetch
        fetch.request_id = id(request)
        self._under_way[fetch.lease.id] = fetch
        return request

    def _request(self, lease: Lease, *, address: str = "", refusal: str = "") -> Request | None:
        """The Request for the URL itself. With a *refusal* nothing is sent: the downloader fails
        it, since an ordinary Request may have an errback that waits for it."""
        entry = lease.entry
        if not refusal:
            self._hosts.ledger.begun(entry)
        if not entry.extra:
            meta = {"depth": entry.depth, **_LINK_META, **self._sitemaps.meta(entry)}
            request = Request(entry.url, errback=self._unforeseen, meta=meta, dont_filter=True)
            return self._bound(request, self._fetch(lease, address=address))
        try:
            request = self._codec.unpack(entry.extra)
        except LostRequestError as error:
            logger.warning("The request for %s is lost: %s", entry.url, error)
            self._stats.inc_value("scheduler/lost")
            self._give_up(lease)
            return None
        if "download_maxsize" not in request.meta:
            request.meta.update(self._sitemaps.meta(entry))
        return self._bound(request, self._fetch(lease, address=address, refusal=refusal))

    def _unforeseen(self, failure: Failure) -> None:
        """Errback of the crawler's own requests. Outcomes are counted by ``done``; an exception
        that nobody foresaw is an error of the program and shown, the first time."""
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

    def _finish(self, fetch: Fetch) -> None:
        lease, entry = fetch.lease, fetch.lease.entry
        if fetch.abandoned or not fetch.outcome or self._stop.has_begun:
            self._discard_content(fetch)
            self._frontier.put_back(lease)
            if entry.kind not in NO_URLS and not fetch.refusal:
                self._hosts.ledger.put_back(entry)
            return
        if entry.kind in NO_URLS:
            if entry.kind == ASIDE:
                self._stats.inc_value(f"aside/{fetch.outcome}")
            self._frontier.finish(lease)
            return
        if fetch.response is not None:
            self._count_answer(fetch, fetch.response)
        if fetch.unprocessed:
            self._discard_content(fetch)
        if not self.retries.take(entry, BUG if fetch.raised else fetch.outcome):
            self._end(entry, fetch.outcome, fetch)
        if fetch.content_fingerprint is None:
            self._frontier.finish(lease)
        else:
            self._frontier.finish(lease, note=fetch.content_fingerprint.to_bytes(8, "little"))
            self._content.commit(fetch.content_fingerprint)
        if entry.extra:
            self._codec.forget(entry.extra)

    def _count_answer(self, fetch: Fetch, response: Response) -> None:
        self._stats.inc_value("fetch/bytes", fetch.received_bytes)
        self._hosts.ledger.received(fetch.lease.entry, fetch.received_bytes)
        if response.status in REDIRECTS:
            kind = "permanent" if response.status in PERMANENT else "temporary"
            self._stats.inc_value(f"redirects/{kind}")

    def _end(self, entry: Entry, outcome: str, fetch: Fetch | None = None) -> None:
        """*entry* has come to its end; told before the frontier is, see outcome_log.py."""
        line = self._hosts.robots.decided_by(entry.url) if outcome == "robots_denied" else ""
        self._outcome_log.finished(entry, outcome, fetch=fetch, robots=line)
        is_duplicate = fetch is not None and fetch.is_duplicate
        is_tested = fetch is not None and bool(fetch.tested_content) and not fetch.unprocessed
        self._hosts.traps.ended(entry, outcome, tested=is_tested, seen=is_duplicate)
        self._hosts.outage.given_up(entry, outcome)

    def _discard_content(self, fetch: Fetch) -> None:
        if fetch.content_fingerprint is not None:
            self._content.discard(fetch.content_fingerprint)
            fetch.content_fingerprint = None
            fetch.tested_content = 0


def _ignore(_: object) -> None:
    """Callback of a robots.txt, whose answer completion.py reads off the Fetch."""
