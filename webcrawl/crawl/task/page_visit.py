"""Leases for pages: links, sitemaps, and Requests of spiders with their callbacks.

They are visited again (revisit/), use budgets and learn traps, may be rendered, and their outcomes
are logged.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from scrapy import Request
from scrapy.http import Response
from scrapy.statscollectors import StatsCollector

from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.crawl.lease.lease_requests import LeaseRequests
from webcrawl.crawl.lease.outcome_log import DENIED, DROPPED, OutcomeLog
from webcrawl.crawl.links.reading import ReadingTooLongError, ReadingWatch
from webcrawl.crawl.shard.shard import Shard
from webcrawl.crawl.task.page_reader import PageReader
from webcrawl.crawl.task.renderer import Renderer, StoredPage
from webcrawl.crawl.task.task import Ending, Finish, Task, Way
from webcrawl.crawl.task.tries import return_page
from webcrawl.frontier import Entry, Lease, Result
from webcrawl.hosts.aliases import ALIAS
from webcrawl.items import Page
from webcrawl.net.outcomes import is_document
from webcrawl.revisit.history import CHANGED, FAILED, GONE, history_of
from webcrawl.revisit.validators import conditional_headers
from webcrawl.revisit.visit import Visit, decide
from webcrawl.revisit.visits import Visits
from webcrawl.urls.registered_domain import domain_of

# Maximum number of hosts whose newly denied pages are counted in a run, for the summary.
_MAX_LOST_HOSTS = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class PageVisit(Task):
    """Visits a page, for the first time or again.

    *visits* schedules repeat visits; None in a crawl without them. *renderer* has the pages that
    were rendered; None in a crawl that renders none.
    """

    reader: PageReader
    requests: LeaseRequests
    outcome_log: OutcomeLog
    reading: ReadingWatch
    stats: StatsCollector
    visits: Visits | None
    renderer: Renderer | None
    _lost_hosts: set[str] = field(default_factory=set, init=False)

    is_for_page = True

    def begin(self, lease: Lease[Shard]) -> Ending | StoredPage | None:
        """Return the page if it was rendered, or why it cannot be visited now.

        A gate may hold it, it may hang the parser, or its history cannot be read. A foreign URL is
        dropped if its own domain has named it since, because then it is in the crawl once more.
        """
        rendered = None if self.renderer is None else self.renderer.rendered_page(lease.entry)
        if rendered is not None:
            return rendered
        entry = lease.entry
        if self._waits_as_own(lease):
            return Ending(Way.DROP)
        reason = lease.shard.admission.stop(entry)
        if reason:
            return Ending(Way.PARK, reason)
        if self.reading.is_poison(entry.url):
            return Ending(Way.FINISH, ReadingTooLongError.outcome)
        if entry.history and history_of(entry) is None:
            return Ending(Way.FINISH, "unreadable")
        return None

    def _waits_as_own(self, lease: Lease[Shard]) -> bool:
        """Return whether the URL of *lease* is foreign, and its own domain has named it, too.

        It then has another entry, which waits or is finished. May block for a few reads of 8 kB.
        """
        entry = lease.entry
        shard = lease.shard
        if not (_is_first_foreign_visit(entry) and shard.tells_own):
            return False
        # Before the first pages of a domain, what it has named is recent. After kill -9, the count
        # of pages may be too low.
        has_pages = shard.hosts.records.domains.find(domain_of(entry.url)).pages > 0
        is_recent = not has_pages and entry.discovered_at > shard.frontier.parts.resumed
        return shard.eliminator.is_own(self.reader.fingerprint_of(lease), in_memory=is_recent)

    def prepare(self, fetch: Fetch) -> Request | Ending:
        """Return the Request: a link's, conditional on a visit, or the one that a spider made.

        The Request of a spider is also returned if it is refused, because its errback must be
        called. If a restart has lost it, the entry is dropped.
        """
        lease = fetch.lease
        entry = lease.entry
        if fetch.refusal and not entry.extra:
            return Ending(Way.FINISH, fetch.refusal)
        fetch.history = history_of(entry)
        if entry.extra:
            request = self.requests.for_spider(entry)
            if request is None:
                return Ending(Way.DROP)
        elif fetch.history is None or fetch.stored is not None:  # nothing to compare, or to send
            request = self.requests.for_link(entry, {})
        else:
            headers = conditional_headers(entry, fetch.history, lease.shard.hosts.records)
            request = self.requests.for_link(entry, headers)
        if fetch.is_contact:
            lease.shard.hosts.budgets.ledger.note_start(entry)
        # A page that was waiting for what it needs has been forgotten if the crawl was stopped.
        if _is_first_foreign_visit(entry):
            lease.shard.intake.foreign_in_process.add(self.reader.fingerprint_of(lease))
        return fetch.bind(request)

    async def accept(self, response: Response, fetch: Fetch) -> list[Page] | AsyncIterator[Page]:
        """Submit the links of the page, and return it for the processing modules."""
        return await self.reader.read(response, fetch)

    def finish(
        self, lease: Lease[Shard], outcome: str, fetch: Fetch | None, robots_line: str
    ) -> Finish:
        """Decide when the next visit is due, log this one, and report it to budgets and traps.

        If the origin of the URL is given up, the URL no longer counts as admitted by the gates.
        """
        entry = lease.entry
        hosts = lease.shard.hosts
        visit = self._visit(lease.shard, entry, outcome, fetch)
        if return_page(lease, fetch) and not entry.history:
            for gate in hosts.budgets.gates:
                # That gate learns of each end by ``note_end`` below.
                if gate is not hosts.budgets.traps.space:
                    gate.let_out(entry)
        self.outcome_log.report_finish(entry, outcome, visit, fetch=fetch, robots=robots_line)

        aliases = lease.shard.aliases
        if visit.before is None:
            # A page that resembles others of its host (a negative score) may be an error page. It
            # does not show whether the URL has content.
            tested = fetch is not None and fetch.page.score >= 0 and bool(fetch.page.tested)
            seen = fetch is not None and fetch.page.is_duplicate
            if seen and aliases is not None and aliases.is_leading(entry.url):
                # Its pages may have been fetched from another name before.
                tested = False
                seen = False
            # A possible error page counts as one, although its outcome is a success.
            flags = fetch.page.flags if fetch is not None else ""
            hosts.budgets.traps.note_end(entry, flags or outcome, tested=tested, seen=seen)
        self._note_visit(lease, visit, outcome)
        is_missing = entry.kind == ALIAS and visit.before is None and not is_document(outcome)
        if is_missing and aliases is not None:
            for retried in aliases.retried(entry):
                lease.shard.enqueue(retried, None)

        result = Result(outcome)
        if fetch is not None:
            result = Result(outcome, fetch.received_bytes, fetch.page.is_duplicate)
        if visit.before is not None:  # repeat visits are counted by their change instead
            result = result._replace(outcome="", is_duplicate=False, visit=visit.change)
        return Finish(result, visit.due)

    def _visit(self, shard: Shard, entry: Entry, outcome: str, fetch: Fetch | None = None) -> Visit:
        """Return the result of this visit of *entry*, and when the next visit is due."""
        return decide(
            entry,
            outcome,
            None if fetch is None else fetch.answer,
            before=history_of(entry) if fetch is None else fetch.history,
            at=shard.clock(),
            records=shard.hosts.records,
            visits=self.visits,
        )

    def _note_visit(self, lease: Lease[Shard], visit: Visit, outcome: str) -> None:
        """Count pages that robots.txt newly denies, and judge the hint that led to *visit*."""
        shard = lease.shard
        before = visit.before
        is_denied = outcome == DENIED

        if before is not None:
            is_restored = before.is_lost and visit.change == CHANGED
            is_denied_now = before.holds_document and visit.change == GONE and is_denied
            host = lease.entry.host
            hosts = self._lost_hosts
            if is_denied_now != is_restored and (host in hosts or len(hosts) < _MAX_LOST_HOSTS):
                hosts.add(host)
                # Plus one for a page that was lost, minus one for a page that is back.
                self.stats.inc_value(f"robots/lost/{host}", is_denied_now - is_restored)

        if visit.after.hinted_at:
            if shard.hints is not None:
                shard.hints.note_visit(lease.entry, visit)
        elif visit.due is not None and visit.change != FAILED and not is_denied:
            # The URL was answered, so it counts as fresh from now on.
            shard.frontier.counts.answer(visit.after.at, shard.clock())

    def note_end(self, lease: Lease[Shard], way: Way, why: str) -> None:
        """Forget the stored Request, the rendered page, and that the URL hung the parser.

        Links of its own domain to a finished foreign URL no longer make it new.
        """
        entry = lease.entry
        if _is_first_foreign_visit(entry):
            shard = lease.shard
            fp = self.reader.fingerprint_of(lease)
            if way is Way.DROP:
                self.stats.inc_value("seen/named_twice")
                shard.admission.let_out(entry)
            elif way is Way.FINISH and shard.tells_own:
                shard.eliminator.note_finished(fp)
            shard.intake.foreign_in_process.discard(fp)
        self.requests.forget(entry)
        if self.renderer is not None:
            self.renderer.forget(entry)
        is_poison = way is Way.FINISH and why == ReadingTooLongError.outcome
        if is_poison and self.reading.is_poison(entry.url):
            self.reading.set_aside(entry.url)

    def drop(self, shard: Shard, entry: Entry) -> None:
        """Log that *entry* is dropped."""
        self.outcome_log.report_finish(entry, DROPPED, self._visit(shard, entry, DROPPED))


def _is_first_foreign_visit(entry: Entry) -> bool:
    """Return whether *entry* is foreign, and not for a repeat visit."""
    return bool(entry.foreign) and not entry.history
