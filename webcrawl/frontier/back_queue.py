"""A back-end queue: the waiting URLs of one host.

Created, filled and removed by the back end only. The invariant: the entries in ``items`` come
before all entries in ``overflow``. The queues on disk (``overflow``, ``visits`` and ``last``) are
never empty.

Most hosts have a handful of URLs waiting, so a queue is a short list. The few hosts with thousands
(which flood Mercator's design) spill everything beyond ``INLINE`` entries into a DiskFifo of their
own, which also keeps only its head and tail in memory. In such a queue, visits of URLs that were
finished before have a second DiskFifo, so that neither kind has to wait until the other is used up.
URLs that must be fetched after all others, because their port may be closed, have a third one.
Subresources wait in queues of their own (subresources.py).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from webcrawl.frontier.entry import is_visit
from webcrawl.frontier.overflow import number_of
from webcrawl.frontier.snapshot import QueueSnapshot, Series

if TYPE_CHECKING:
    from webcrawl.frontier.domain_share import Domain
    from webcrawl.frontier.subresources import Subresources
    from webcrawl.storage.fifo import DiskFifo

# Entries kept in the list. Together with the head and tail of the overflow (overflow.py), a host
# has at most 48 entries, about 6 kB, in memory.
INLINE = 16


class QueueState(enum.Enum):
    """States of a back-end queue, in Heritrix's words."""

    READY = "ready"  # in line to be handed out
    SNOOZED = "snoozed"  # in the heap until its ready_at
    IN_PROCESS = "in process"  # handed out: in neither
    HELD = "held"  # ready, but its domain has its share of the workers: in neither


class BackQueue:
    """FIFO queue of one host's encoded entries, with its politeness state. Not thread-safe.

    *host* is the politeness key: the host, or a part of it. *domain* counts the hosts of its
    domain.
    """

    __slots__ = (
        "contact",
        "copied_in",
        "domain",
        "host",
        "is_far",
        "is_origin_far",
        "is_visit_next",
        "items",
        "journaled",
        "last",
        "min_rest",
        "overflow",
        "ready_at",
        "state",
        "subresources",
        "visits",
    )

    def __init__(
        self, host: str, domain: Domain, ready_at: float, min_rest: float, copied_in: int
    ) -> None:
        self.host = host
        self.domain = domain
        # When the host may be contacted again, epoch seconds.
        self.ready_at = ready_at
        # When the current contact began, while in process.
        self.contact = 0.0
        # Whether the last rest was so long that no worker should wait for the host; see Supply.
        self.is_far = False
        # Whether it counts as far off only because its last contact was with a failing origin.
        self.is_origin_far = False
        # The last rest that the host asked for (robots.txt, Retry-After), in seconds.
        self.min_rest = min_rest
        # The segment of the done log in which the next contact is already recorded; 0 if it is not.
        self.journaled = 0
        # Number of the last snapshot that has copied this queue, or began before the queue existed.
        self.copied_in = copied_in
        self.state = QueueState.READY
        # A list, not a deque: an empty deque takes 600 bytes, and pop(0) on 16 entries is cheap.
        self.items: list[bytes] = []
        # Queues on disk, each None while it is empty: further entries, visits among them, and URLs
        # to be fetched after all others.
        self.overflow: DiskFifo | None = None
        self.visits: DiskFifo | None = None
        self.last: DiskFifo | None = None
        # None until the first subresource is added.
        self.subresources: Subresources | None = None
        # Whether the next entry is to come from ``visits``.
        self.is_visit_next = False

    def __len__(self) -> int:
        return len(self.items) + sum(map(len, self.fifos())) + len(self.subresources or ())

    def __bool__(self) -> bool:
        # As many contacts ask this, it does without a call of has_pages, and without the lengths of
        # queues on disk, which are never empty.
        return bool(
            self.items
            or self.overflow is not None
            or self.visits is not None
            or self.last is not None
            or self.subresources
        )

    @property
    def has_pages(self) -> bool:
        """Return whether entries other than subresources wait."""
        return bool(self.items or self.overflow or self.visits or self.last)

    @property
    def period(self) -> float:
        """Seconds from the last contact to the next one; 0.0 if unknown."""
        is_known = self.contact and self.state is not QueueState.IN_PROCESS
        return max(self.ready_at - self.contact, 0.0) if is_known else 0.0

    def fifos(self) -> list[DiskFifo]:
        """Return the queues on disk that this queue has at present."""
        return [fifo for fifo in (self.overflow, self.visits, self.last) if fifo is not None]

    def push(self, data: bytes, new_overflow: Callable[[], DiskFifo]) -> None:
        """Append the encoded entry *data*; *new_overflow* creates a queue on disk if one is needed.

        One is needed when the list in memory is full. On disk, visits of URLs that were finished
        before have a queue of their own: ``pop`` takes from both queues in turn, so that neither
        kind waits until the other is used up.
        """
        # Entries in memory come before those on disk, so none may be added there once there are any
        # on disk.
        if len(self.items) < INLINE and self.overflow is None and self.visits is None:
            self.items.append(data)
        elif is_visit(data):
            self.visits = self.visits or new_overflow()
            self.visits.push(data)
        else:
            self.overflow = self.overflow or new_overflow()
            self.overflow.push(data)

    def pop(self) -> bytes:
        """Remove and return the oldest entry. Visits on disk alternate with the other entries.

        Subresources get some of the turns.
        """
        if self.subresources is not None:
            self.subresources.is_turn_given = True  # to the entry returned below, whatever its kind
            data = self.subresources.pop(may_wait=self.has_pages)
            if data is not None:
                return data
        if self.visits is not None:
            if self.is_visit_next or not (self.items or self.overflow):
                self.is_visit_next = False
                return self.visits.pop()
            self.is_visit_next = True

        # First those in memory, then those on disk, and at the end the URLs to be fetched last.
        if self.items:
            return self.items.pop(0)
        return (self.overflow or self.last).pop()  # type: ignore[union-attr]  # it is not empty

    def take_drained(self) -> DiskFifo | None:
        """Detach and return one of the queues on disk that is now empty; None if there is none."""
        if self.overflow is None and self.visits is None and self.last is None:
            return None  # as for most queues, without a loop
        for name in ("overflow", "visits", "last"):
            fifo: DiskFifo | None = getattr(self, name)
            if fifo is not None and not fifo:
                setattr(self, name, None)
                return fifo
        return None


