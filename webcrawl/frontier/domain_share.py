"""The share of the workers that hosts of one registered domain may hold while others wait.

A tarpit keeps a worker for as long as the time-outs allow, and a domain can have any number of
hosts. So the back end keeps the queues of a domain out of the line (*held*) while as many of its
hosts are in process as its share has. They may go beyond it with workers that no other domain can
use: as long as more workers are idle than hosts of others wait within their own shares, resting
ones too, since they come back. All operations are O(1).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from webcrawl.frontier.back_queue import BackQueue


class Domain:
    """Counts of one registered domain.

    *hosts* with a queue, *busy* ones in process; *held* are the queues out of the line.
    """

    __slots__ = ("busy", "held", "hosts", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.hosts = 0
        self.busy = 0
        self.held: deque[BackQueue] = deque()


class DomainShares:
    """The shares of registered domains in the workers.

    Of each domain *most* hosts may be in process, of *workers* in all, while others wait. By
    default each host is a domain, and nothing is ever held.
    """

    def __init__(
        self, *, domain_of: Callable[[str], str] = str, workers: int = 1, most: int = 1
    ) -> None:
        self.held = 0
        self._domain_of = domain_of
        self._idle = self._workers = workers
        self._most = most
        self._domains: dict[str, Domain] = {}
        # Those with held queues, in the order in which they get workers beyond their shares.
        self._holding: dict[Domain, None] = {}
        # Workers that hosts in the back end could take without exceeding a share.
        self._wanted = 0

    def resize(self, *, workers: int, most: int) -> None:
        """There are so many workers from now on. O(domains)."""
        self._idle += workers - self._workers
        self._workers, self._most = workers, most
        domains = self._domains.values()
        self._wanted = sum(max(0, min(one.hosts, most) - one.busy) for one in domains)

    def enter(self, host: str) -> Domain:
        """*host* gets a queue."""
        name = self._domain_of(host)
        domain = self._domains.get(name)
        if domain is None:
            domain = self._domains[name] = Domain(name)
        domain.hosts += 1
        self._wanted += domain.busy < domain.hosts <= self._most
        return domain

    def leave(self, domain: Domain) -> None:
        """A queue of *domain* is dropped."""
        self._wanted -= domain.busy < domain.hosts <= self._most
        domain.hosts -= 1
        if not domain.hosts:
            del self._domains[domain.name]

    def begin(self, domain: Domain) -> None:
        """A host of *domain* is in process."""
        self._wanted -= domain.busy < domain.hosts and domain.busy < self._most
        domain.busy += 1
        self._idle -= 1

    def end(self, domain: Domain) -> None:
        """It is no more."""
        domain.busy -= 1
        self._idle += 1
        self._wanted += domain.busy < domain.hosts and domain.busy < self._most

    def is_within(self, domain: Domain) -> bool:
        """Whether one more host of *domain* may be in process whatever others want."""
        return domain.busy < self._most

    @property
    def has_spare(self) -> bool:
        """Whether there are held queues, and a worker for one of them that no other domain needs
        for its share."""
        return bool(self.held) and self._idle > self._wanted

    def hold(self, queue: BackQueue) -> None:
        """*queue* is kept until ``take`` or ``release`` gives it back."""
        queue.domain.held.append(queue)
        self._holding[queue.domain] = None
        self.held += 1

    def take(self, domain: Domain | None = None) -> BackQueue:
        """The queue that was held first, of *domain* or of the domain whose turn it is."""
        if domain is None:
            domain = next(iter(self._holding))
        queue = domain.held.popleft()
        self._taken(domain)
        return queue

    def release(self, queue: BackQueue) -> None:
        """*queue* is held no more. O(held queues of its domain)."""
        queue.domain.held.remove(queue)
        self._taken(queue.domain)

    def _taken(self, domain: Domain) -> None:
        self.held -= 1
        del self._holding[domain]
        if domain.held:
            self._holding[domain] = None
