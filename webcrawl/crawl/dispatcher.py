"""Decides which request, if any, is sent for a lease at the moment.

``dispatch`` turns a lease into the Request for its URL, or for its host's robots.txt. It returns
nothing when the host must be looked up, must wait, or must be left alone. fetch.py describes the
lease from then on, completion.py its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scrapy import Request

from webcrawl.crawl.completion import Completion
from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.crawl.lease.services import ProcessServices
from webcrawl.crawl.links.submission import LinkSubmitter
from webcrawl.crawl.shard.shard import Shard
from webcrawl.crawl.task.robots_fetch import RobotsFetch
from webcrawl.crawl.task.task import Ending, Task, Tasks, Way
from webcrawl.frontier import Lease
from webcrawl.hosts.politeness.preconditions import Decision, FetchAction
from webcrawl.net.guard import plain_address
from webcrawl.urls import host_of, origin_of

# Seconds until a part of a host is checked again while another part fetches robots.txt.
_ROBOTS_WAIT_SECS = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Dispatcher:
    """Decides what to send for each lease.

    It checks the rules for waiting URLs, the list of pages that hang the parser, and the
    preconditions of the host, in this order.
    """

    services: ProcessServices
    completion: Completion
    links: LinkSubmitter
    tasks: Tasks
    robots: RobotsFetch

    def dispatch(self, lease: Lease[Shard]) -> Request | None:
        """Return the Request to send for *lease*; None when there is nothing to send."""
        task = self.tasks.of(lease.entry)
        lease.task = task
        start = task.begin(lease)
        if isinstance(start, Ending):
            if start.way is Way.FINISH:
                # A refusal also goes through the task, because a spider's Request has an errback
                # that must be called.
                return self._send(lease, refusal=start.why)
            self.completion.end_unsent(lease, start.way, start.why)
            return None
        if start is not None:  # a rendered page on disk answers, and the host is not contacted
            return self._send(lease, stored=start)
        return self._follow(lease, self._decide(lease))

    def _follow(self, lease: Lease[Shard], decision: Decision) -> Request | None:
        """Do what *decision* says about *lease*; return the Request to send, if there is one."""
        entry = lease.entry
        completion = self.completion
        match decision.action:
            case FetchAction.FETCH | FetchAction.FETCH_ROBOTS:
                return self._contact(lease, decision)
            case FetchAction.REFUSE:
                return self._send(lease, refusal=decision.outcome, robots_line=decision.robots_line)
            case FetchAction.RETRY:
                secs = completion.host_release.rest_after_failed_look_up(lease, decision)
                completion.end_unsent(lease, Way.PUT_BACK, rest=secs)
            case FetchAction.RESOLVE:
                # The URL waits in its queue, while its host stays in process until it is found.
                completion.end(lease, Way.PUT_BACK)
                completion.host_release.look_up(lease)
            case FetchAction.WAIT:
                if decision.outcome:  # the name servers deny the host, but may be wrong
                    self.services.rules.outage.lookup_failed(host_of(entry.url), decision.outcome)
                # If the robots.txt is on another host, it is fetched before this URL.
                redirect = None
                if decision.robots_url:
                    redirect = completion.host_release.robots_redirect(
                        entry.url, decision.robots_url
                    )
                completion.end_unsent(lease, Way.PUT_BACK, rest=decision.secs, next_entry=redirect)
        return None

    def _decide(self, lease: Lease[Shard], *, is_host_looked_up: bool = False) -> Decision:
        """Return the decision about *lease*, and submit the host's new sitemaps.

        The sitemaps come from a robots.txt that was just parsed. If the crawl crashed before they
        were submitted, a later run parses the robots.txt in the host's record, and submits them.
        *is_host_looked_up* is explained in ``Preconditions.decide``. Raises OSError when the disk
        is full.
        """
        entry = lease.entry
        task: Task = lease.task
        decision = lease.shard.hosts.preconditions.decide(
            entry,
            obeys_robots=task.obeys_robots,
            is_for_page=task.is_for_page,
            is_host_looked_up=is_host_looked_up,
        )
        if decision.sitemaps:
            via = f"{origin_of(entry.url)}/robots.txt"
            self.links.submit_sitemaps(decision.sitemaps, via=via, depth=entry.depth)
        return task.review(lease, decision)

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

        shard.frontier.contacts.release(lease.key, rest=0.0)
        return None

    def _contact(self, lease: Lease[Shard], decision: Decision) -> Request | None:
        """Return the Request that *decision* allows for *lease*; None if its host must wait.

        Also None for a side download, whose Request the engine has already.
        """
        shard = lease.shard
        address = decision.address if self.services.rules.shares_clocks else ""
        is_robots_requested = self._is_robots_requested(lease, decision)
        wait_secs = _ROBOTS_WAIT_SECS if is_robots_requested else self._promise(lease, decision)
        if address and not wait_secs:
            # Hosts with the same address share its pause, so the address must be free as well.
            wait_secs = shard.frontier.contacts.claim(lease, plain_address(address))
        if wait_secs:
            self.completion.end_unsent(lease, Way.PUT_BACK, rest=wait_secs)
            return None

        self.services.rules.outage.note_contact()
        if decision.action is FetchAction.FETCH_ROBOTS:
            # The URL waits in its queue meanwhile; only the host stays in process.
            self.completion.end(lease, Way.PUT_BACK)
            return self._send_robots(lease, decision.robots_url, address)
        return self._send(
            lease,
            address=address,
            robots_line=decision.robots_line,
            statements=decision.statements,
        )

    def _promise(self, lease: Lease[Shard], decision: Decision) -> float:
        """Record that a contact starts; return the seconds to wait first, 0 if it may start now.

        The record on disk is needed because the frontier forgets a host without a queue. If this
        process dies now, only this promise makes the next one wait.
        """
        entry = lease.entry
        shard = lease.shard
        min_rest = shard.hosts.politeness.min_rest(
            entry.host, entry.url, crawl_delay=decision.crawl_delay
        )
        return shard.frontier.contacts.promise(lease.key, min_rest)

    def _is_robots_requested(self, lease: Lease[Shard], decision: Decision) -> bool:
        """Return whether another queue of the host is already waiting for its robots.txt.

        Only a host that is divided into parts has several queues. The keys of their leases differ
        from the host.
        """
        if lease.key == lease.entry.host or decision.action is not FetchAction.FETCH_ROBOTS:
            return False
        fetches = self.completion.under_way.values()
        return any(
            fetch.robots_url == decision.robots_url for fetch in fetches if not fetch.is_released
        )

    def _send_robots(self, lease: Lease[Shard], url: str, address: str) -> Request | None:
        """Return the Request for the robots.txt *url* that the URL of *lease* needs."""
        return self._send(
            lease, self.robots, address=address, robots_url=url, robots_for=lease.entry.url
        )

    def _send(self, lease: Lease[Shard], task: Task | None = None, **facts: Any) -> Request | None:
        """Return the Request for *lease*, prepared by *task*, or else by the task of the lease.

        *facts* are fields of the Fetch. The result is None if nothing is to be sent after all, or
        if the engine has the Request already.
        """
        fetch = Fetch(
            lease=lease,
            task=task or lease.task,
            release=self.completion.host_release.after_contact,
            **facts,
        )
        # The contact is under way from now on. If the task finds that nothing is to be sent,
        # ``end_unsent`` removes it again.
        self.completion.under_way[lease.id] = fetch
        prepared = fetch.task.prepare(fetch)
        if isinstance(prepared, Ending):
            self.completion.end_unsent(
                lease, prepared.way, prepared.why, robots_line=fetch.robots_line
            )
            return None
        if fetch.is_contact:
            # BANDWIDTH_MAX counts these bytes now; ``note_end`` replaces them by those received.
            fetch.expected_bytes = self.services.rules.rates.expected_bytes
            self.services.rules.rates.note_start()
        return prepared