class QueueSnapshots:
    """Copy-on-write snapshot of the back-end queues, encoded in slices during the crawl.

    Copying or encoding 100,000 queues of 16 entries takes a large part of a second, and the crawl
    must not stop for that long. So a snapshot only lists the queues. Each queue is copied when its
    turn comes, or just before it changes. The invariant: the copy of a queue is its state at the
    time of ``begin``. A queue whose ``copied_in`` equals ``number`` has been copied already, or was
    created after the snapshot began.
    """

    def __init__(self) -> None:
        self.number = 0
        # Copies of queues that changed before their turn, by host.
        self._early_copies: dict[str, list[QueueSnapshot]] = {}

    def begin(self, queues: Collection[BackQueue]) -> Series:
        """Start a snapshot of *queues* and return their states. About 20 ns per queue."""
        self.number += 1
        self._early_copies = {}
        # Visits and the URLs to be fetched last are saved as further parts of their queue.
        further_parts = [(queue.visits is not None) + (queue.last is not None) for queue in queues]
        return Series(len(queues) + sum(further_parts), self._copies([*queues], self.number))

    def copy(self, queue: BackQueue) -> None:
        """Copy *queue*, which is about to change, unless it has been copied already."""
        if queue.copied_in != self.number:
            queue.copied_in = self.number
            self._early_copies[queue.host] = _states_of(queue)

    def _copies(self, queues: list[BackQueue], number: int) -> Iterator[QueueSnapshot]:
        """Yield the states that *queues* had when snapshot *number* began."""
        for queue in queues:
            if self.number != number:
                raise RuntimeError("a later snapshot of the frontier has begun")
            # Its turn has come. If it has changed since the snapshot began, there is a copy.
            if queue.copied_in != number:
                queue.copied_in = number
                yield from _states_of(queue)
            else:
                yield from self._early_copies.pop(queue.host)


def _states_of(queue: BackQueue) -> list[QueueSnapshot]:
    """Return the present state of *queue*: the first part, then those of visits and last URLs."""
    contact = queue.contact if queue.state is QueueState.IN_PROCESS else 0.0

    def state(items: list[bytes], fifo: DiskFifo | None, *, visits: bool) -> QueueSnapshot:
        """Return the state of a part, with *items* in memory and *fifo* on disk."""
        number, snapshot = (0, None) if fifo is None else (number_of(fifo), fifo.snapshot())
        times = (queue.ready_at, contact, queue.min_rest)
        return QueueSnapshot(queue.host, *times, items, number, snapshot, visits)

    further_parts = [
        state([], fifo, visits=True) for fifo in (queue.visits, queue.last) if fifo is not None
    ]
    return [state([*queue.items], queue.overflow, visits=False), *further_parts]
