"""Completes leases: decides whether a URL is finished, retried, parked or put back.

Called by the dispatcher when nothing is sent, by the engine when it has finished with a request,
and by the background work for leases that never came back. It also records the exceptions that
callbacks and processing modules raise in between. The host is released separately: host_release.py.

The invariant: a URL is finished only when all its results (links, requests, retries) are on disk.
Once a log could not be written, that is uncertain, so no more URLs are finished.
"""

from __future__ import annotations

import enum
import logging
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from scrapy import signals

from webcrawl.crawl.lease.fetch import Fetch, fetch_of
from webcrawl.crawl.lease.item_limit import ItemOverdueError
from webcrawl.crawl.lease.outcome_log import DENIED, DROPPED
from webcrawl.crawl.lease.stored_exchange import answer_of
from webcrawl.crawl.links.page_intake import PageState
from webcrawl.crawl.links.reading import ReadingTooLongError
from webcrawl.errors import ends_crawl
from webcrawl.frontier import (
    ASIDE,
    NO_URLS,
    NOTHING,
    ROBOTS_REDIRECT,
    SUBRESOURCE,
    Entry,
    Result,
    decode,
)
from webcrawl.hosts.retry_policy import BUG
from webcrawl.net.outcomes import PERMANENT, REDIRECTS
from webcrawl.render.passes import RENDERING
from webcrawl.revisit.history import CHANGED, FAILED, GONE, history_of
from webcrawl.revisit.visit import Visit, decide
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from twisted.python.failure import Failure

    from webcrawl.crawl.lease.host_release import HostRelease
    from webcrawl.crawl.lease.lease_requests import LeaseRequests
    from webcrawl.crawl.lease.services import ProcessServices
    from webcrawl.crawl.shard.shard import Shard
    from webcrawl.frontier import Lease
    from webcrawl.render.engine import Answer
    from webcrawl.render.store import SavedPage
    from webcrawl.revisit.history import History

logger = logging.getLogger(__name__)

# Maximum number of hosts whose newly denied pages are counted in a run, for the summary.
_MAX_LOST_HOSTS = 16


class Way(enum.Enum):
    """The ways in which a lease can be completed: what happens next to its URL."""

    FINISH = "it is finished, with an outcome"
    RETRY = "it is retried, after the other URLs of its host"
    PUT_BACK = "it produced no result, and is next in line for its host"
    PARK = "it waits on disk for a reason"
    DROP = "it is no longer needed"


