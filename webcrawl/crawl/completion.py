"""The one way back of a lease: what its end means for its host and for its URL.

``HostRelease`` gives hosts back: called by the downloader, by way of ``Fetch.release``, when
nothing more goes over the wire, and when a look-up has ended. It decides on the host's rest and
keeps what the contact tells of it. While the network here is gone (hosts/politeness/outage.py) it
tells nothing: neither the host's patience nor a try of its URL is used up.

``Completion`` gives URLs back: called by the dispatcher when nothing is sent, by the engine when it
is through with a request, by the background work for leases that never came back, by signals when
a page could not be processed. Each of these ends in ``Completion.end``.

The invariant: a URL is finished only when everything that came of it (links, requests, retries)
is on disk. After a log could not be written that is uncertain, so nothing is finished any more.
"""

from __future__ import annotations

import enum
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec
from scrapy import signals
from scrapy.http import Response

from webcrawl.clock import now, wall_time
from webcrawl.crawl.fetch import Fetch, PageState, Stage, fetch_of
from webcrawl.crawl.item_limit import ItemOverdueError
from webcrawl.crawl.reading import ReadingTooLongError
from webcrawl.errors import StoreError, is_disk_full
from webcrawl.frontier import ASIDE, NO_URLS, ROBOTS_REDIRECT, Entry
from webcrawl.hosts.retry_policy import BUG
from webcrawl.net.dns.resolver import NameNotFoundError
from webcrawl.net.http.retry_after import retry_after
from webcrawl.net.outcomes import PERMANENT, REDIRECTS, outcome_of
from webcrawl.storage.record_log import CorruptRecordError
from webcrawl.urls import host_of, origin_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from twisted.python.failure import Failure

    from webcrawl.crawl.agent import ProcessServices
    from webcrawl.crawl.lease_requests import LeaseRequests
    from webcrawl.crawl.shard import Shard, Shards
    from webcrawl.frontier import Frontier, Lease
    from webcrawl.hosts.politeness.addresses import HostAddresses
    from webcrawl.hosts.politeness.delays import Politeness
    from webcrawl.hosts.politeness.preconditions import Decision

logger = logging.getLogger(__name__)

# URLs given up for a bug that the next run may try again.
_MOST_LOST: Final = 1000
# A contact that has been on the wire for so long keeps its worker from others.
_SLOW_SECS: Final = 3.0
# What a broken or damaged disk makes the parts raise.
_DISK_ERRORS: Final = (OSError, CorruptRecordError)


