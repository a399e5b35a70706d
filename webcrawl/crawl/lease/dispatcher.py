"""Decides which request, if any, is sent for a lease at the moment.

``dispatch`` turns a lease into the Request for its URL, or for its host's robots.txt. It returns
nothing when the host must be looked up, must wait, or must be left alone. fetch.py describes the
lease from then on, completion.py its end.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from webcrawl.crawl.lease.completion import Way
from webcrawl.crawl.lease.outcome_log import OVER_BUDGET
from webcrawl.frontier import ASIDE, NO_URLS, ROBOTS_REDIRECT, SUBRESOURCE, Entry
from webcrawl.hosts.politeness.preconditions import Decision, FetchAction
from webcrawl.net.guard import place_of, plain_address
from webcrawl.net.outcomes import OUTCOMES, errback_error
from webcrawl.render.subresources import PRIVATE_ADDRESS, may_give
from webcrawl.revisit.history import history_of
from webcrawl.revisit.validators import conditional_headers
from webcrawl.urls import host_of, origin_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy import Request

    from webcrawl.crawl.lease.completion import Completion
    from webcrawl.crawl.lease.lease_requests import LeaseRequests
    from webcrawl.crawl.lease.services import ProcessServices
    from webcrawl.crawl.lease.side_downloads import SideDownloads
    from webcrawl.crawl.links.submission import LinkSubmitter
    from webcrawl.crawl.shard.shard import Shard
    from webcrawl.frontier import Lease
    from webcrawl.render.store import SavedPage
    from webcrawl.rights.statements import Statement


# Seconds until a part of a host is checked again while another part fetches robots.txt.
_ROBOTS_WAIT_SECS = 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dispatcher:
    """Decides what to send for each lease.

    It checks the rules for waiting URLs, the list of pages that hang the parser, and the
    preconditions of the host, in this order.
    """

    services: ProcessServices
    side_downloads: SideDownloads
    requests: LeaseRequests
    completion: Completion
    links: LinkSubmitter

    def dispatch(self, lease: Lease[Shard]) -> Request | None:  # noqa: PLR0911, PLR0912  # one for each case
        """Return the Request to send for *lease*; None when there is nothing to send."""
        entry, completion = lease.entry, self.completion
        shard = lease.shard
        if not self._is_wanted(entry):
            completion.end_unsent(lease, Way.DROP)
            return None

        if self.services.rendering is not None:
            page = self.services.rendering.rendered(entry)
            if page is not None:
                return self._answer(lease, page)

        if entry.kind == SUBRESOURCE and (gate := shard.admission.refusal(entry)):
            return self._refuse(lease, gate if gate in OUTCOMES else OVER_BUDGET)
        if entry.kind not in NO_URLS and entry.kind != SUBRESOURCE:
            reason = shard.admission.stops(entry)
            if reason:
                completion.end_unsent(lease, Way.PARK, reason)
                return None
            is_readable = not entry.history or history_of(entry) is not None
            is_poison = self.services.reading.is_poison(entry.url)
            if is_poison or not is_readable:
                request = self._refuse(lease, "poison" if is_poison else "unreadable")
                if is_poison:
                    self.services.reading.set_aside(entry.url)
                return request

        decision = self._decide(lease)
        match decision.action:
            case FetchAction.FETCH | FetchAction.FETCH_ROBOTS:
                return self._contact(lease, decision)
            case FetchAction.REFUSE:
                return self._refuse(lease, decision.outcome, decision.robots_line)
            case FetchAction.RETRY:
                secs = completion.host_release.after_failed_look_up(lease, decision)
                completion.end_unsent(lease, Way.PUT_BACK, rest=secs)
            case FetchAction.RESOLVE:
                completion.end(lease, Way.PUT_BACK)
                completion.host_release.look_up(lease)
            case FetchAction.WAIT:
                if decision.outcome:  # the name servers deny the host, but may be wrong
                    self.services.rules.outage.lookup_failed(host_of(entry.url), decision.outcome)
                redirect = None
                if decision.robots_url:
                    redirect = completion.host_release.robots_redirect(
                        entry.url, decision.robots_url
                    )
                completion.end_unsent(lease, Way.PUT_BACK, rest=decision.secs, next_entry=redirect)
        return None

    def _answer(self, lease: Lease[Shard], page: SavedPage) -> Request:
        """Return the Request for *page*, which was fetched before: its host is not contacted."""
        request: Any = self.requests.for_entry(lease.entry, {})  # only links are rendered
        history = history_of(lease.entry)
        return self.completion.begin(lease, history=history, rendered=page).bind(request)

    def _decide(self, lease: Lease[Shard], *, is_host_looked_up: bool = False) -> Decision:
        """Return the decision about *lease*, and submit the host's new sitemaps.

        The sitemaps come from a robots.txt that was just parsed. If the crawl crashed before they
        were submitted, a later run parses the robots.txt in the host's record, and submits them.
        *is_host_looked_up* is explained in ``Preconditions.decide``. Raises OSError when the disk
        is full.
        """
        entry = lease.entry
        decision = lease.shard.hosts.preconditions.decide(
            entry, is_host_looked_up=is_host_looked_up
        )
        if decision.sitemaps:
            via = f"{origin_of(entry.url)}/robots.txt"
            self.links.submit_sitemaps(decision.sitemaps, via=via, depth=entry.depth)
        if entry.kind != SUBRESOURCE:
            return decision
        is_contact = decision.action in {FetchAction.FETCH, FetchAction.FETCH_ROBOTS}
        if is_contact and not self._may_ask(lease, decision.address):
            return Decision(FetchAction.REFUSE, PRIVATE_ADDRESS)
        return decision

    def _is_wanted(self, entry: Entry) -> bool:
        """Return whether *entry* is still needed.

        False if the side download is over, if a newer robots redirect has replaced this one or this
        one cannot be followed (``note_unverified``), or if the subresource was fetched, or is being
        fetched, for another entry.
        """
        if entry.kind == ASIDE:
            return entry.via in self.side_downloads
        rendering = self.services.rendering
        if entry.kind == SUBRESOURCE:
            sent = rendering.store.pending_request(entry.request) if rendering else None
            fetches = self.completion.under_way.values()
            is_sent = any(
                fetch.lease.entry.request == entry.request and not fetch.robots_url
                for fetch in fetches
            )
            return sent is not None and sent.url == entry.url and not is_sent
        if entry.kind != ROBOTS_REDIRECT:
            return True
        if self.services.rules.hosts.policies.rules.withholds(entry.via):
            return False
        shard = self.services.shards.find(entry.via)  # None: it has left
        return shard is not None and shard.hosts.robots.robots_redirect(entry.via) == entry.url

    def _may_ask(self, lease: Lease[Shard], address: str) -> bool:
        """Return whether the page that needs the URL of *lease* may get anything from its host.

        *address* is that of the host, "" behind a proxy. Behind which one is known when it has
        answered: then the store decides.
        """
        rendering = self.services.rendering
        addresses = lease.shard.hosts.addresses
        page_place = rendering.store.place_of(lease.entry.via) if rendering else ""
        if not address or addresses is None:
            return page_place != "public"
        known = addresses.known_addresses(host_of(lease.entry.url))
        all_known = known if isinstance(known, list) else [address]
        return all(may_give(place_of(one), page_place) for one in all_known)

    def resume(self, lease: Lease[Shard]) -> Request | None:
        """Return the Request for the robots.txt of a new host that was just looked up.

        The URL of *lease* is back in its queue. If the host does not need its robots.txt, or must
        wait, it is released and the result is None.
        """
        shard = lease.shard
        # Hosts that share a pause per IP address are released: only ``_contact`` claims addresses.
        if shard.can_hand_out and not self.services.rules.shares_clocks:
            decision = self._decide(lease, is_host_looked_up=True)
            is_robots_needed = (
                decision.action is FetchAction.FETCH_ROBOTS
                and not self._is_robots_requested(lease, decision)
            )
            # ``_promise`` records the contact, unless it returns seconds that the host must wait.
            if is_robots_needed and not self._promise(lease, decision):
                self.services.rules.outage.note_contact()
                return self._send_robots(lease, decision.robots_url, "")

        shard.frontier.release(lease.key, rest=0.0)
        return None

    def _contact(self, lease: Lease[Shard], decision: Decision) -> Request | None:
        """Return the Request that *decision* allows for *lease*; None if its host must wait.

        Also None for a side download, whose Request the engine has already.
        """
        shard = lease.shard
        address = decision.address if self.services.rules.shares_clocks else ""
        is_robots_requested = self._is_robots_requested(lease, decision)
        secs = _ROBOTS_WAIT_SECS if is_robots_requested else self._promise(lease, decision)
        if address and not secs:
            secs = shard.frontier.claim(lease, plain_address(address))
        if secs:
            self.completion.end_unsent(lease, Way.PUT_BACK, rest=secs)
            return None

        self.services.rules.outage.note_contact()
        entry = lease.entry
        if entry.kind == ROBOTS_REDIRECT:
            return self._send_robots(lease, entry.url, address)
        if decision.action is FetchAction.FETCH_ROBOTS:
            # The URL waits in its queue meanwhile; only the host stays in process.
            self.completion.end(lease, Way.PUT_BACK)
            return self._send_robots(lease, decision.robots_url, address)
        if entry.kind != ASIDE:
            return self._send(
                lease,
                address=address,
                robots_line=decision.robots_line,
                statements=decision.statements,
            )

        # The engine already has the request of a side download, which waits for this turn.
        if not self.side_downloads.give(entry.via, self.completion.begin(lease, address=address)):
            self.completion.end_unsent(lease, Way.DROP)
        return None

    def _promise(self, lease: Lease[Shard], decision: Decision) -> float:
        """Record that a contact starts; return the seconds to wait first, 0 if it may start now.

        The record on disk is needed because the frontier forgets a host without a queue. If this
        process dies now, only this promise makes the next one wait.
        """
        entry, shard = lease.entry, lease.shard
        min_rest = shard.hosts.politeness.min_rest(
            entry.host, entry.url, crawl_delay=decision.crawl_delay
        )
        return shard.frontier.promise(lease.key, min_rest)

    def _is_robots_requested(self, lease: Lease[Shard], decision: Decision) -> bool:
        """Return whether another queue of the host is already waiting for its robots.txt."""
        if lease.key == lease.entry.host or decision.action is not FetchAction.FETCH_ROBOTS:
            return False
        fetches = self.completion.under_way.values()
        return any(
            fetch.robots_url == decision.robots_url for fetch in fetches if not fetch.is_released
        )

    def _refuse(self, lease: Lease[Shard], outcome: str, robots_line: str = "") -> Request | None:
        """Finish the URL of *lease* with *outcome*, without a request to its host.

        The Request of a spider is returned all the same, because its errback must be called.
        """
        entry = lease.entry
        if entry.extra:
            return self._send(lease, refusal=outcome, robots_line=robots_line)
        if entry.kind == ASIDE:
            self.side_downloads.refuse(entry.via, errback_error(outcome)(f"{entry.url}: {outcome}"))
        self.completion.end_unsent(lease, Way.FINISH, outcome, robots_line=robots_line)
        return None

    def _send(
        self,
        lease: Lease[Shard],
        *,
        address: str = "",
        refusal: str = "",
        robots_line: str = "",
        statements: Sequence[Statement] = (),
    ) -> Request | None:
        """Return the Request for the URL of *lease*; None if a restart has lost it.

        With a *refusal* nothing is sent: the downloader fails the Request, because an ordinary
        Request may have an errback that waits for the result.
        """
        history = history_of(lease.entry)
        method = "GET"
        audience = ""
        headers: dict[str, str] = {}
        if self.services.rendering is not None and lease.entry.kind == SUBRESOURCE:
            store = self.services.rendering.store
            method, headers, audience = store.head_of(lease.entry.request)
        if history is not None:
            headers = conditional_headers(lease.entry, history, lease.shard.hosts.records)
        request = self.requests.for_entry(lease.entry, headers, method)
        if request is None:
            self.completion.end_unsent(lease, Way.DROP)
            return None

        if lease.entry.kind == SUBRESOURCE:
            # Decided when the first page needed it: those of other sites may wait for it since.
            request.meta["dont_merge_cookies"] = audience != "own"
        if not refusal:
            lease.shard.hosts.budgets.ledger.note_start(lease.entry)
        fetch = self.completion.begin(
            lease, address=address, refusal=refusal, robots_line=robots_line, history=history
        )
        fetch.statements = statements
        return fetch.bind(request)

    def _send_robots(self, lease: Lease[Shard], url: str, address: str) -> Request:
        """Return the Request for the robots.txt *url*, sent with the host of *lease*."""
        fetch = self.completion.begin(lease, address=address, robots_url=url)
        return fetch.bind(self.requests.for_robots(url))
