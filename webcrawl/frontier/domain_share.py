"""The share of the workers that hosts of one registered domain may use while others wait.

A tarpit keeps a worker busy for as long as the timeouts allow, and a domain can have any number of
hosts. So once a domain uses its share of the workers, the back end *holds* its other ready queues
outside the ready line. A domain may exceed its share with workers that no other domain can use:
there must be more idle workers than hosts that wait within their own domains' shares. Resting hosts
count as waiting, since they come back. All operations are O(1) unless stated otherwise.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from webcrawl.frontier.back_queue import BackQueue


class Domain:
    """Counters of one registered domain.

    *hosts* have a queue, *busy* of them are in process; *held* are the queues held outside the
    line.
    """

    __slots__ = ("busy", "held", "hosts", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.hosts = 0
        self.busy = 0
        self.held: deque[BackQueue] = deque()


class DomainShares:
    """Worker shares of the registered domains.

    While others wait, at most *max_busy* hosts of a domain may be in process, of *workers* in
    all.
    By default each host is a domain of its own, and nothing is ever held.
    """

    def __init__(
        self, *, domain_of: Callable[[str], str] = str, workers: int = 1, max_busy: int = 1
    ) -> None:
        self.held = 0
        self._domain_of = domain_of
        self._idle = self._workers = workers
        self._max_busy = max_busy
        self._domains: dict[str, Domain] = {}
        # Domains with held queues, in the order in which they get workers beyond their shares.
        self._domains_with_held: dict[Domain, None] = {}
        # Workers that hosts in the back end could take without exceeding a share.
        self._wanted = 0

    def resize(self, *, workers: int, max_busy: int) -> None:
        """Set the number of workers and the share of a domain. O(domains)."""
        self._idle += workers - self._workers
        self._workers, self._max_busy = workers, max_busy
        domains = self._domains.values()
        self._wanted = sum(max(0, min(domain.hosts, max_busy) - domain.busy) for domain in domains)

    def enter(self, host: str) -> Domain:
        """Count a new queue, that of *host*, and return its domain."""
        name = self._domain_of(host)
        domain = self._domains.get(name)
        if domain is None:
            domain = self._domains[name] = Domain(name)
        domain.hosts += 1
        self._wanted += domain.busy < domain.hosts <= self._max_busy
        return domain

    def leave(self, domain: Domain) -> None:
        """Stop counting a queue of *domain*, and forget the domain if it was the last."""
        self._wanted -= domain.busy < domain.hosts <= self._max_busy
        domain.hosts -= 1
        if not domain.hosts:
            del self._domains[domain.name]

    def begin(self, domain: Domain) -> None:
        """Count a host of *domain* as in process."""
        self._wanted -= domain.busy < domain.hosts and domain.busy < self._max_busy
        domain.busy += 1
        self._idle -= 1

    def end(self, domain: Domain) -> None:
        """Stop counting a host of *domain* as in process."""
        domain.busy -= 1
        self._idle += 1
        self._wanted += domain.busy < domain.hosts and domain.busy < self._max_busy

    def is_within(self, domain: Domain) -> bool:
        """Return whether *domain* may have one more host in process, whatever others want."""
        return domain.busy < self._max_busy

    @property
    def has_spare(self) -> bool:
        """Whether an idle worker may exceed a domain's share to serve a held queue."""
        return bool(self.held) and self._idle > self._wanted

    def hold(self, queue: BackQueue) -> None:
        """Hold *queue* until ``take`` or ``release`` gives it back."""
        queue.domain.held.append(queue)
        self._domains_with_held[queue.domain] = None
        self.held += 1

    def take(self, domain: Domain | None = None) -> BackQueue:
        """Remove and return the queue held longest, of *domain* or of the next domain in turn."""
        if domain is None:
            domain = next(iter(self._domains_with_held))
        queue = domain.held.popleft()
        self._stop_holding(domain)
        return queue

    def release(self, queue: BackQueue) -> None:
        """Stop holding *queue*. O(held queues of its domain)."""
        queue.domain.held.remove(queue)
        self._stop_holding(queue.domain)

    def _stop_holding(self, domain: Domain) -> None:
        self.held -= 1
        del self._domains_with_held[domain]
        if domain.held:
            self._domains_with_held[domain] = None