class HostRelease:
    """Gives hosts back. On any error the crawl is stopped: a host that is never released would
    block its queue for ever. *wake* is called when a host that was looked up is ready."""

    def __init__(
        self, *, services: ProcessServices, shards: Shards, wake: Callable[[], None]
    ) -> None:
        self._rules = services.rules
        self._stats = services.crawler.stats
        self._reading = services.reading
        self._stop = services.stop
        self._shards = shards
        self._wake = wake
        # The hosts in process that are being looked up, by the ids of the leases put back.
        self._looked_up: dict[int, str] = {}

    @property
    def looking_up(self) -> int:
        """Hosts in process that no worker is spent on, because they are being looked up."""
        return len(self._looked_up)

    def after_contact(self, fetch: Fetch) -> None:
        """The download of *fetch* is over: its host's rest begins."""
        try:
            self._after_contact(fetch)
        except Exception as error:  # noqa: BLE001  # the host would stay in process
            self._stop.fail(error)

    def _after_contact(self, fetch: Fetch) -> None:
        entry, shard = fetch.lease.entry, fetch.lease.shard
        frontier: Frontier = shard.frontier
        politeness: Politeness = shard.hosts.politeness
        outcome, response = fetch.outcome, fetch.response
        if response is None and fetch.on_wire is not None:
            # A middleware may have made something else of it, such as a Request to try again.
            outcome = outcome_of(fetch.on_wire)
            response = fetch.on_wire if isinstance(fetch.on_wire, Response) else None
        excused = fetch.reached_host and self._is_excused(fetch, outcome)
        if excused and not entry.extra:
            # An ordinary Request comes to its end all the same: its errback has been called.
            fetch.page.becomes(PageState.PUT_BACK)
        if fetch.robots_url and fetch.outcome and not excused:
            origin = entry.via if entry.kind == ROBOTS_REDIRECT else entry.url
            self.learn(origin, fetch.outcome, fetch.response)
        if not fetch.reached_host:
            rest = 0.0
            if fetch.outcome == "dns_failed":
                rest = politeness.lookup_failed(entry.host, entry.url, at_least=0.0)
            frontier.release(entry.host, rest=rest, shared_rest=0.0)
            return
        self._stats.inc_value("contacts")
        after = politeness.after(
            entry.host,
            fetch.url,
            took=fetch.took,
            outcome=outcome,
            crawl_delay=shard.hosts.robots.crawl_delay(entry.url),
            retry_after=retry_after(response, now=wall_time()),
            hung_up=response is None or "truncated" in response.flags,
            excused=excused,
        )
        if after.origin:
            shard.hosts.budgets.origins.rest(origin_of(fetch.url), after.origin)
        frontier.release(entry.host, rest=after.secs, least=after.least, shared_rest=after.shared)

    def _is_excused(self, fetch: Fetch, outcome: str) -> bool:
        host = fetch.lease.entry.host
        record = fetch.lease.shard.hosts.records.get(host)
        has_answered = record.answered == origin_of(fetch.url)
        return self._rules.outage.contact_ended(host, outcome, has_answered=has_answered)

    def learn(self, url: str, outcome: str, response: Response | None) -> None:
        """The robots.txt for *url* was tried."""
        hosts = self._shards.of(url).hosts
        robots = hosts.robots
        try:
            with self._reading.of(robots.robots_url(url)):
                robots_redirect = robots.answered(url, outcome, response)
        except ReadingTooLongError:
            logger.exception("Nothing is fetched of %s for the time being", origin_of(url))
            outcome = "robots_unreachable"
            robots_redirect = robots.answered(url, outcome, None)
        self._stats.inc_value(f"robots/{outcome}")
        self._stats.set_value("robots/origins", self._shards.robots_settled)
        delay = robots.crawl_delay(url)
        if outcome.startswith("http_2") and hosts.politeness.is_too_long(delay):
            self._stats.inc_value("robots/long_crawl_delays")
        if robots_redirect is not None:
            self._stats.inc_value("robots/errands")
            self._shards.requeue(self.robots_redirect(url), ahead=True)

    def robots_redirect(self, url: str) -> Entry:
        """The robots redirect that *url* waits for."""
        robots_redirect = self._shards.of(url).hosts.robots.robots_redirect(url)
        return Entry(
            robots_redirect,
            self._rules.key_of(robots_redirect),
            kind=ROBOTS_REDIRECT,
            via=origin_of(url),
        )

    def look_up(self, lease: Lease) -> None:
        """Look up the host of *lease*, whose URL is back in its queue. The host stays in process,
        so that name servers are asked once, and no worker waits for it."""
        self._rules.outage.probed()
        self._looked_up[lease.id] = lease.entry.host
        addresses: HostAddresses = lease.shard.hosts.addresses
        addresses.look_up(
            host_of(lease.entry.url), lambda failure: self._after_look_up(lease, failure)
        )

    def _after_look_up(self, lease: Lease, failure: Exception | None) -> None:
        """If the name servers could not say, the next turn of the host shows that."""
        host = self._looked_up.pop(lease.id, None)
        if failure is not None:
            self._stop.fail(failure)
        if host is None or self._stop.has_begun:
            return
        name = host_of(lease.entry.url)
        found = lease.shard.hosts.addresses.look(name)
        if isinstance(found, list):
            self._rules.outage.lookup_worked(name)
        elif isinstance(found, NameNotFoundError):
            self._rules.outage.name_not_found(name)
        try:
            lease.shard.frontier.release(host, rest=0.0)
        except Exception as error:  # noqa: BLE001  # the host would stay in process
            self._stop.fail(error)
        self._wake()

    def after_failed_look_up(self, lease: Lease, decision: Decision) -> float:
        """For how long the host of *lease* rests, as *decision* says that its address could not be
        found out."""
        entry = lease.entry
        self._stats.inc_value(f"retry/{decision.outcome}")
        host = host_of(entry.url)
        is_doubted = decision.outcome == "dns_not_found"
        excused = is_doubted or self._rules.outage.lookup_failed(host)
        politeness: Politeness = lease.shard.hosts.politeness
        return politeness.lookup_failed(
            entry.host, entry.url, at_least=decision.secs, excused=excused
        )

    def expire(self, lease: Lease) -> None:
        """The frontier has taken the host of *lease* back."""
        self._looked_up.pop(lease.id, None)


