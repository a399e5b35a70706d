"""Releases the host of a lease as soon as the transfer is over.

Called by the downloader, through ``Fetch.release``, at the end of a contact, and at the end of a
look-up. It decides how long the host pauses, and updates the host's record and rules. A contact
does not count while this machine's network is down (hosts/politeness/outage.py), when the request
was lost on a kept connection, or when its credentials were withheld: neither as a failure of the
host nor as a try of its URL.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from scrapy.http import Response

from webcrawl.clock import wall_time
from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.crawl.lease.services import ProcessServices
from webcrawl.crawl.links.page_intake import PageState
from webcrawl.crawl.links.reading import ReadingTooLongError
from webcrawl.crawl.shard.shard import Shard
from webcrawl.frontier import ROBOTS_REDIRECT, Entry, Lease
from webcrawl.frontier.entry import FOREIGN
from webcrawl.hosts.politeness.outage import SILENT
from webcrawl.hosts.politeness.preconditions import Decision
from webcrawl.net.latencies import latencies_of
from webcrawl.net.outcomes import (
    FirstByteTimeoutError,
    UnverifiedError,
    is_document,
    is_stale,
    outcome_of,
    retry_after,
)
from webcrawl.net.walls import ALIKE, refusal
from webcrawl.urls import host_of, origin_of
from webcrawl.urls.registered_domain import domain_of

logger = logging.getLogger(__name__)


class HostRelease:
    """Releases hosts after a contact.

    Any error stops the crawl, because a host that is never released would block its queue for ever.
    *wake* is called after each look-up of a host.
    """

    def __init__(self, *, services: ProcessServices, wake: Callable[[], None]) -> None:
        self._rules = services.rules
        self._stats = services.crawler.stats
        self._reading = services.reading
        self._stop = services.stop
        self._shards = services.shards
        # Called after each look-up, so that the engine asks for the next request.
        self._wake = wake
        self._latencies = latencies_of(services.crawler)
        # Leases of hosts that are being looked up, by id. The URLs are back in their queues, but
        # the hosts stay in process.
        self._in_look_up: dict[int, Lease[Shard]] = {}
        # The same for hosts whose addresses were found, until a worker is free.
        self._resolved: dict[int, Lease[Shard]] = {}

    @property
    def looking_up(self) -> int:
        """Return the number of hosts in process that are being looked up, without a worker."""
        return len(self._in_look_up)

    def after_contact(self, fetch: Fetch) -> None:
        """Release the host of *fetch*, whose download is over, and start its pause."""
        try:
            if fetch.expected_bytes is not None:
                self._rules.rates.note_end(fetch.expected_bytes)
            if fetch.stored is None:
                self._after_contact(fetch)
            else:  # there was no contact
                self._release(fetch.lease)
        except Exception as error:  # noqa: BLE001  # the host would stay in process
            self._stop.fail(error)

    def _after_contact(self, fetch: Fetch) -> None:
        """Learn from the contact of *fetch*, and release its host for the pause that follows."""
        entry = fetch.lease.entry
        shard = fetch.lease.shard
        frontier = shard.frontier
        politeness = shard.hosts.politeness
        outcome = fetch.outcome
        response = fetch.response
        if response is None and fetch.on_wire is not None:
            # A middleware may have replaced the result, for example by a Request that retries it.
            outcome = outcome_of(fetch.on_wire)
            response = fetch.on_wire if isinstance(fetch.on_wire, Response) else None

        if response is not None and outcome.startswith("http_"):
            history = fetch.history
            wall = shard.hosts.walls.judge(
                fetch.url,
                response,
                is_robots=bool(fetch.robots_url),
                had_document=bool(history and history.holds_document),
            )
            kind = "signed" if fetch.is_signed else "unsigned"
            self._stats.inc_value(f"refused/{kind}/{refusal(response, wall)}")
            outcome = wall or outcome
            fetch.page.score = -(ALIKE in response.flags)
            if wall in response.flags:
                fetch.page.flags = wall
            elif wall and fetch.response is not None:
                fetch.outcome = wall

        # Excused contacts count neither for the host nor as a try of the URL.
        excused = fetch.reached_host and self._excuse(fetch, outcome)
        if excused and not entry.extra:
            # An ordinary Request is finished all the same: its errback has been called.
            fetch.page.raise_state(PageState.PUT_BACK)

        origin = fetch.robots_for or entry.url
        # If the credentials withheld are those of another host, the origin does not wait for them.
        is_lost = (
            fetch.outcome == UnverifiedError.outcome
            and not self._rules.hosts.policies.rules.is_withheld(origin)
        )
        if fetch.robots_url and fetch.outcome and (is_lost or not excused):
            # Counted in the shard that made the request: the origin may belong to another one.
            shard.hosts.search_for(origin, fetch.robots_url).note_request(origin)
            # A challenge does not answer the request: "unreachable" (RFC 9309, section 2.3.1.4).
            self.learn(
                origin,
                fetch.outcome,
                None if fetch.is_walled else fetch.response,
                requested=fetch.robots_url,
            )

        if not fetch.reached_host:
            rest = 0.0
            if fetch.outcome == "dns_failed":
                rest = politeness.lookup_failed(entry.host, entry.url, at_least=0.0)
            self._hold(fetch.lease, rest)
            frontier.contacts.release(fetch.lease.key, rest=rest, shared_rest=0.0)
            return

        self._stats.inc_value("contacts")
        self._record_times(fetch)
        hung_up = response is None or "truncated" in response.flags
        pause = politeness.rest_after(
            entry.host,
            fetch.url,
            took=fetch.took,
            outcome=outcome,
            crawl_delay=shard.hosts.robots.crawl_delay(entry.url),
            retry_after=retry_after(response, now=wall_time()),
            hung_up=hung_up,
            excused=excused,
        )
        if pause.stat:
            self._stats.inc_value(pause.stat)
        self._latencies.rest.add(pause.secs)
        shard.hosts.budgets.origins.end_contact(fetch.url, pause.origin)

        # The pause of the address, if it has a clock of its own.
        shared_rest = None
        if self._rules.shares_clocks:
            took = 0.0 if pause.is_alone else fetch.took
            shared_rest = politeness.shared_rest(took, hung_up=hung_up)
        if pause.for_all_parts:
            self._hold(fetch.lease, pause.secs)
        frontier.contacts.release(
            fetch.lease.key,
            rest=pause.secs,
            min_rest=pause.min_rest,
            shared_rest=shared_rest,
            is_far=pause.is_alone,
            is_cut_off=not outcome,
        )

    def _record_times(self, fetch: Fetch) -> None:
        """Record how long the contact took, and how long its URL waited before."""
        latencies = self._latencies
        entry = fetch.lease.entry
        latencies.download.add(fetch.took)
        if fetch.is_for_page and not (entry.attempts or entry.history):
            latencies.frontier.add(fetch.sent_wall - entry.discovered_at)

    def _excuse(self, fetch: Fetch, outcome: str) -> bool:
        """Excuse the contact of *fetch*, if *outcome* says nothing of the host; return whether."""
        if is_stale(fetch.on_wire):  # the request was lost on a reused connection
            self._stats.inc_value("fetch/resent")
            return True
        if isinstance(fetch.on_wire, UnverifiedError):  # its credentials were withheld
            entry = fetch.lease.entry
            policies = self._rules.hosts.policies.rules
            url = entry.url
            # A robots.txt may have been requested after a redirect from the host that needs it. If
            # the policy of both hosts is the same table, the URLs of that host wait.
            if fetch.robots_for:
                table = policies.name_of(host_of(fetch.robots_for))
                if table == policies.name_of(host_of(url)):
                    url = fetch.robots_for
            policies.note_unverified(origin_of(url), fetch.on_wire)
            return True
        host = fetch.lease.entry.host
        has_answered = False
        if outcome in SILENT:  # after any other outcome it does not matter
            record = fetch.lease.shard.hosts.records.get(host)
            has_answered = record.answered == origin_of(fetch.url)

        # A host that has accepted a new connection, but sent nothing over it.
        failure = fetch.on_wire
        is_mute = isinstance(failure, FirstByteTimeoutError) and not failure.is_reused
        return self._rules.outage.contact_ended(
            host,
            outcome,
            has_answered=has_answered,
            mute_secs=fetch.took if is_mute else None,
        )

    def learn(
        self, url: str, outcome: str, response: Response | None, *, requested: str = ""
    ) -> None:
        """Record the result of a request for the robots.txt, or tdmrep.json, that applies to *url*.

        *response* is None if there was none that counts. *requested* is the URL of the file. The
        rules go to the shard of *url*. If the file is on another host, the entry for it is queued.
        """
        shard = self._shards.find(url)
        if shard is None:
            return  # its shard has left

        hosts = shard.hosts
        robots = hosts.search_for(url, requested)
        try:
            with self._reading.of(robots.robots_url(url)):
                is_final = hosts.politeness.is_final(url, outcome)
                robots_redirect = robots.note_answer(url, outcome, response, is_final=is_final)
        except ReadingTooLongError:
            logger.exception("Nothing is fetched from %s for now", origin_of(url))
            outcome = "robots_unreachable"
            robots_redirect = robots.note_answer(url, outcome, None)

        if robots is not hosts.robots:  # it was a tdmrep.json
            self._stats.inc_value(f"tdmrep/{outcome}")
            return
        self._stats.inc_value(f"robots/{outcome}")
        is_file = is_document(outcome)
        if is_file and hosts.politeness.is_too_long(robots.crawl_delay(url)):
            self._stats.inc_value("robots/long_crawl_delays")

        if robots_redirect is not None:
            self._stats.inc_value("robots/redirects")
            self._shards.requeue(self.robots_redirect(url, robots_redirect), ahead=True)

    def robots_redirect(self, url: str, target: str) -> Entry:
        """Return the entry for *target*, to which the robots.txt needed for *url* redirects."""
        key = self._rules.key_of(target)
        foreign = FOREIGN if domain_of(url) != domain_of(target) else 0
        return Entry(target, key, kind=ROBOTS_REDIRECT, via=origin_of(url), foreign=foreign)

    def look_up(self, lease: Lease[Shard]) -> None:
        """Start looking up the host of *lease*, whose URL is back in its queue.

        The host stays in process, so that name servers are asked only once. No worker waits for the
        result, see ``next_resolved``.
        """
        self._rules.outage.note_contact()
        self._in_look_up[lease.id] = lease
        name = host_of(lease.entry.url)
        lease.shard.hosts.addresses.look_up(  # type: ignore[union-attr]  # otherwise no decision requires a look-up
            name, lambda *found: self._after_look_up(lease, name, *found)
        )

    def _after_look_up(
        self,
        lease: Lease[Shard],
        name: str,
        is_found: bool,
        failure: Exception | None,
    ) -> None:
        """Handle the result of a look-up of the host *name*.

        If its address was not found, the host is released, and its next turn decides. *failure* is
        an unexpected error, which ends the crawl.
        """
        # False if the frontier has taken back the host, or its shard has left.
        is_held = self._in_look_up.pop(lease.id, None) is not None
        if failure is not None:
            self._stop.fail(failure)
        if not is_held or self._stop.has_begun:
            return
        if is_found:
            self._rules.outage.lookup_worked(name)
            self._resolved[lease.id] = lease
        else:
            self._release(lease)
        self._wake()

    def next_resolved(self) -> Lease[Shard] | None:
        """Return a lease whose host was looked up and has an address; None if there is none.

        The host is in process. The caller must contact it now, or release it.
        """
        return self._resolved.popitem()[1] if self._resolved else None

    def release_resolved(self) -> None:
        """Release all hosts whose addresses were found, because no request may be sent now."""
        while lease := self.next_resolved():
            self._release(lease)

    def _release(self, lease: Lease[Shard]) -> None:
        """Release the host of *lease* without a pause. Any error stops the crawl."""
        try:
            lease.shard.frontier.contacts.release(lease.key, rest=0.0)
        except Exception as error:  # noqa: BLE001  # the host would stay in process
            self._stop.fail(error)

    def rest_after_failed_look_up(self, lease: Lease[Shard], decision: Decision) -> float:
        """Count a failed look-up of the host of *lease*; return how many seconds the host pauses.

        *decision* is the dispatcher's; it has the outcome and the shortest pause.
        """
        entry = lease.entry
        self._stats.inc_value(f"retry/{decision.outcome}")
        excused = self._rules.outage.lookup_failed(host_of(entry.url))
        secs = lease.shard.hosts.politeness.lookup_failed(
            entry.host, entry.url, at_least=decision.secs, excused=excused
        )
        self._hold(lease, secs)
        return secs

    def _hold(self, lease: Lease[Shard], secs: float) -> None:
        """Make all parts of the host of *lease* pause for *secs*, if it is divided into parts."""
        if lease.key != lease.entry.host and secs:
            lease.shard.frontier.contacts.hold(lease.entry.host, secs)

    def expire(self, lease: Lease[Shard]) -> None:
        """Forget the look-up for *lease*, because the frontier has taken its host back."""
        for leases in (self._in_look_up, self._resolved):
            leases.pop(lease.id, None)

    def forget_shard(self, shard: Shard) -> None:
        """Forget the look-ups for *shard*, which has left this process."""
        for leases in (self._in_look_up, self._resolved):
            for lease in [lease for lease in leases.values() if lease.shard is shard]:
                del leases[lease.id]
