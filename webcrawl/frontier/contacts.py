"""Contacts: what the frontier journals before and after a host is contacted.

A contact begins when the frontier hands out a URL of the host, and ends when the host is released.
The invariant: a contact, and the rest that is promised for it, are on disk before it begins. A rest
is on disk before it begins, too, unless a restart would infer one that is at least as long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from webcrawl.frontier.delay_policy import cut_off
from webcrawl.frontier.done_log import Contact, Release
from webcrawl.frontier.leases import Lease
from webcrawl.frontier.parts import FrontierParts

# Contacts journaled by one write. If a crash comes before a journaled host was contacted, the host
# only waits a little longer afterwards.
_CONTACTS_PER_WRITE = 16


class Contacts:
    """The contacts of the hosts in process, of the frontier with *parts*."""

    def __init__(self, parts: FrontierParts) -> None:
        #: Called when ``Frontier.ready_at`` may return an earlier time than before.
        self.on_change: Callable[[], object] = lambda: None
        self._parts = parts
        self._back = parts.back
        self._log = parts.log
        self._shared = parts.shared
        self._leases = parts.leases
        self._counts = parts.counts
        self._clock = parts.clock
        self._delay = parts.policies.delay
        self._cut_off_rest = parts.policies.cut_off_rest

    def journal_next(self) -> None:
        """Journal contacts of the first host in line, and of some hosts after it, in one write.

        These hosts will be contacted before all others, except for hosts that are brought forward.
        Journaling a host twice does no harm.
        """
        queues = [*self._back.line.next_ready(_CONTACTS_PER_WRITE)]
        now = self._clock()
        self._log.write(*(Contact(queue.host, now, queue.min_rest) for queue in queues))
        for queue in queues:
            queue.journaled = self._log.number

    def claim(self, lease: Lease[Any], key: str) -> float:
        """Claim the shared clock *key*, such as an address, for the contact of *lease*'s host.

        Returns 0.0 if the clock is free and its rest is over. The clock is then in process until
        the host is released, and the contact is on disk. Otherwise returns in how many seconds to
        try again: the caller puts the lease back and lets the host rest for that long, without a
        contact. Each host is given a different time. Claiming a clock that the host already holds
        changes nothing. Makes one write, or none if the claim is refused.

        Raises LookupError if the host is not in process, ValueError if it holds another clock.
        """
        self._back.find_in_process(lease.key)  # raises if it is not
        wait = self._shared.claim(lease.key, key)
        self._counts.refused += wait > 0
        return wait

    def promise(self, host: str, min_rest: float) -> float:
        """Guarantee that *host* rests at least *min_rest* seconds after the contact about to begin.

        This also holds if a crash cuts the contact off or its lease expires. Makes one write, or
        none if that long a rest was promised before.

        Returns 0.0 if the contact may begin. Otherwise returns in how many seconds it may, and the
        caller lets the host rest for that long. This happens if the previous contact may not have
        been recorded, or if the previous process ended without recording how long the host rests.
        """
        queue = self._back.find_in_process(host)
        # Contacts until then may be unknown, and must be followed by the rest, too.
        since = self._parts.unlogged_until
        if min_rest > queue.min_rest and min_rest > cut_off(self._delay, 0.0):
            self._log.write(Contact(host, queue.contact, min_rest))
            queue.min_rest = min_rest
            # The previous process may have contacted the host without recording so long a rest.
            since = max(since, self._parts.resumed)
        return max(since + min_rest - self._clock(), 0.0) if since else 0.0

    def release(
        self,
        host: str,
        *,
        rest: float,
        min_rest: float | None = None,
        shared_rest: float | None = None,
        is_far: bool = False,
        is_cut_off: bool = False,
    ) -> None:
        """End the contact of *host*: it may be contacted again in *rest* seconds. O(log hosts).

        *min_rest* is promised for the next contact. None means that there was no contact, and
        leaves the last promise as it was. The shared clock that the host has claimed rests for
        *shared_rest* seconds, by default as long as the host. If the contact *is_cut_off*, both
        rest longer, as the server may still be answering. With *is_far* the host counts as far off,
        however short its rest is (supply.py). Writes to disk only for a rest that a restart could
        not infer.

        Raises LookupError if the host is not in process: a double release is a bug.
        """
        queue = self._back.find_in_process(host)
        now = self._clock()
        shared_rest = rest if shared_rest is None else shared_rest
        if is_cut_off:
            rest = max(rest, self._cut_off_rest)
            shared_rest = max(shared_rest, self._cut_off_rest)

        # After kill -9, a host whose contact was not released rests as long as the delay policy
        # says for a contact that lasted until then, or for its last *min_rest* if that is longer.
        # Only a still longer rest must be on disk now.
        at_once = rest > queue.min_rest and rest > cut_off(self._delay, now - queue.contact)
        if min_rest is not None:
            queue.min_rest = min_rest
        is_contact = min_rest is not None
        release = Release(host, now + rest, queue.min_rest, is_contact)
        self._log.release(release, at_once=at_once)

        self._counts.count_contacts(is_contact)
        self._shared.release(host, rest=shared_rest)
        if is_contact:
            queue.end_turn()
        self._back.end(queue, now + rest, now, is_far=is_far)
        self._leases.end_contact(host)
        self.on_change()

    def expire(self, lease: Lease[Any], now: float) -> None:
        """End the contact of *lease*, whose end was never reported.

        The host rests as after a download that lasted until *now*, or for as long as was promised.
        """
        shared_rest = cut_off(self._delay, now - lease.acquired_at)
        rest = max(shared_rest, self._back.find_in_process(lease.key).min_rest)
        self.release(lease.key, rest=rest, shared_rest=shared_rest)

    def hold(self, host: str, rest: float) -> None:
        """Let all parts of *host* rest for at least *rest* seconds from now, even after a restart.

        The rest is stored under the host's own name. No URLs are queued under that name while the
        host is divided into parts. Makes one write, or none if the host already rests for so long.
        """
        now = self._clock()
        rests = self._back.remembered
        until, _ = rests.find(host) or (0.0, 0.0)
        if until < now + rest:
            self._log.release(Release(host, now + rest, 0.0), at_once=True)
            rests.remember(host, now + rest, 0.0, now=now)
