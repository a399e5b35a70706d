"""Leases for what pages need to be rendered: scripts, styles and their data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scrapy import Request
from scrapy.http import Response
from scrapy.statscollectors import StatsCollector

from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.crawl.lease.item_limit import ItemLimit
from webcrawl.crawl.lease.lease_requests import LeaseRequests
from webcrawl.crawl.lease.outcome_log import DROPPED, OVER_BUDGET, OutcomeLog
from webcrawl.crawl.shard.shard import Shard
from webcrawl.crawl.task.page_reader import PageReader
from webcrawl.crawl.task.renderer import Renderer
from webcrawl.crawl.task.task import Ending, Finish, Task, Way
from webcrawl.crawl.task.tries import return_page
from webcrawl.frontier import NOTHING, Entry, Lease
from webcrawl.hosts.politeness.origin_rests import OriginRests
from webcrawl.hosts.politeness.preconditions import Decision, FetchAction
from webcrawl.items import Page
from webcrawl.net.guard import PRIVATE_ADDRESS, may_give, place_of
from webcrawl.net.outcomes import OUTCOMES
from webcrawl.revisit.visit import Visit, decide
from webcrawl.signals import SUBRESOURCE
from webcrawl.urls import host_of

_NOT_MODIFIED = 304


@dataclass(frozen=True, kw_only=True, eq=False)
class Subresource(Task):
    """Fetches what *renderer* needs for a page, the entry's ``via``; None: nothing is needed.

    *under_way* has the contacts in process.
    """

    renderer: Renderer | None
    reader: PageReader
    requests: LeaseRequests
    items: ItemLimit
    outcome_log: OutcomeLog
    stats: StatsCollector
    under_way: Mapping[int, Fetch]

    is_for_page = True

    def begin(self, lease: Lease[Shard]) -> Ending | None:
        """Drop the URL if nothing needs it any more, and refuse it if it is over a budget.

        A page does not wait until a budget is raised: it is rendered without the URL. But a failing
        port of a host is tried again soon, so the URL is parked until then.
        """
        if not self._is_wanted(lease.entry):
            return Ending(Way.DROP)
        reason = lease.shard.admission.stop(lease.entry)
        if reason == OriginRests.name:
            return Ending(Way.PARK, reason)
        if reason:  # some gates are named after an outcome of a contact
            return Ending(Way.FINISH, reason if reason in OUTCOMES else OVER_BUDGET)
        return None

    def _is_wanted(self, entry: Entry) -> bool:
        """Return whether the answer for *entry* is needed, and is not on its way."""
        if self.renderer is None:
            return False
        pending = self.renderer.store.pending_request(entry.request)
        # Pages of several domains may need the same request, and each has an entry for it.
        is_on_its_way = any(
            fetch.task is self and fetch.lease.entry.request == entry.request
            for fetch in self.under_way.values()
        )
        return pending is not None and pending.url == entry.url and not is_on_its_way

    def review(self, lease: Lease[Shard], decision: Decision) -> Decision:
        """Return *decision*, unless the page may not get anything from the address of the host."""
        is_contact = decision.action in {FetchAction.FETCH, FetchAction.FETCH_ROBOTS}
        if is_contact and not self._may_ask(lease, decision.address):
            return Decision(FetchAction.REFUSE, PRIVATE_ADDRESS)
        return decision

    def _may_ask(self, lease: Lease[Shard], address: str) -> bool:
        """Return whether the page that needs the URL of *lease* may get anything from its host.

        A page from the public internet must not read from a private network. *address* is that of
        the host; "" if a proxy looks it up. It may be any address then, so a page that came from a
        public one gets nothing. One that came through a proxy may ask: when the answer is there,
        the store compares the proxies.
        """
        addresses = lease.shard.hosts.addresses
        page_place = self.renderer.store.place_of(lease.entry.via) if self.renderer else ""
        if not address or addresses is None:
            return page_place != "public"
        # Any of the host's addresses may be contacted.
        known = addresses.known_addresses(host_of(lease.entry.url))
        all_known = known if isinstance(known, list) else [address]
        return all(may_give(place_of(one), page_place) for one in all_known)

    def prepare(self, fetch: Fetch) -> Request | Ending:
        """Return the Request, with the fields of the script or browser that needs the answer."""
        entry = fetch.lease.entry
        if fetch.refusal or self.renderer is None:
            return Ending(Way.FINISH, fetch.refusal)
        method, headers, audience = self.renderer.store.head_of(entry.request)
        request = self.requests.for_link(entry, headers, method)
        # Only requests of a host's own pages may have its credentials. The store has decided this
        # when the first page needed the answer, for which pages of other sites may wait as well.
        fetch.has_credentials = audience == "own"
        request.meta["dont_merge_cookies"] = not fetch.has_credentials
        fetch.lease.shard.hosts.budgets.ledger.note_start(entry)
        return fetch.bind(request)

    async def accept(self, response: Response, fetch: Fetch) -> list[Page]:
        """Send the signal ``unprocessed`` for the archive, and return no Page."""
        if fetch.is_walled:
            return []
        page = self.reader.page_of(response, fetch)
        # Replay tools would take an archived 304 or preflight for the script.
        if page.status != _NOT_MODIFIED and page.method != "OPTIONS":
            await self.items.hand_over(page, fetch, SUBRESOURCE)
        return []

    def finish(
        self, lease: Lease[Shard], outcome: str, fetch: Fetch | None, robots_line: str
    ) -> Finish:
        """Log *outcome*, and give the answer to the pages that wait for it."""
        entry = lease.entry
        visit = _visit(lease.shard, entry, outcome, fetch)
        return_page(lease, fetch)
        self._log(entry, outcome, visit, fetch, robots_line)
        if self.renderer is not None:
            response = _whole_response(fetch)
            self.renderer.end_subresource(
                entry.request,
                entry.via,
                outcome,
                None if response is None else self.renderer.answer_of(response),
                was_sent=bool(fetch or entry.attempts),  # now, or in an earlier try
            )
        # Only the bytes of a part of a page are counted.
        return Finish(NOTHING._replace(received=0 if fetch is None else fetch.received_bytes))

    def _log(
        self,
        entry: Entry,
        outcome: str,
        visit: Visit,
        fetch: Fetch | None = None,
        robots_line: str = "",
    ) -> None:
        """Log *outcome*, and count it apart from the outcomes of pages."""
        self.outcome_log.write(entry, outcome, visit, fetch=fetch, robots=robots_line)
        self.stats.inc_value(f"render/outcome/{outcome}")

    def note_end(self, lease: Lease[Shard], way: Way, why: str) -> None:
        """Tell the renderer of a dropped entry, so that it may submit another one."""
        if way is Way.DROP and self.renderer is not None:
            self.renderer.on_end(lease.entry.request, lease.entry.via)

    def drop(self, shard: Shard, entry: Entry) -> None:
        """Log that *entry* is dropped, and have its pages rendered without it."""
        self._log(entry, DROPPED, _visit(shard, entry, DROPPED))
        if self.renderer is not None:
            self.renderer.end_subresource(entry.request, entry.via, DROPPED, None)


def _visit(shard: Shard, entry: Entry, outcome: str, fetch: Fetch | None = None) -> Visit:
    """Return the facts about the answer for the log. A subresource is not visited again."""
    return decide(
        entry,
        outcome,
        None if fetch is None else fetch.answer,
        before=None,
        at=shard.clock(),
        records=shard.hosts.records,
        visits=None,
    )


def _whole_response(fetch: Fetch | None) -> Response | None:
    """Return the whole response of a host to *fetch*; None if there is none that counts."""
    response = None if fetch is None else fetch.response
    if fetch is None or response is None or fetch.is_walled or "truncated" in response.flags:
        return None
    return response
