"""Worker shares: how many workers the hosts of one domain may use while other domains wait.

A tarpit keeps a worker busy for as long as the timeouts allow, and a domain can have any number of
hosts. So once a domain uses its share of the workers, the back end *holds* its other ready queues
outside the ready line. A domain may exceed its share with workers that no other domain can use:
there must be more idle workers than hosts that wait within their own domains' shares. Resting hosts
count as waiting, since they come back. All operations are O(1) unless stated otherwise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from webcrawl.frontier.back_queue import BackQueue


class Domain:
    """Counters of one registered domain.

    *hosts* is the number of its hosts that have a queue, and *busy* how many of them are in
    process. *held* are its ready queues that are kept out of the ready line.
    """

    __slots__ = ("busy", "held", "hosts", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.hosts = 0
        self.busy = 0
        self.held: deque[BackQueue] = deque()


class DomainShares:
    """Worker shares of the registered domains.

    While hosts of other domains wait, at most *max_busy* hosts of a domain may be in process.
    *workers* is the number of all workers, and *domain_of* returns the domain of a host. By default
    each host is a domain of its own, and no queue is ever held.
    """

    def __init__(
        self, *, domain_of: Callable[[str], str] = str, workers: int = 1, max_busy: int = 1
    ) -> None:
        #: Number of held queues of all domains.
        self.held = 0
        self._domain_of = domain_of
        # Number of workers without a host.
        self._idle = workers
        self._workers = workers
        self._max_busy = max_busy
        # Domains with hosts that have a queue, by name.
        self._domains: dict[str, Domain] = {}
        # Domains with held queues, in the order in which they get workers beyond their shares.
        self._domains_with_held: dict[Domain, None] = {}
        # Workers that hosts in the back end could take without exceeding a share.
        self._wanted = 0

    def resize(self, *, workers: int, max_busy: int) -> None:
        """Set the number of workers and the share of a domain. O(domains)."""
        self._idle += workers - self._workers
        self._workers = workers
        self._max_busy = max_busy
        domains = self._domains.values()
        self._wanted = sum(max(0, min(domain.hosts, max_busy) - domain.busy) for domain in domains)

    def enter(self, host: str) -> Domain:
        """Count the new queue of *host*, and return the domain of the host."""
        name = self._domain_of(host)
        domain = self._domains.get(name)
        if domain is None:
            domain = Domain(name)
            self._domains[name] = domain

        domain.hosts += 1
        # The new host wants a worker if its domain may still use one more than its hosts do now.
        self._wanted += domain.busy < domain.hosts <= self._max_busy
        return domain

    def leave(self, domain: Domain) -> None:
        """Stop counting a queue of *domain*, and forget the domain if that was its last queue."""
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
        """Return whether *domain* may have one more host in process without exceeding its share."""
        return domain.busy < self._max_busy

    @property
    def has_spare(self) -> bool:
        """Return whether an idle worker may exceed a domain's share to serve a held queue."""
        return bool(self.held) and self._idle > self._wanted

    def hold(self, queue: BackQueue) -> None:
        """Keep *queue* out of the ready line until ``take`` or ``release`` is called for it."""
        queue.domain.held.append(queue)
        self._domains_with_held[queue.domain] = None
        self.held += 1

    def take(self, domain: Domain | None = None) -> BackQueue:
        """Stop holding the queue that *domain* has held longest, and return it.

        If *domain* is None, it is the next domain in turn.
        """
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
        """Record that *domain* has one held queue less, and give other domains their turn first."""
        self.held -= 1
        del self._domains_with_held[domain]
        if domain.held:
            self._domains_with_held[domain] = None