class Way(enum.Enum):
    """What becomes of the URL of a lease that comes back."""

    FINISH = "it has come to its end with an outcome"
    RETRY = "it is tried again, behind the other URLs of its host"
    PUT_BACK = "nothing came of it: it is the next of its host"
    PARK = "it waits on disk for a reason"
    DROP = "nothing waits for it any more"


class Completion:
    """Gives URLs back. *stop* ends the crawl when a log could not be written: nothing that matters
    has been lost then, but nothing may be finished any more."""

    def __init__(
        self,
        *,
        services: ProcessServices,
        shards: Shards,
        host_release: HostRelease,
        requests: LeaseRequests,
    ) -> None:
        self._signals = services.crawler.signals
        self._stats = services.crawler.stats
        self._rules = services.rules
        self._shards = shards
        self.host_release = host_release
        self._requests = requests
        self._outcome_log = services.outcome_log
        self._stop = services.stop
        # The contacts that are not done, by the ids of their leases.
        self._under_way: dict[int, Fetch] = {}
        self._lost_to_bugs: deque[Entry] = deque(maxlen=_MOST_LOST)
        self._is_over_for_bugs = False

    def listen(self) -> None:
        """Notice exceptions in callbacks and processing modules from now on."""
        self._signals.connect(self._spider_error, signal=signals.spider_error)
        self._signals.connect(self._item_error, signal=signals.item_error)

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
        sent_before = now() - _SLOW_SECS
        return sum(
            fetch.stage is Stage.SENT and fetch.sent_at is not None and fetch.sent_at < sent_before
            for fetch in self._under_way.values()
        )

    # --- the ways back

    def begin(self, fetch: Fetch) -> None:
        """The contact of *fetch* begins."""
        self._under_way[fetch.lease.id] = fetch

    def unsent(
        self,
        lease: Lease,
        way: Way,
        why: str = "",
        *,
        rest: float = 0.0,
        other: Entry | None = None,
    ) -> None:
        """Nothing is sent for *lease*: as ``end``, and its host rests for *rest* seconds."""
        if lease.entry.kind == ROBOTS_REDIRECT and way is Way.FINISH:
            self.host_release.learn(lease.entry.via, why, None)
        self.end(lease, way, why, other=other)
        lease.shard.frontier.release(lease.entry.host, rest=rest)

    def done(self, request: Request) -> None:
        """The engine is through with *request*, in whatever way it ended."""
        fetch = fetch_of(request)
        if fetch is None:
            return
        fetch.release_host()
        self._requests.done(request)
        self._under_way.pop(fetch.lease.id, None)
        if fetch.holds_url:
            try:
                self._done(fetch)
            except Exception as error:  # noqa: BLE001  # the URL would stay leased
                self._stop.fail(error)
        fetch.end()

    def _done(self, fetch: Fetch) -> None:
        entry, state, outcome = fetch.lease.entry, fetch.page.state, fetch.outcome
        if state is PageState.PUT_BACK or not outcome or self._stop.has_begun:
            self.end(fetch.lease, Way.PUT_BACK, fetch=fetch)
            return
        if state is PageState.POISON:
            outcome = ReadingTooLongError.outcome
        again = None
        if entry.kind not in NO_URLS:
            self._count_answer(fetch)
            again = self._next_try(entry, BUG if state is PageState.UNREAD else outcome)
        way = Way.FINISH if again is None else Way.RETRY
        self.end(fetch.lease, way, outcome, other=again, fetch=fetch)

    def expire(self, older_than: float, *, spares_pages: bool) -> None:
        """Take back the leases that were not given back within *older_than* seconds.

        With *spares_pages* not those of pages that are being processed: they may wait for a
        download in another host's turn, which takes as long as politeness wants, and would be
        fetched again and again. A download under way is broken off: its host is no longer ours.
        """

        def is_spared(lease: Lease) -> bool:
            fetch = self._under_way.get(lease.id)
            return spares_pages and fetch is not None and fetch.is_released

        for lease in self._shards.expire(older_than, except_if=is_spared):
            self.host_release.expire(lease)
            fetch = self._under_way.pop(lease.id, None)
            if fetch is not None:  # else it is done, but for a log that could not be written
                if fetch.abort is not None and not fetch.is_released:
                    fetch.abort()
                fetch.expire()
                self._take_back(fetch)
            self._stats.inc_value("scheduler/expired")
            logger.error("Nobody gave %s back: it returns to its queue", lease.entry.url)

    def put_back_pages(self) -> None:
        """What is in process goes back when it is done, for the next run to fetch it again."""
        for fetch in self._under_way.values():
            fetch.page.becomes(PageState.PUT_BACK)

    def end(
        self,
        lease: Lease,
        way: Way,
        why: str = "",
        *,
        other: Entry | None = None,
        fetch: Fetch | None = None,
    ) -> None:
        """The URL of *lease* goes *way*. OSError when the disk is full.

        *why* is the outcome of one that is finished, the reason of one that is parked. *other* is
        the entry that is queued in the place of one that is tried again, or that goes before one
        that is put back. *fetch* if there was one.
        """
        shard: Shard = lease.shard
        match way:
            case Way.FINISH:
                self._write_down(lease, why, fetch)
                self._finish(lease, fetch)
            case Way.RETRY:
                assert other is not None
                shard.frontier.requeue(other)
                self._finish(lease, fetch)
            case Way.PUT_BACK:
                if other is not None and self._shards.of(other.url) is not shard:
                    other = None
                shard.frontier.put_back(lease, behind=other)
                if fetch is not None:
                    self._take_back(fetch)
            case Way.PARK:
                shard.frontier.park_leased(lease, why)
            case Way.DROP:
                shard.frontier.finish(lease)

    def _write_down(self, lease: Lease, outcome: str, fetch: Fetch | None) -> None:
        """The URL of *lease* has come to its end; before the frontier knows, see outcome_log.py."""
        entry, hosts = lease.entry, lease.shard.hosts
        if entry.kind in NO_URLS:
            if entry.kind == ASIDE:
                self._stats.inc_value(f"aside/{outcome}")
            return
        line = hosts.robots.decided_by(entry.url) if outcome == "robots_denied" else ""
        self._outcome_log.finished(entry, outcome, fetch=fetch, robots=line)
        tested = fetch is not None and bool(fetch.page.tested)
        seen = fetch is not None and fetch.page.is_duplicate
        hosts.budgets.traps.ended(entry, outcome, tested=tested, seen=seen)
        self._rules.outage.given_up(entry, outcome)

    def _finish(self, lease: Lease, fetch: Fetch | None) -> None:
        if fetch is not None and fetch.page.state >= PageState.FAILED:
            self._discard(fetch)
        claim = 0 if fetch is None else fetch.page.claim
        shard: Shard = lease.shard
        shard.frontier.finish(lease, note=claim.to_bytes(8, "little") if claim else b"")
        if claim:
            shard.content.commit(claim)
        self._requests.forget(lease.entry)

    def _take_back(self, fetch: Fetch) -> None:
        """The page of *fetch* counts for nothing."""
        self._discard(fetch)
        if fetch.is_for_page:
            fetch.lease.shard.hosts.budgets.ledger.put_back(fetch.lease.entry)

    def _discard(self, fetch: Fetch) -> None:
        if fetch.page.claim:
            fetch.lease.shard.content.discard(fetch.page.claim)
            fetch.page.claim = 0

    def _count_answer(self, fetch: Fetch) -> None:
        if fetch.response is None:
            return
        self._stats.inc_value("fetch/bytes", fetch.received_bytes)
        lease = fetch.lease
        lease.shard.hosts.budgets.ledger.received(lease.entry, fetch.received_bytes)
        status = fetch.response.status
        if status in REDIRECTS:
            self._stats.inc_value(
                f"redirects/{'permanent' if status in PERMANENT else 'temporary'}"
            )

    # --- further tries

    def _next_try(self, entry: Entry, outcome: str) -> Entry | None:
        """*entry* as it is tried again after *outcome*; None if that is final. Ordinary Requests
        have Scrapy's own retries."""
        if entry.extra:
            return None
        if outcome == BUG and self._is_over_for_bugs:
            return msgspec.structs.replace(entry, attempts=0)
        if entry.attempts < self._rules.retries.rule(outcome).tries:
            self._stats.inc_value(f"retry/{outcome}")
            return msgspec.structs.replace(entry, attempts=entry.attempts + 1)
        if outcome == BUG:
            self._lost_to_bugs.append(entry)
        return None

    def try_bugs_again(self) -> None:
        """The crawl ends because of bugs: the last URLs that were given up for one are for the
        next run, in which they may be mended, and so is what meets one from now on. OSError when
        the disk is full."""
        self._is_over_for_bugs = True
        while self._lost_to_bugs:
            entry = self._lost_to_bugs.popleft()
            self._shards.requeue(msgspec.structs.replace(entry, attempts=0))

    # --- what becomes of a page

    def is_seen(self, fetch: Fetch, document: int) -> bool:
        """The content-seen test: whether another URL's *document*, a fingerprint, had the same
        bytes.

        Otherwise it is in process until *fetch* is finished, and durable then. True also when the
        page's URL has gone back, or goes back as a broken disk keeps the answer.
        """
        page = fetch.page
        if page.state is PageState.EXPIRED:
            return True
        page.document = document
        try:
            is_seen = bool(fetch.lease.shard.content.test(document))
        except _DISK_ERRORS as error:
            self.not_stored(fetch, error)
            return True
        if is_seen:
            page.becomes(PageState.DUPLICATE)
        else:
            page.claim = document
        return is_seen

    def is_first_there(self, fetch: Fetch, place: int) -> bool:
        """Whether a document that ``is_seen`` is met for the first time at *place*, a fingerprint;
        that is remembered when *fetch* is finished."""
        if fetch.page.state is PageState.EXPIRED:
            return False
        try:
            is_first = bool(fetch.lease.shard.content.claim(place))
        except _DISK_ERRORS as error:
            self.not_stored(fetch, error)
            return False
        if is_first:
            fetch.page.claim = place
        return is_first

    def not_stored(self, fetch: Fetch, error: Exception) -> None:
        """Something of the page of *fetch* could not be written: its URL goes back, and the crawl
        ends."""
        fetch.page.becomes(PageState.PUT_BACK)
        self._stop.fail(error)

    def _spider_error(self, response: Any, failure: Failure) -> None:
        """A callback raised: its document was not processed, whatever Scrapy makes of it."""
        fetch = _fetch_behind(response)
        if fetch is not None:
            is_poison = isinstance(failure.value, ReadingTooLongError)
            fetch.page.becomes(PageState.POISON if is_poison else PageState.UNREAD)

    def _item_error(self, response: Any, failure: Failure) -> None:
        """A processing module raised. Only a disk that fails concerns the crawl as a whole."""
        error = failure.value
        fetch = _fetch_behind(response)
        is_put_back = isinstance(error, ItemOverdueError) and error.at_end
        if isinstance(error, OSError) and (isinstance(error, StoreError) or is_disk_full(error)):
            is_put_back = True
            self._stop.fail(error)
        if fetch is not None:
            fetch.page.becomes(PageState.PUT_BACK if is_put_back else PageState.FAILED)


def _fetch_behind(response: Any) -> Fetch | None:
    """The contact that *response* (an answer, a failure, None) came of."""
    meta = getattr(getattr(response, "request", None), "meta", {})
    fetch: Fetch | None = meta.get("fetch")
    return fetch
