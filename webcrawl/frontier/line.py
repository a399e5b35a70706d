"""The line of hosts: the order in which hosts with a back-end queue may be contacted.

Used by the back end, which adds and removes their queues. The invariants:

- every ready or snoozed queue is non-empty; a host in process is neither ready nor snoozed;
- a queue becomes ready only when its ``ready_at`` has come;
- ready queues of a domain that uses its share of the workers are held outside the ready line.

Mercator blocks a thread on the root of its heap. Here the heap holds only the snoozed queues, and
queues whose time has come join a ready line. The order is that of the heap (by ``ready_at``), a new
host costs no heap operation, and the numbers of ready and snoozed hosts are always known.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterator

from webcrawl.frontier.back_queue import BackQueue, QueueState
from webcrawl.frontier.domain_share import Domain, DomainShares

# How many snoozed queues one call may wake. After a long pause thousands are due at the same
# time, but there is no point in waking more than the next calls can hand out.
_WOKEN_PER_CALL = 64


class HostLine:
    """Ready, held and snoozed queues. Not thread-safe; times are epoch seconds.

    A host is far off when more than *soon* seconds lie between the beginning of its last contact
    and that of its next one. *shares* limits the workers of a domain.
    """

    def __init__(self, *, soon: float, shares: DomainShares) -> None:
        #: Number of snoozed hosts that are not far off (supply.py).
        self.near = 0
        self._soon = soon
        self.shares = shares
        # The ready line, and the heap of snoozed queues by ``ready_at``.
        self._ready: deque[BackQueue] = deque()
        # The number decides between equal times, so that queues are never compared.
        self._snoozed: list[tuple[float, int, BackQueue]] = []
        self._order = itertools.count()

    @property
    def ready(self) -> int:
        """Number of ready hosts, as of the last time that the heap was checked."""
        return len(self._ready)

    @property
    def snoozed(self) -> int:
        """Number of resting hosts."""
        return len(self._snoozed)

    def add(self, queue: BackQueue, now: float, *, since: float) -> None:
        """Put *queue* in the ready line or the heap; the host's last contact began at *since*."""
        if queue.ready_at <= now:
            queue.state = QueueState.READY
            self._ready.append(queue)
        else:
            queue.state = QueueState.SNOOZED
            queue.is_far = queue.ready_at - since > self._soon
            self.near += not queue.is_far
            heapq.heappush(self._snoozed, (queue.ready_at, next(self._order), queue))

    def sort(self, now: float) -> None:
        """Move queues whose time has not come from the ready line to the heap."""
        queues = self._ready
        self._ready = deque()
        for queue in queues:
            self.add(queue, now, since=now)

    def first_ready(self, now: float) -> BackQueue | None:
        """Return the queue to hand out next, which stays in line; None if no host is ready *now*.

        Snoozed queues whose time has come join the line first. Queues at the head of the line whose
        domain already uses its share of the workers are held.
        """
        snoozed = self._snoozed
        ready = self._ready
        if snoozed and snoozed[0][0] <= now:
            for _ in range(_WOKEN_PER_CALL):
                queue = heapq.heappop(snoozed)[2]
                queue.state = QueueState.READY
                self.near -= not queue.is_far  # it was counted when it was added
                ready.append(queue)
                if not snoozed or snoozed[0][0] > now:
                    break

        shares = self.shares
        while ready and not shares.is_within(ready[0].domain):
            queue = ready.popleft()
            queue.state = QueueState.HELD
            shares.hold(queue)
        return ready[0] if ready else None

    def first_held(self) -> BackQueue | None:
        """Put a held queue back in line and return it, if a worker has nothing else to do."""
        return self._put_back(self.shares.take()) if self.shares.has_spare else None

    def _put_back(self, queue: BackQueue) -> BackQueue:
        """Append *queue*, which is not held any more, to the ready line; return *queue*."""
        queue.state = QueueState.READY
        self._ready.append(queue)
        return queue

    def _put_back_held(self, domain: Domain) -> None:
        """Put a held queue of *domain* back in line, if the domain is within its share."""
        if domain.held and self.shares.is_within(domain):
            self._put_back(self.shares.take(domain))

    def bring_forward(self, queue: BackQueue | None) -> bool:
        """Move *queue* to the head of the line; return False if it is not ready. O(ready hosts)."""
        if queue is None or not self.shares.is_within(queue.domain):
            return False
        # The domain has come within its share since the queue was held.
        if queue.state is QueueState.HELD:
            self.shares.release(queue)
            self._put_back(queue)
        if queue.state is not QueueState.READY:
            return False
        if self._ready[0] is not queue:
            self._ready.remove(queue)
            self._ready.appendleft(queue)
        return True

    def next_ready(self, limit: int) -> Iterator[BackQueue]:
        """Return up to *limit* of the next ready queues, in order."""
        return itertools.islice(self._ready, limit)

    def requeue_first(self, ready_at: float, now: float) -> None:
        """Move the first queue in line behind the others, or let it rest until *ready_at*."""
        queue = self._ready.popleft()
        queue.ready_at = ready_at
        self.add(queue, now, since=now)

    def remove_first(self) -> None:
        """Remove the first queue in line, which is empty."""
        self._put_back_held(self._ready.popleft().domain)

    def begin(self, queue: BackQueue, now: float) -> None:
        """Start a contact *now*: take *queue*, the first in line, out of the line."""
        if queue.ready_at > now:
            raise RuntimeError(f"{queue.host} handed out {queue.ready_at - now} s early")
        if self._ready.popleft() is not queue:
            raise RuntimeError(f"{queue.host} is not the first in line")
        queue.state = QueueState.IN_PROCESS
        queue.contact = now
        queue.journaled = 0
        self.shares.begin(queue.domain)

    def end(self, queue: BackQueue, now: float, *, since: float) -> bool:
        """End the contact of *queue*, which began at *since*; add it again unless it is empty.

        Returns whether it was added.
        """
        self.shares.end(queue.domain)
        is_waiting = bool(queue)
        if is_waiting:
            self.add(queue, now, since=since)
        # The worker is free for another host of the domain.
        self._put_back_held(queue.domain)
        return is_waiting

    def earliest(self, now: float) -> float | None:
        """Return when the next queue can be handed out; None if no queue is ready or snoozed.

        Held queues count if there is a worker for one of them.
        """
        if self._ready:
            return self._ready[0].ready_at
        if self.shares.has_spare:
            return now
        return self._snoozed[0][0] if self._snoozed else None

    def resize_shares(self, *, workers: int, max_busy: int) -> None:
        """Change the domains' shares and put all held queues back in line. O(domains + held).

        The arguments are those of ``DomainShares.resize``.
        """
        self.shares.resize(workers=workers, max_busy=max_busy)
        while self.shares.held:
            self._put_back(self.shares.take())