class Completion:
    """Completes the leases of URLs. When a log cannot be written the crawl is stopped."""

    def __init__(
        self,
        *,
        services: ProcessServices,
        host_release: HostRelease,
        requests: LeaseRequests,
    ) -> None:
        self._signals = services.crawler.signals
        self._stats = services.crawler.stats
        self._rules = services.rules
        self._shards = services.shards
        self.host_release = host_release
        self._requests = requests
        self._outcome_log = services.outcome_log
        self._visits = services.visits
        self._stop = services.stop
        self._rendering = services.rendering
        #: Contacts in process, by the ids of their leases.
        self.under_way: dict[int, Fetch] = {}
        #: Whether the crawl is ending because of bugs. URLs that fail because of a bug from now on
        #: are put back for the next run.
        self.is_over_for_bugs = False
        self._lost_hosts: set[str] = set()

    def listen(self) -> None:
        """Start recording exceptions raised by callbacks and processing modules."""
        self._signals.connect(self._spider_error, signal=signals.spider_error)
        self._signals.connect(self._item_error, signal=signals.item_error)

    # --- completing a lease

    def begin(
        self,
        lease: Lease[Shard],
        *,
        address: str = "",
        robots_url: str = "",
        refusal: str = "",
        robots_line: str = "",
        history: History | None = None,
        rendered: SavedPage | None = None,
    ) -> Fetch:
        """Start the contact for *lease* and return its Fetch.

        The other arguments are fields of ``Fetch``, which describes them.
        """
        fetch = self.under_way[lease.id] = Fetch(
            lease=lease,
            release=self.host_release.after_contact,
            address=address,
            robots_url=robots_url,
            refusal=refusal,
            robots_line=robots_line,
            expected_bytes=None if refusal or rendered else self._rules.rates.note_start(),
            history=history,
            rendered=rendered,
        )
        return fetch

    def end_unsent(
        self,
        lease: Lease[Shard],
        way: Way,
        why: str = "",
        *,
        rest: float = 0.0,
        next_entry: Entry | None = None,
        robots_line: str = "",
    ) -> None:
        """Complete *lease*, for which nothing is sent, and release its host.

        The host pauses for *rest* seconds. The other arguments are those of ``end``.
        """
        # A side download that stopped waiting has a contact already.
        self.under_way.pop(lease.id, None)

        if lease.entry.kind == ROBOTS_REDIRECT and way is Way.FINISH:
            self.host_release.learn(lease.entry.via, why, None)

        self.end(lease, way, why, next_entry=next_entry, robots_line=robots_line)
        lease.shard.frontier.release(lease.key, rest=rest)

    def done(self, request: Request) -> None:
        """Complete the lease of *request*. Called once when the engine has finished with it."""
        fetch = fetch_of(request)
        if fetch is None:
            return

        self._requests.done(request)
        fetch.release_host()
        self.under_way.pop(fetch.lease.id, None)
        if fetch.holds_url:
            try:
                self._complete_url(fetch)
            except Exception as error:  # noqa: BLE001  # the URL would stay leased
                self._stop.fail(error)
        fetch.end()

    def _complete_url(self, fetch: Fetch) -> None:
        """Finish the URL of *fetch*, retry it or put it back, depending on its page's state."""
        entry, state, outcome = fetch.lease.entry, fetch.page.state, fetch.outcome
        met_bug = state in (PageState.FAILED, PageState.UNREAD) or outcome == BUG
        is_put_back = state is PageState.PUT_BACK or (met_bug and self.is_over_for_bugs)
        if is_put_back or not outcome or self._stop.has_begun:
            self.end(fetch.lease, Way.PUT_BACK, fetch=fetch)
            return

        if fetch.page.awaits_rendering:
            fetch.lease.shard.admission.let_out(entry)
            self.end(fetch.lease, Way.PARK, RENDERING)
            return

        if state is PageState.POISON:
            outcome = ReadingTooLongError.outcome

        retry = None
        if entry.kind not in NO_URLS:
            self._count_answer(fetch)
            why = BUG if state is PageState.UNREAD else outcome
            if not fetch.lease.shard.hosts.politeness.is_final(entry.url, why):
                retry = self._next_try(entry, why)

        way = Way.FINISH if retry is None else Way.RETRY
        robots_line = fetch.robots_line if fetch.refusal else ""
        self.end(fetch.lease, way, outcome, next_entry=retry, fetch=fetch, robots_line=robots_line)

    def expire(self, older_than: float, *, spares_pages: bool) -> None:
        """Take back leases that were not completed within *older_than* seconds.

        Their downloads are aborted. Leases of pages that are being processed do not expire, because
        slow modules have a limit of their own. With *spares_pages*, this also holds for pages of
        ordinary Requests, which may wait for a download in another host's turn. They would
        otherwise be fetched repeatedly.
        """

        def is_spared(lease: Lease[Shard]) -> bool:
            fetch = self.under_way.get(lease.id)
            has_spared_kind = spares_pages or not lease.entry.extra
            return has_spared_kind and fetch is not None and fetch.is_released

        for lease in self._shards.expire(older_than, except_if=is_spared):
            self.host_release.expire(lease)
            fetch = self.under_way.pop(lease.id, None)
            # Without a contact, the URL is complete, but its log could not be written.
            if fetch is not None:
                if fetch.abort is not None and not fetch.is_released:
                    fetch.abort()
                fetch.expire()
                self._undo_page(fetch)
            self._stats.inc_value("scheduler/expired")
            logger.error("Lease of %s expired; requeued", lease.entry.url)

    def forget_shard(self, shard: Shard) -> None:
        """Forget the contacts of *shard*, which has left this process.

        Their downloads are aborted.
        """
        for fetch in [fetch for fetch in self.under_way.values() if fetch.lease.shard is shard]:
            del self.under_way[fetch.lease.id]
            if fetch.abort is not None and not fetch.is_released:
                fetch.abort()
            fetch.expire()
        self.host_release.forget_shard(shard)

    def abort_downloads(self) -> None:
        """Abort the running downloads, and put their URLs back."""
        for fetch in [*self.under_way.values()]:
            if fetch.abort is not None:
                fetch.abort()

    def put_back_pages(self) -> None:
        """Have the pages that are being processed put back as soon as they are done.

        The next run fetches them again.
        """
        for fetch in self.under_way.values():
            fetch.page.becomes(PageState.PUT_BACK)

    def end(
        self,
        lease: Lease[Shard],
        way: Way,
        why: str = "",
        *,
        next_entry: Entry | None = None,
        fetch: Fetch | None = None,
        robots_line: str = "",
    ) -> None:
        """Complete *lease* in the given *way*. Raises OSError when the disk is full.

        why: the outcome of a finished URL, or the reason of a parked one.
        next_entry: the entry that replaces a retried one, or goes before one that is put back.
        fetch: the contact, if there was one.
        robots_line: the line of robots.txt that denied the URL, if one did.
        """
        shard = lease.shard
        entry = lease.entry
        rendering = self._rendering if entry.kind == SUBRESOURCE else None
        match way:
            case Way.FINISH:
                visit = self._visit(shard, lease.entry, why, fetch)
                if fetch is None or fetch.response is None:
                    self._return_budget(lease, fetch)
                self._log_outcome(lease, why, visit, fetch, robots_line)
                if rendering is not None:
                    rendering.end_subresource(entry.request, entry.via, why, _answer_in(fetch))
                self._finish(lease, fetch, why, visit)
            case Way.RETRY:
                if next_entry is None:
                    raise ValueError(f"{lease.entry.url}: nothing to retry")
                shard.frontier.requeue(next_entry, is_retry=True)
                self._finish(lease, fetch)
            case Way.PUT_BACK:
                if next_entry is not None and self._shards.find(next_entry.url) is not shard:
                    next_entry = None
                shard.frontier.put_back(lease, behind=next_entry)
                if fetch is not None:
                    self._undo_page(fetch)
            case Way.PARK:
                shard.frontier.park_leased(lease, why)
            case Way.DROP:
                shard.frontier.finish(lease)
                if rendering is not None:
                    rendering.on_end(entry.request, entry.via)
        if self._rendering is not None and way in {Way.FINISH, Way.RETRY, Way.DROP}:
            self._rendering.forget(lease.entry)

    def _return_budget(self, lease: Lease[Shard], fetch: Fetch | None) -> None:
        """If its origin is given up, give back what the URL of *lease* took of budgets.

        The URL was not answered. *fetch* is its last contact, if there was one.
        """
        entry = lease.entry
        hosts = lease.shard.hosts
        if not hosts.politeness.refusal(entry.host, entry.url):
            return
        if entry.attempts or (fetch is not None and fetch.is_for_page):
            hosts.budgets.ledger.return_page(entry)
        if entry.kind not in {*NO_URLS, SUBRESOURCE} and not entry.history:
            for gate in hosts.budgets.gates:
                if gate is not hosts.budgets.traps.space:  # which counts each end itself
                    gate.let_out(entry)

    def _visit(self, shard: Shard, entry: Entry, outcome: str, fetch: Fetch | None = None) -> Visit:
        """Return the result of this visit of *entry*, and when the next visit is due."""
        return decide(
            entry,
            outcome,
            None if fetch is None else fetch.answer,
            before=history_of(entry) if fetch is None else fetch.history,
            at=shard.clock(),
            records=shard.hosts.records,
            visits=None if entry.kind == SUBRESOURCE else self._visits,
        )

    def _log_outcome(
        self,
        lease: Lease[Shard],
        outcome: str,
        visit: Visit,
        fetch: Fetch | None,
        robots_line: str,
    ) -> None:
        """Log the outcome of *lease*. Called before the frontier finishes it (outcome_log.py)."""
        entry, hosts = lease.entry, lease.shard.hosts
        if entry.kind in NO_URLS:
            if entry.kind == ASIDE:
                self._stats.inc_value(f"side_downloads/{outcome}")
            return

        self._outcome_log.finished(entry, outcome, visit, fetch=fetch, robots=robots_line)

        # A page that resembles others of its host (a negative score) may be an error page. It does
        # not show whether the URL has content.
        tested = fetch is not None and fetch.page.score >= 0 and bool(fetch.page.tested)
        seen = fetch is not None and fetch.page.is_duplicate
        flags = fetch.page.flags if fetch is not None else ""
        if visit.before is None and entry.kind != SUBRESOURCE:
            hosts.budgets.traps.note_end(entry, flags or outcome, tested=tested, seen=seen)

    def _finish(
        self,
        lease: Lease[Shard],
        fetch: Fetch | None,
        outcome: str = "",
        visit: Visit | None = None,
    ) -> None:
        """Finish the URL of *lease* in its shard, with the result of *fetch* and *visit*."""
        if fetch is not None and fetch.page.state >= PageState.FAILED:
            self._discard_claim(fetch)

        content, result = 0, Result(outcome)
        if fetch is not None:
            content = fetch.page.claim
            result = Result(outcome, fetch.received_bytes, fetch.page.is_duplicate)

        due = None
        if visit is not None:
            due = visit.due
            if visit.before is not None:
                result = result._replace(outcome="", is_duplicate=False, visit=visit.change)
            self._note_visit(lease, visit, outcome)

        if lease.entry.kind in NO_URLS:
            result = NOTHING
        elif lease.entry.kind == SUBRESOURCE:  # only its bytes count: it is a part of a page
            result = NOTHING._replace(received=result.received)
        lease.shard.finish(lease, content=content, result=result, due=due)
        self._requests.forget(lease.entry)

    def _note_visit(self, lease: Lease[Shard], visit: Visit, outcome: str) -> None:
        """Count pages that robots.txt newly denies, and judge the hint that led to *visit*."""
        shard, before = lease.shard, visit.before
        is_denied = outcome == DENIED

        if before is not None:
            is_restored = before.is_lost and visit.change == CHANGED
            is_denied_now = before.holds_document and visit.change == GONE and is_denied
            host, hosts = lease.entry.host, self._lost_hosts
            if is_denied_now != is_restored and (host in hosts or len(hosts) < _MAX_LOST_HOSTS):
                hosts.add(host)
                self._stats.inc_value(f"robots/lost/{host}", is_denied_now - is_restored)

        if visit.after.hinted_at:
            if shard.hints is not None:
                shard.hints.note_visit(lease.entry, visit)
        elif visit.due is not None and visit.change != FAILED and not is_denied:
            shard.frontier.count_answer(visit.after.at, shard.clock())

    def _undo_page(self, fetch: Fetch) -> None:
        """Undo the effects of the page of *fetch*."""
        self._discard_claim(fetch)
        if fetch.is_for_page and fetch.rendered is None:  # otherwise it was counted before
            fetch.lease.shard.hosts.budgets.ledger.put_back(fetch.lease.entry)

    def _discard_claim(self, fetch: Fetch) -> None:
        """Withdraw the fingerprint that the page of *fetch* has entered as new content."""
        if fetch.page.claim:
            fetch.lease.shard.content.discard(fetch.page.claim)
            fetch.page.claim = 0

    def _count_answer(self, fetch: Fetch) -> None:
        """Count the bytes of the response of *fetch*, if there is one, and its redirect."""
        if fetch.response is None:
            return
        lease, size = fetch.lease, fetch.received_bytes
        self._stats.inc_value("fetch/bytes", size)
        self._stats.inc_value("fetch/decoded_bytes", len(fetch.response.body))
        lease.shard.hosts.budgets.ledger.note_received(lease.entry, size)
        status = fetch.response.status
        if status in REDIRECTS:
            self._stats.inc_value(
                f"redirects/{'permanent' if status in PERMANENT else 'temporary'}"
            )

    def drop_parked(
        self, shard: Shard, reason: str, limit: int, covers: Callable[[str], bool]
    ) -> int:
        """Drop parked entries of *shard* whose host *covers* accepts; return their number.

        Checks the next *limit* entries parked for *reason*, and parks those it keeps again, at the
        end. Raises OSError.
        """
        dropped: list[Entry] = []

        def drop_covered(batch: list[bytes]) -> tuple[list[bytes], dict[str, list[bytes]]]:
            """Return (entries to release, entries to park again); the others are dropped."""
            kept = []
            for data in batch:
                entry = decode(data)
                if covers(host_of(entry.url)):
                    self._outcome_log.finished(entry, DROPPED, self._visit(shard, entry, DROPPED))
                    dropped.append(entry)
                else:
                    kept.append(data)
            shard.frontier.finish_unleased(dropped, Result(DROPPED))
            return [], {reason: kept}

        shard.frontier.parked.release(reason, limit, drop_covered)
        return len(dropped)

    # --- retries

    def _next_try(self, entry: Entry, outcome: str) -> Entry | None:
        """Return the entry for retrying *entry* after *outcome*; None if it is not retried.

        Ordinary Requests are retried by Scrapy's middleware instead.
        """
        if entry.extra:
            return None
        if entry.attempts < self._rules.retries.rule(outcome).tries:
            self._stats.inc_value(f"retry/{outcome}")
            return replace(entry, attempts=entry.attempts + 1)
        return None

    # --- failures of pages

    def put_back_unstored(self, fetch: Fetch, error: Exception) -> None:
        """Put back the URL of *fetch*, because its page could not be stored, and end the crawl."""
        fetch.page.becomes(PageState.PUT_BACK)
        self._stop.fail(error)

    def _spider_error(self, response: Any, failure: Failure) -> None:
        """Record that a callback raised an exception, so its document was not processed.

        If the exception ends the crawl, a page without a processing module could not be stored.
        """
        fetch = _contact_of(response)
        if fetch is not None and ends_crawl(failure.value):
            self.put_back_unstored(fetch, failure.value)
        elif fetch is not None:
            is_poison = isinstance(failure.value, ReadingTooLongError)
            fetch.page.becomes(PageState.POISON if is_poison else PageState.UNREAD)

    def _item_error(self, response: Any, failure: Failure) -> None:
        """Record that a processing module raised an exception.

        Only a failing disk ends the crawl.
        """
        error = failure.value
        fetch = _contact_of(response)
        is_put_back = isinstance(error, ItemOverdueError) and error.at_end
        if ends_crawl(error):
            is_put_back = True
            self._stop.fail(error)
        if fetch is not None:
            fetch.page.becomes(PageState.PUT_BACK if is_put_back else PageState.FAILED)


def _answer_in(fetch: Fetch | None) -> Answer | None:
    """Return the whole answer of a host to *fetch*; None if there is none that counts."""
    response = None if fetch is None else fetch.response
    if fetch is None or response is None or fetch.is_walled or "truncated" in response.flags:
        return None
    return answer_of(response)


def _contact_of(response: Any) -> Fetch | None:
    """Return the contact that led to *response* (a Response or Failure); None if there is none."""
    meta = getattr(getattr(response, "request", None), "meta", {})
    fetch: Fetch | None = meta.get("fetch")
    return fetch
