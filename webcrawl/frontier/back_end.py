"""The back end: FIFO queues of one host each, the host table and the heap (Mercator, figure 3).

The frontier routes entries here, takes hosts from here and gives them back. The invariants:

- the host table T has exactly the hosts with waiting entries and the hosts in process;
- every queue that is ready or snoozed is non-empty; a host in process is neither;
- a queue becomes ready only when its ``ready_at`` has come;
- ready queues of a domain that has its share of the workers are held, out of the line.

Mercator blocks a thread on the root of its heap. Here the heap holds only the snoozed queues, and
those whose time has come stand in line: the order is the heap's (by ``ready_at``), a host seen for
the first time costs no heap operation, and ready and snoozed hosts are counted for nothing.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import math
from collections import deque
from typing import TYPE_CHECKING

from webcrawl.frontier.back_queue import BackQueue, QueueSnapshots, QueueState
from webcrawl.frontier.entry import decode, encode, host_of
from webcrawl.frontier.host_parts import host_of_key, keys_but_for, politeness_key
from webcrawl.frontier.overflow import Overflows
from webcrawl.frontier.tails import Tails

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from webcrawl.clock import TimeSource
    from webcrawl.frontier.domain_share import Domain, DomainShares
    from webcrawl.frontier.entry import Entry
    from webcrawl.frontier.rests import HostClocks
    from webcrawl.frontier.snapshot import QueueSnapshot, Series
    from webcrawl.storage.fifo import DiskFifo

# How many snoozed queues one call may wake: after a long pause thousands are due at once, and
# more than the next calls can hand out is of no use.
_WOKEN_PER_CALL = 64
# Seconds until a host is looked at again of which another key is in process.
_LOOK_AGAIN = 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FrontierSizes:
    """Bounds of what a frontier keeps in memory, and of what one call does.

    queues: the first value of Mercator's n, the number of back-end queues: three for each worker.
    max_queues: the most it may grow to: about 1 kB of memory and of every snapshot each, plus what
        waits in them.
    slice_size: entries that one call moves from the front end to the back end: about 2 us each.
    remembered: rests of hosts without a queue that are in memory, about 0.5 kB each.
    """

    queues: int
    max_queues: int
    slice_size: int = 64
    remembered: int = 65_536


class BackEnd:
    """The back-end queues. Not thread-safe; times are epoch seconds.

    ``limit`` is how many queues there may be; it grows by ``grow`` up to ``ceiling``.
    *remembered* keeps the rests of hosts without a queue. A host is far off when more than *soon*
    seconds lie between the beginning of its last contact and its next one.
    """

    def __init__(
        self,
        *,
        path: Path,
        clock: TimeSource,
        remembered: HostClocks,
        sizes: FrontierSizes,
        soon: float,
        shares: DomainShares,
        parts_of: Callable[[str], int] = lambda _: 1,
        goes_last: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.path = path
        self.limit = sizes.queues
        self.ceiling = sizes.max_queues
        self.size = 0
        self.in_process = 0
        self.spilled = 0
        # Hosts in the heap that are not far off.
        self.near = 0
        self.remembered = remembered
        self._clock = clock
        self._soon = soon
        self._shares = shares
        self._parts_of = parts_of
        self._goes_last = goes_last
        # Whether any host has had parts, since this process began or when it did.
        self._has_parts = False
        self._table: dict[str, BackQueue] = {}
        self.tails = Tails(self._table)
        self._ready: deque[BackQueue] = deque()
        # The number keeps equal times in order and the comparison away from the queues.
        self._snoozed: list[tuple[float, int, BackQueue]] = []
        self._order = itertools.count()
        self.overflows = Overflows(path=path)
        self._saving = QueueSnapshots()

    # --- counts, all O(1)

    @property
    def ready(self) -> int:
        """Hosts in line, as of the last look at the heap."""
        return len(self._ready)

    @property
    def held(self) -> int:
        """Hosts that are ready, of domains that have their share of the workers."""
        return self._shares.held

    @property
    def hosts(self) -> int:
        """Hosts with a queue."""
        return len(self._table)

    def sizes(self) -> dict[str, int]:
        """Numbers of waiting URLs and of resting hosts, under their names in the crawl's
        statistics."""
        return {
            "frontier/back": self.size,
            "frontier/queues": self.limit,
            "frontier/queues/spilled": self.spilled,
            "frontier/hosts/ready": self.ready,
            "frontier/hosts/held": self.held,
            "frontier/hosts/snoozed": len(self._snoozed),
            "frontier/hosts/in_process": self.in_process,
            "frontier/hosts/remembered": len(self.remembered),
            "frontier/hosts/rests_spilled": self.remembered.spilled,
        }

    def has_more(self, host: str) -> bool:
        """Whether URLs of *host* wait in its queue."""
        return bool(self._table.get(host))

    def is_far(self, host: str) -> bool:
        """Whether *host* has a queue and was far off when it last came to rest."""
        queue = self._table.get(host)
        return queue is not None and queue.is_far

    def resize(self, most: int) -> None:
        """Let there be at most *most* queues, or as many as there are."""
        self.ceiling = most
        self.limit = max(len(self._table), min(self.limit, most), 1)

    def resize_shares(self, *, workers: int, most: int) -> None:
        """As ``DomainShares.resize``; all that is held is looked at anew. O(domains + held)."""
        self._shares.resize(workers=workers, most=most)
        while self._shares.held:
            self._back_in_line(self._shares.take())

    def has_room(self) -> bool:
        """Whether a host that is not in the table would get a queue."""
        return len(self._table) < self.limit

    def can_grow(self) -> bool:
        """Whether one more queue may be allowed."""
        return self.limit < self.ceiling

    def grow(self) -> bool:
        """Allow one more queue; False at the ceiling."""
        if not self.can_grow():
            return False
        self.limit += 1
        return True

    # --- routing

    def route(
        self, take: Callable[[], bytes], limit: int, *, drop: Callable[[bytes], bool] | None
    ) -> None:
        """Append what *take* returns, but for what is to be dropped, to its host's queue, made if
        there is none: up to *limit* entries, as long as there is room."""
        table, number = self._table, self._saving.number
        for _ in range(limit):
            if len(table) >= self.limit:
                break
            data = take()
            if drop is not None and drop(data):
                continue
            host = host_of(data)
            if self._parts_of(host) > 1:
                host = self.key_of(decode(data))
            queue = table.get(host)
            if queue is None:
                queue = self._add(host)
            elif queue.saved != number:
                self._saving.keep(queue)
            self.size += 1
            queue.push(data, self._new_overflow)

    def key_of(self, entry: Entry) -> str:
        """The politeness key of *entry*: its host, or a part of that."""
        return politeness_key(entry.host, entry.url, self._parts_of(entry.host))

    def push_front(self, entry: Entry) -> None:
        """Put *entry* before all waiting ones of its key: it was handed out and comes back."""
        self._queue_for(entry).items.insert(0, encode(entry))
        self.size += 1

    def _queue_for(self, entry: Entry) -> BackQueue:
        """The queue of *entry*'s key, which the caller puts it into. It is made even when there is
        no room, for a host that has left the table meanwhile."""
        key = self.key_of(entry)
        queue = self._table.get(key)
        if queue is None:
            queue = self._add(key)
            self.limit = max(self.limit, len(self._table))
        elif queue.saved != self._saving.number:
            self._saving.keep(queue)
        return queue

    def move_to_front(self, entry: Entry) -> None:
        """*entry*, if it is one of its queue's in memory, becomes the first of them."""
        data = encode(entry)
        queue = self._table.get(self.key_of(entry))
        if queue is not None and data in queue.items:
            if queue.saved != self._saving.number:
                self._saving.keep(queue)
            queue.items.remove(data)
            queue.items.insert(0, data)

    def _add(self, host: str) -> BackQueue:
        """A queue for *host*, in line or snoozed; the caller puts an entry into it at once."""
        now = self._clock()
        rest = self.remembered.take(host)
        domain = self._enter(host)
        if rest is None:
            queue = BackQueue(host, domain, now, 0.0, self._saving.number)
            self._ready.append(queue)
        else:
            queue = BackQueue(host, domain, *rest, self._saving.number)
            self._line_up(queue, now, since=now)
        self._table[host] = queue
        return queue

    def _enter(self, key: str) -> Domain:
        host = host_of_key(key)
        self._has_parts = self._has_parts or host != key
        return self._shares.enter(host)

    def _line_up(self, queue: BackQueue, now: float, *, since: float) -> None:
        """In line or into the heap; *since* is when the host's last contact began."""
        if queue.ready_at <= now:
            queue.state = QueueState.READY
            self._ready.append(queue)
        else:
            queue.state = QueueState.SNOOZED
            queue.is_far = queue.ready_at - since > self._soon
            self.near += not queue.is_far
            heapq.heappush(self._snoozed, (queue.ready_at, next(self._order), queue))

    def _new_overflow(self) -> DiskFifo:
        self.spilled += 1
        return self.overflows.take()

    # --- handing out

    def first_ready(self, now: float) -> BackQueue | None:
        """The queue that is to be handed out next; it stays in line. Those before it that are to
        be held leave the line."""
        snoozed, ready = self._snoozed, self._ready
        if snoozed and snoozed[0][0] <= now:
            for _ in range(_WOKEN_PER_CALL):
                queue = heapq.heappop(snoozed)[2]
                queue.state = QueueState.READY
                self.near -= not queue.is_far
                ready.append(queue)
                if not snoozed or snoozed[0][0] > now:
                    break
        shares = self._shares
        while ready and not shares.is_within(ready[0].domain):
            queue = ready.popleft()
            queue.state = QueueState.HELD
            shares.hold(queue)
        return ready[0] if ready else None

    def first_held(self) -> BackQueue | None:
        """A held queue, back in the empty line, if there are more workers than others can use."""
        if not self._shares.has_spare:
            return None
        return self._back_in_line(self._shares.take())

    def _back_in_line(self, queue: BackQueue) -> BackQueue:
        queue.state = QueueState.READY
        self._ready.append(queue)
        return queue

    def _next_of(self, domain: Domain) -> None:
        """A host of *domain* may have left room for the next one."""
        if domain.held and self._shares.is_within(domain):
            self._back_in_line(self._shares.take(domain))

    def bring_forward(self, host: str, now: float) -> bool:
        """Whether *host* is ready; it is the first in line then. O(ready hosts)."""
        self.first_ready(now)
        queue = self._table.get(host)
        if queue is None or not self._shares.is_within(queue.domain):
            return False
        if queue.state is QueueState.HELD:
            self._shares.release(queue)
            self._back_in_line(queue)
        if queue.state is not QueueState.READY:
            return False
        if self._ready[0] is not queue:
            self._ready.remove(queue)
            self._ready.appendleft(queue)
        return True

    def in_line(self, limit: int) -> Iterator[BackQueue]:
        """The next *limit* ready queues, the first first."""
        return itertools.islice(self._ready, limit)

    def pop(self, queue: BackQueue) -> bytes:
        """Remove and return the oldest entry of *queue*. Reads the disk once per chunk."""
        if queue.saved != self._saving.number:
            self._saving.keep(queue)
        data = queue.pop()
        self.size -= 1
        if (drained := queue.take_drained()) is not None:
            self.spilled -= 1
            self.overflows.retire(drained)
        return data

    def diverts(self, queue: BackQueue, entry: Entry, now: float) -> bool:
        """Whether *entry*, popped from the first ready *queue*, is not to be handed out now. It
        goes behind the others if it is to be the last. If the number of its host's parts has
        changed, it moves to the queue of its key, or waits until no key of before that rests or is
        in process."""
        if (queue.items or queue.overflow or queue.visits) and self._goes_last(entry.url):
            queue.last = queue.last or self._new_overflow()
            queue.last.push(encode(entry))
            self.size += 1
            return True
        host = entry.host
        parts = self._parts_of(host)
        if parts == 1 and not self._has_parts:
            return False
        if politeness_key(host, entry.url, parts) != queue.host:
            self._queue_for(entry).push(encode(entry), self._new_overflow)
            self.size += 1
            if queue:
                self._ready.rotate(-1)  # it may be long
            self.skip_if_empty(queue)
            return True
        until = self._others_until(host, parts, now)
        if until > now:
            queue.items.insert(0, encode(entry))
            self.size += 1
            self._ready.popleft()
            queue.ready_at = until
            self._line_up(queue, now, since=now)
        return until > now

    def _others_until(self, host: str, parts: int, now: float) -> float:
        """When no key of *host* from another number of parts rests, and what ``Frontier.hold`` says
        of all is over."""
        held = self.remembered.find(host) if parts > 1 else None
        keys = [*keys_but_for(host, parts)]
        until = max(0.0 if held is None else held[0], self.remembered.latest([host, *keys]))
        for key in keys:
            queue = self._table.get(key)
            if queue is not None:
                is_busy = queue.state is QueueState.IN_PROCESS
                until = max(until, now + _LOOK_AGAIN if is_busy else queue.ready_at)
        return until

    def begin(self, queue: BackQueue, now: float) -> None:
        """The first ready *queue* leaves the line: its host is in process."""
        assert queue.ready_at <= now, f"{queue.host} handed out {queue.ready_at - now} s early"
        first = self._ready.popleft()
        assert first is queue, f"{queue.host} is not the first in line"
        queue.state = QueueState.IN_PROCESS
        queue.contact = now
        queue.journaled = 0
        self.in_process += 1
        self._shares.begin(queue.domain)

    def skip_if_empty(self, queue: BackQueue) -> None:
        """The first ready *queue* leaves the table if all its entries turned out to be done."""
        if not queue:
            self._ready.popleft()
            del self._table[queue.host]
            self._shares.leave(queue.domain)
            self._next_of(queue.domain)

    def find_in_process(self, host: str) -> BackQueue:
        """The queue of a host in process, which the caller may change. Raises LookupError when
        it is not."""
        queue = self._table.get(host)
        if queue is None or queue.state is not QueueState.IN_PROCESS:
            raise LookupError(f"{host} is not in process")
        if queue.saved != self._saving.number:
            self._saving.keep(queue)
        return queue

    def end(self, queue: BackQueue, ready_at: float, now: float, *, is_far: bool = False) -> None:
        """The host in process rests until *ready_at*, far off by that or if it *is_far*; without
        entries it leaves the table."""
        self.in_process -= 1
        self._shares.end(queue.domain)
        queue.ready_at = ready_at
        if queue:
            self._line_up(queue, now, since=-math.inf if is_far else queue.contact)
        else:
            del self._table[queue.host]
            self._shares.leave(queue.domain)
            self.remembered.remember(queue.host, ready_at, queue.min_rest, now=now)
        self._next_of(queue.domain)

    def earliest(self) -> float | None:
        """The earliest ``ready_at`` of a queue that is ready or snoozed; None without one. Held
        queues count if there is a worker for one."""
        if self._ready:
            return self._ready[0].ready_at
        if self._shares.has_spare:
            return self._clock()
        return self._snoozed[0][0] if self._snoozed else None

    # --- snapshot and recovery

    def snapshot(self) -> Series:
        """All queues as they are now, encoded while the back end goes on."""
        self.overflows.seal()
        return self._saving.begin(self._table.values())

    def rests(self) -> Series:
        """The rests of hosts without a queue for the snapshot, see ``HostClocks.snapshot``.

        Without those of hosts that were taken since they were put into the store: what their
        queues say is newer.
        """
        return self.remembered.snapshot(without=self._table)

    def open(self, snapshots: Sequence[QueueSnapshot]) -> None:
        """Take up the entries of *snapshots*, in the order they are in.

        All hosts are in line at once afterwards; ``postpone`` says which have to wait. More
        queues than allowed are taken over all the same.
        """
        now = self._clock()
        overflows = self.overflows.open(
            {kept.number: kept.overflow for kept in snapshots if kept.overflow is not None}
        )
        for kept in snapshots:
            if not kept.items and kept.overflow is None:
                continue
            if kept.visits and (queue := self._table.get(kept.host)) is not None:
                # What is to be the last is found again among visits.
                name = "last" if queue.visits else "visits"
                setattr(queue, name, overflows[kept.number])
                self.size += len(overflows[kept.number])
                continue
            domain = self._enter(kept.host)
            queue = BackQueue(kept.host, domain, now, kept.min_rest, self._saving.number)
            queue.items = kept.items
            queue.overflow = overflows.get(kept.number)
            self.size += len(queue)
            self._table[queue.host] = queue
            self._ready.append(queue)
        self.spilled = len(overflows)
        self.limit = max(self.limit, len(self._table))

    def postpone(self, host: str, ready_at: float, *, min_rest: float) -> None:
        """During recovery: *host* rests until *ready_at*, whatever was said before."""
        queue = self._table.get(host)
        if queue is None:
            self._has_parts = self._has_parts or host_of_key(host) != host
            self.remembered.remember(host, ready_at, min_rest, now=self._clock())
        else:
            queue.ready_at = ready_at
            queue.min_rest = min_rest

    def settle(self) -> None:
        """After recovery: snooze the queues that were postponed."""
        now = self._clock()
        waiting = [queue for queue in self._ready if queue.ready_at > now]
        self._ready = deque(queue for queue in self._ready if queue.ready_at <= now)
        for queue in waiting:
            self._line_up(queue, now, since=now)
