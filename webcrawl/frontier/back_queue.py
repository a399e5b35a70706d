"""A back-end queue: the waiting URLs of one host.

Created, filled and removed by the back end only. The invariant: the entries in ``items`` come
before those in the queues on disk, of which none is empty.

Most hosts have a handful of URLs waiting, so a queue is a short list. The few hosts with thousands
(which flood Mercator's design) spill everything beyond ``INLINE`` entries into a DiskFifo of their
own, which also keeps only its head and tail in memory. In such a queue, visits of URLs that were
finished before have a second DiskFifo, so that neither kind has to wait until the other is used up.
URLs that must be fetched after all others, because their port may be closed, have a third one.

What other sites ask for must not keep a host from its own pages. Foreign pages and subresources
wait in queues of their own (askers.py). While a host has more than a few URLs waiting, of four
contacts::

    1, 3   its own pages
    2      a subresource that its own domain asks for, or else a page
    4      a foreign page or a foreign subresource, in turn

A turn for which nothing waits goes to the others, in this order. It ends with a contact, so entries
that are put back, dropped or refused use up none. Subresources are in no snapshot: after a restart
the renderer asks again for what its pages wait for.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

from webcrawl.frontier.askers import Askers
from webcrawl.frontier.entry import decode, is_foreign, is_visit
from webcrawl.frontier.overflow import Overflows, number_of
from webcrawl.frontier.snapshot import QueueSnapshot, Series
from webcrawl.urls.registered_domain import domain_of

if TYPE_CHECKING:
    from webcrawl.frontier.domain_share import Domain
    from webcrawl.storage.fifo import DiskFifo

# Entries kept in the list. Together with the head and tail of the overflow (overflow.py), a host
# has at most 48 entries, about 6 kB, in memory.
INLINE = 16

# Turns in a cycle; the last one is for what other sites ask for. In every other cycle, a foreign
# subresource comes before a foreign page.
_CYCLE = 4


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
        "foreign",
        "host",
        "is_far",
        "is_origin_far",
        "is_turn_given",
        "is_visit_next",
        "items",
        "journaled",
        "last",
        "min_rest",
        "overflow",
        "ready_at",
        "state",
        "subresources",
        "turn",
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
        # Foreign pages on disk, and subresources; None until the first one is added.
        self.foreign: Askers | None = None
        self.subresources: Askers | None = None
        # Whether the next own page is to come from ``visits``.
        self.is_visit_next = False
        # The number of the turn, and whether an entry that was not put back has left the queue in
        # it.
        self.turn = 0
        self.is_turn_given = False

    def __len__(self) -> int:
        waiting = len(self.items) + len(self.foreign or ()) + len(self.subresources or ())
        return waiting + sum([len(fifo) for fifo in self._fifos()])

    def __bool__(self) -> bool:
        # As many contacts ask this, it does without the lengths of queues on disk.
        return bool(self.items or self.has_pages or self.subresources)

    @property
    def has_pages(self) -> bool:
        """Return whether entries other than subresources wait."""
        return self.has_early_pages or self.last is not None

    @property
    def has_early_pages(self) -> bool:
        """Return whether entries other than subresources and URLs to be fetched last wait."""
        return bool(
            self.items or self.overflow is not None or self.visits is not None or self.foreign
        )

    @property
    def period(self) -> float:
        """Seconds from the last contact to the next one; 0.0 if unknown."""
        is_known = self.contact and self.state is not QueueState.IN_PROCESS
        return max(self.ready_at - self.contact, 0.0) if is_known else 0.0

    def _fifos(self) -> list[DiskFifo]:
        """Return the queues on disk that this queue has at present, but not those of askers."""
        return [fifo for fifo in (self.overflow, self.visits, self.last) if fifo is not None]

    def further_parts(self) -> list[tuple[str | None, DiskFifo]]:
        """Return the further parts of a snapshot, with their askers; see ``QueueSnapshot``."""
        queues = self.foreign.queues.items() if self.foreign else ()
        return [*((None, fifo) for fifo in (self.visits, self.last) if fifo is not None), *queues]

    def push(self, data: bytes, overflows: Overflows) -> None:
        """Append the encoded entry *data*, to one of *overflows* if the list in memory is full.

        On disk, visits of URLs that were finished before have a queue of their own: ``pop`` takes
        from both queues in turn, so that neither kind waits until the other is used up.
        """
        # Entries in memory come before those on disk, so none may be added there once there are any
        # of its kind on disk.
        has_room = len(self.items) < INLINE
        has_own_on_disk = self.overflow is not None or self.visits is not None
        if has_room and not (has_own_on_disk or self.foreign):
            self.items.append(data)
        elif is_foreign(data):
            if has_room and not self.foreign:
                self.items.append(data)
            else:
                self.push_foreign(data, overflows)
        elif has_room and not has_own_on_disk:
            self.items.append(data)
        elif is_visit(data):
            self.visits = self.visits or overflows.take()
            self.visits.push(data)
        else:
            self.overflow = self.overflow or overflows.take()
            self.overflow.push(data)

    def push_foreign(self, data: bytes, overflows: Overflows, *, ahead: bool = False) -> None:
        """Add the encoded foreign entry *data* to those on disk, *ahead* of others of its asker."""
        self.foreign = self.foreign or Askers(overflows)
        self.foreign.push(domain_of(decode(data).via), data, ahead=ahead)

    def push_front(self, data: bytes, overflows: Overflows) -> None:
        """Add the encoded entry *data* before all others of its kind."""
        # Each page of a farm may redirect its robots.txt to this host.
        if len(self.items) > 2 * INLINE and is_foreign(data):
            self.push_foreign(data, overflows, ahead=True)
        else:
            self.items.insert(0, data)

    def pop(self) -> bytes:
        """Remove and return the entry whose turn it is; see the docstring of the module."""
        self.is_turn_given = True
        if not (self.foreign or self.subresources):
            # As in most queues. In a short one, all entries are in the order of their arrival.
            if self.overflow is None and self.visits is None:
                # One of the two has an entry, as the queue is not empty.
                return self.items.pop(0) if self.items else self.last.pop()  # type: ignore[union-attr]
            # An own page is the first in memory, or all entries are on disk, which are own ones.
            is_foreign_turn = self.turn % _CYCLE == _CYCLE - 1
            if not is_foreign_turn and not (self.items and is_foreign(self.items[0])):
                return self._pop_own_page()  # type: ignore[return-value]
        for pop in self._ways_of_turn():
            data = pop()
            if data is not None:
                return data
        return self.last.pop()  # type: ignore[union-attr]  # the queue is not empty

    def _ways_of_turn(self) -> tuple[Callable[[], bytes | None], ...]:
        """Return the methods that remove an entry of each kind, in the order of the turn."""
        match self.turn % _CYCLE:
            case 3:
                return self._pop_foreign, self._pop_own_page, self._pop_own_part
            case 1:
                return self._pop_own_part, self._pop_own_page, self._pop_foreign
            case _:
                return self._pop_own_page, self._pop_own_part, self._pop_foreign

    def _pop_own_page(self) -> bytes | None:
        """Remove and return the oldest own page. Visits on disk alternate with the others."""
        index = None
        for i, data in enumerate(self.items):
            if not is_foreign(data):
                index = i
                break
        if self.visits is not None:
            if self.is_visit_next or (index is None and self.overflow is None):
                self.is_visit_next = False
                return self.visits.pop()
            self.is_visit_next = True
        if index is not None:
            return self.items.pop(index)
        return None if self.overflow is None else self.overflow.pop()

    def _pop_own_part(self) -> bytes | None:
        """Remove and return the oldest subresource that the host's own domain asks for."""
        return self.subresources.pop(self.domain.name) if self.subresources else None

    def _pop_foreign(self) -> bytes | None:
        """Remove and return a foreign page or a foreign subresource; the turn says which."""
        if self.turn < _CYCLE:
            return self._pop_foreign_page() or self._pop_foreign_part()
        return self._pop_foreign_part() or self._pop_foreign_page()

    def _pop_foreign_page(self) -> bytes | None:
        """Remove and return the oldest foreign page in memory, or that of the domain in turn."""
        for index, data in enumerate(self.items):
            if is_foreign(data):
                return self.items.pop(index)
        return self.foreign.pop_next() if self.foreign else None

    def _pop_foreign_part(self) -> bytes | None:
        """Remove and return a subresource of the foreign domain whose turn it is."""
        return self.subresources.pop_next(without=self.domain.name) if self.subresources else None

    def end_turn(self) -> None:
        """End the turn, as its entry was contacted."""
        self.turn = (self.turn + self.is_turn_given) % (2 * _CYCLE)
        self.is_turn_given = False

    def restore(self, saved: QueueSnapshot, fifo: DiskFifo | None, overflows: Overflows) -> None:
        """Restore the part *saved*, whose entries on disk are in *fifo*; see ``further_parts``."""
        if not saved.visits:
            self.items = saved.items
            self.overflow = fifo
        elif fifo is None:
            return
        elif saved.asker is not None:
            self.foreign = self.foreign or Askers(overflows)
            self.foreign.queues[saved.asker] = fifo
        elif self.visits is None:
            self.visits = fifo
        else:
            self.last = fifo

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
        further_parts = sum([len(queue.further_parts()) for queue in queues])
        return Series(len(queues) + further_parts, self._copies([*queues], self.number))

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
    """Return the present state of *queue*: the first part, then its further parts."""
    contact = queue.contact if queue.state is QueueState.IN_PROCESS else 0.0

    def state(items: list[bytes], fifo: DiskFifo | None, *further: Any) -> QueueSnapshot:
        """Return the state of a part, with *items* in memory and *fifo* on disk."""
        number, snapshot = (0, None) if fifo is None else (number_of(fifo), fifo.snapshot())
        times = (queue.ready_at, contact, queue.min_rest)
        return QueueSnapshot(queue.host, *times, items, number, snapshot, *further)

    further_parts = [state([], fifo, True, asker) for asker, fifo in queue.further_parts()]
    return [state([*queue.items], queue.overflow), *further_parts]
