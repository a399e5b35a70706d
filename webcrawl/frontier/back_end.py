"""The back end: one FIFO queue per host, the host table and the heap (Mercator, figure 3).

The frontier routes entries here, takes hosts from here and gives them back. The invariants:

- the host table T contains exactly the hosts with waiting entries and the hosts in process;
- every ready or snoozed queue is non-empty; a host in process is neither ready nor snoozed;
- a queue becomes ready only when its ``ready_at`` has come;
- ready queues of a domain that uses its share of the workers are held outside the ready line.

Mercator blocks a thread on the root of its heap. Here the heap holds only the snoozed queues, and
queues whose time has come join a ready line. The order is that of the heap (by ``ready_at``), a new
host costs no heap operation, and the numbers of ready and snoozed hosts are always known.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import math
from collections import deque
from typing import TYPE_CHECKING

from webcrawl.frontier.back_queue import BackQueue, QueueSnapshots, QueueState
from webcrawl.frontier.entry import SUBRESOURCE, decode, encode, host_of
from webcrawl.frontier.host_parts import host_of_key, keys_of_other_divisions, politeness_key
from webcrawl.frontier.overflow import Overflows
from webcrawl.frontier.subresources import Subresources
from webcrawl.frontier.tails import Tails
from webcrawl.urls import host_of as host_of_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from webcrawl.clock import TimeSource
    from webcrawl.frontier.domain_share import Domain, DomainShares
    from webcrawl.frontier.entry import Entry
    from webcrawl.frontier.rests import HostClocks
    from webcrawl.frontier.snapshot import QueueSnapshot, Series
    from webcrawl.storage.fifo import DiskFifo

# How many snoozed queues one call may wake. After a long pause thousands are due at the same
# time, but there is no point in waking more than the next calls can hand out.
_WOKEN_PER_CALL = 64
# Seconds until a host is checked again while another of its keys is in process.
_RECHECK_SECS = 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FrontierSizes:
    """Limits on the memory that a frontier uses and on the work that it does in one call.

    queues: the initial value of Mercator's n, the number of back-end queues: three for each worker.
    max_queues: the maximum of n. Each queue takes about 1 kB of memory and of every snapshot, plus
        the entries that wait in it.
    slice_size: the number of entries that one call moves from the front end to the back end, which
        takes about 2 us each.
    remembered: the number of rests, of hosts without a queue, that are kept in memory; about 0.5 kB
        each.
    """

    queues: int
    max_queues: int
    slice_size: int = 64
    remembered: int = 65_536


class BackEnd:
    """The back-end queues. Not thread-safe; times are epoch seconds.

    ``limit`` is how many queues are allowed at present; ``grow`` raises it up to ``ceiling``.
    *remembered* keeps the rests of hosts without a queue. A host is far off when more than *soon*
    seconds lie between the beginning of its last contact and that of its next one. *shares* limits
    the workers of a domain; *parts_of* and *goes_last* are those of ``FrontierPolicies``.
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
        parts_of: Callable[[str], int],
        goes_last: Callable[[str], bool],
    ) -> None:
        self.path = path
        self.limit = sizes.queues
        self.ceiling = sizes.max_queues
        self.size = 0
        self.in_process = 0
        self.spilled = 0
        # Number of hosts in the heap that are not far off (supply.py).
        self.near = 0
        self.remembered = remembered
        self._clock = clock
        self._soon = soon
        self._shares = shares
        self._parts_of = parts_of
        self._goes_last = goes_last
        # Whether any host has been divided into parts, now or in the restored state.
        self._has_parts = False
        self._table: dict[str, BackQueue] = {}
        self.tails = Tails(self._table)
        self._ready: deque[BackQueue] = deque()
        # The number decides between equal times, so that queues are never compared.
        self._snoozed: list[tuple[float, int, BackQueue]] = []
        # Queues to which subresources were added. Some may have none any more.
        self._with_subresources: set[BackQueue] = set()
        self._order = itertools.count()
        self.overflows = Overflows(path=path)
        self._snapshots = QueueSnapshots()

    # --- counts, each O(1)

    @property
    def ready(self) -> int:
        """Number of ready hosts, as of the last time that the heap was checked."""
        return len(self._ready)

    @property
    def held(self) -> int:
        """Number of ready hosts whose domain already uses its share of the workers."""
        return self._shares.held

    @property
    def hosts(self) -> int:
        """Number of hosts with a queue."""
        return len(self._table)

    def sizes(self) -> dict[str, int]:
        """Return the numbers of waiting URLs and resting hosts, by their names in the stats."""
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
        """Return whether URLs of *host* wait in its queue."""
        return bool(self._table.get(host))

    def is_far(self, host: str) -> bool:
        """Return whether *host* has a queue and was far off when its last rest began.

        It was not if only an origin had failed, so that the rest is short.
        """
        queue = self._table.get(host)
        return queue is not None and queue.is_far and not queue.is_origin_far

    def has_pages(self, host: str) -> bool:
        """Return whether other URLs of *host* than subresources wait in its queue."""
        queue = self._table.get(host)
        return queue is not None and queue.has_pages

    @property
    def has_near_pages(self) -> bool:
        """Return whether pages wait for the rest of a host that is not far off.

        Takes time proportional to the hosts with subresources, but none if most hosts have none.
        """
        queues = self._with_subresources
        if not queues or self.near > len(queues):
            return self.near > 0
        queues -= {queue for queue in queues if not queue.subresources}
        is_snoozed = QueueState.SNOOZED
        without_pages = [
            queue
            for queue in queues
            if queue.state is is_snoozed and not (queue.is_far or queue.has_pages)
        ]
        return self.near > len(without_pages)

    def resize(self, max_queues: int) -> None:
        """Allow at most *max_queues* queues, or as many as there are now if that is more."""
        self.ceiling = max_queues
        self.limit = max(len(self._table), min(self.limit, max_queues), 1)

    def resize_shares(self, *, workers: int, max_busy: int) -> None:
        """Change the domains' shares and put all held queues back in line. O(domains + held).

        The arguments are those of ``DomainShares.resize``.
        """
        self._shares.resize(workers=workers, max_busy=max_busy)
        while self._shares.held:
            self._back_in_line(self._shares.take())

    def has_room(self) -> bool:
        """Return whether a host that is not in the table would get a queue."""
        return len(self._table) < self.limit

    def can_grow(self) -> bool:
        """Return whether one more queue may be allowed."""
        return self.limit < self.ceiling

    def grow(self) -> bool:
        """Allow one more queue; return False at the ceiling."""
        if not self.can_grow():
            return False
        self.limit += 1
        return True

    # --- routing

    def route(
        self, take: Callable[[], bytes], limit: int, *, drop: Callable[[bytes], bool] | None
    ) -> None:
        """Move up to *limit* entries, which *take* returns, to the queues of their hosts.

        Queues are created as needed; routing stops when there is no room for another one. Entries
        for which *drop* returns True are dropped.
        """
        table, number = self._table, self._snapshots.number
        for _ in range(limit):
            if len(table) >= self.limit:
                break

            data = take()
            if drop is not None and drop(data):
                continue
            key = host_of(data)
            if self._parts_of(key) > 1:
                key = self.key_of(decode(data))

            queue = table.get(key)
            if queue is None:
                queue = self._add(key)
            elif queue.copied_in != number:
                self._snapshots.copy(queue)
            self.size += 1
            queue.push(data, self._new_overflow)

    def key_of(self, entry: Entry) -> str:
        """Return the politeness key of *entry*: its host, or a part of the host."""
        return politeness_key(entry.host, entry.url, self._parts_of(entry.host))

    def push_front(self, entry: Entry) -> None:
        """Put *entry*, which was handed out and comes back, at the head of its host's queue.

        A subresource comes back to the head of its own queue.
        """
        if entry.kind == SUBRESOURCE:
            self.push_subresource(entry, ahead=True)
            return
        queue = self._queue_for(entry)
        queue.items.insert(0, encode(entry))
        self.size += 1
        if queue.subresources is not None:
            queue.subresources.is_turn_given = False

    def push_subresource(self, entry: Entry, *, ahead: bool = False) -> None:
        """Add the subresource *entry* to those of its host; see ``Subresources.push``."""
        queue = self._queue_for(entry)
        if queue.subresources is None:
            queue.subresources = Subresources(host_of_url(entry.url), self.overflows)
        queue.subresources.push(entry, ahead=ahead)
        self._with_subresources.add(queue)
        self.size += 1
        if ahead:
            queue.subresources.is_turn_given = False

    def _queue_for(self, entry: Entry) -> BackQueue:
        """Return the queue for the politeness key of *entry*; the caller adds the entry to it.

        If there is no such queue, it is created even when there is no room, as the host may have
        left the table in the meantime.
        """
        key = self.key_of(entry)
        queue = self._table.get(key)
        if queue is None:
            queue = self._add(key)
            self.limit = max(self.limit, len(self._table))
        elif queue.copied_in != self._snapshots.number:
            self._snapshots.copy(queue)
        return queue

    def move_to_front(self, entry: Entry) -> None:
        """Move *entry* to the head of its queue, if it is in memory there."""
        data = encode(entry)
        queue = self._table.get(self.key_of(entry))
        if queue is not None and data in queue.items:
            if queue.copied_in != self._snapshots.number:
                self._snapshots.copy(queue)
            queue.items.remove(data)
            queue.items.insert(0, data)

    def _add(self, host: str) -> BackQueue:
        """Create a queue for *host*, ready or snoozed; the caller must add an entry immediately."""
        now = self._clock()
        rest = self.remembered.take(host)
        domain = self._enter(host)
        if rest is None:
            queue = BackQueue(host, domain, now, 0.0, self._snapshots.number)
            self._ready.append(queue)
        else:
            queue = BackQueue(host, domain, *rest, self._snapshots.number)
            self._line_up(queue, now, since=now)
        self._table[host] = queue
        return queue

    def _enter(self, key: str) -> Domain:
        """Count a new queue for *key*, and return the domain of its host."""
        host = host_of_key(key)
        self._has_parts = self._has_parts or host != key
        return self._shares.enter(host)

    def _line_up(self, queue: BackQueue, now: float, *, since: float) -> None:
        """Put *queue* in the ready line or the heap; the host's last contact began at *since*."""
        if queue.ready_at <= now:
            queue.state = QueueState.READY
            self._ready.append(queue)
        else:
            queue.state = QueueState.SNOOZED
            queue.is_far = queue.ready_at - since > self._soon
            self.near += not queue.is_far
            heapq.heappush(self._snoozed, (queue.ready_at, next(self._order), queue))

    def _new_overflow(self) -> DiskFifo:
        """Return an empty queue on disk, and count it."""
        self.spilled += 1
        return self.overflows.take()

    # --- handing out

    def first_ready(self, now: float) -> BackQueue | None:
        """Return the queue to hand out next, which stays in line; None if no host is ready *now*.

        Snoozed queues whose time has come join the line first. Queues at the head of the line whose
        domain already uses its share of the workers are held.
        """
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
        """Put a held queue back in line and return it, if a worker has nothing else to do."""
        if not self._shares.has_spare:
            return None
        return self._back_in_line(self._shares.take())

    def _back_in_line(self, queue: BackQueue) -> BackQueue:
        """Append *queue*, which is no longer held, to the ready line, and return it."""
        queue.state = QueueState.READY
        self._ready.append(queue)
        return queue

    def _line_up_held(self, domain: Domain) -> None:
        """Put a held queue of *domain* back in line, if the domain is within its share."""
        if domain.held and self._shares.is_within(domain):
            self._back_in_line(self._shares.take(domain))

    def bring_forward(self, host: str, now: float) -> bool:
        """Move *host* to the head of the line; return False if it is not ready. O(ready hosts)."""
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
        """Return up to *limit* of the next ready queues, in order."""
        return itertools.islice(self._ready, limit)

    def pop(self, queue: BackQueue) -> bytes:
        """Remove and return the oldest entry of *queue*. Reads the disk once per chunk."""
        if queue.copied_in != self._snapshots.number:
            self._snapshots.copy(queue)
        data = queue.pop()
        self.size -= 1
        if (drained := queue.take_drained()) is not None:
            self.spilled -= 1
            self.overflows.retire(drained)
        return data

    def divert(self, queue: BackQueue, entry: Entry, now: float) -> bool:
        """Put *entry* elsewhere if it must not be fetched now; return whether that was done.

        The entry has just been popped from *queue*, which is the first in line. If it is to be
        fetched last, it goes behind the host's other entries. If the number of the host's parts has
        changed, it moves to the queue of its new key, or waits until none of the old keys rests or
        is in process.
        """
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
            if entry.kind == SUBRESOURCE:
                self.push_subresource(entry)
            else:
                self._queue_for(entry).push(encode(entry), self._new_overflow)
                self.size += 1
            if queue:
                # The queue goes to the end of the line: its other entries may have to move, too.
                self._ready.rotate(-1)
            self.skip_if_empty(queue)
            return True

        until = self._other_keys_until(host, parts, now)
        if until > now:
            self.push_front(entry)
            self._ready.popleft()
            queue.ready_at = until
            self._line_up(queue, now, since=now)
        return until > now

    def _other_keys_until(self, host: str, parts: int, now: float) -> float:
        """Return when all keys that *host* had before its division into *parts* have rested.

        This includes the rest that ``Frontier.hold`` set for the whole host. A key in process is
        checked again a second after *now*.
        """
        rest = self.remembered.find(host) if parts > 1 else None
        keys = [*keys_of_other_divisions(host, parts)]
        until = max(0.0 if rest is None else rest[0], self.remembered.latest([host, *keys]))
        for key in keys:
            queue = self._table.get(key)
            if queue is not None:
                is_busy = queue.state is QueueState.IN_PROCESS
                until = max(until, now + _RECHECK_SECS if is_busy else queue.ready_at)
        return until

    def begin(self, queue: BackQueue, now: float) -> None:
        """Start a contact *now*: take *queue*, the first in line, out of the line."""
        if queue.ready_at > now:
            raise RuntimeError(f"{queue.host} handed out {queue.ready_at - now} s early")
        if self._ready.popleft() is not queue:
            raise RuntimeError(f"{queue.host} is not the first in line")
        queue.state = QueueState.IN_PROCESS
        queue.contact = now
        queue.journaled = 0
        self.in_process += 1
        self._shares.begin(queue.domain)

    def skip_if_empty(self, queue: BackQueue) -> None:
        """Remove *queue*, the first in line, from the line and the table if it is empty."""
        if not queue:
            self._ready.popleft()
            del self._table[queue.host]
            self._shares.leave(queue.domain)
            self._line_up_held(queue.domain)

    def find_in_process(self, host: str) -> BackQueue:
        """Return the queue of a host in process, which the caller may change.

        Raises LookupError if the host is not in process.
        """
        queue = self._table.get(host)
        if queue is None or queue.state is not QueueState.IN_PROCESS:
            raise LookupError(f"{host} is not in process")
        if queue.copied_in != self._snapshots.number:
            self._snapshots.copy(queue)
        return queue

    def end(self, queue: BackQueue, ready_at: float, now: float, *, is_far: bool = False) -> None:
        """End the contact of *queue*: the host rests until *ready_at*.

        If *queue* has no entries, it leaves the table, and its rest is remembered. The host counts
        as far off if its rest is long, or if *is_far*.
        """
        self.in_process -= 1
        self._shares.end(queue.domain)
        queue.ready_at = ready_at
        queue.is_origin_far = is_far
        if queue:
            self._line_up(queue, now, since=-math.inf if is_far else queue.contact)
        else:
            del self._table[queue.host]
            self._shares.leave(queue.domain)
            self.remembered.remember(queue.host, ready_at, queue.min_rest, now=now)
        self._line_up_held(queue.domain)

    def earliest(self) -> float | None:
        """Return when the next queue can be handed out; None if no queue is ready or snoozed.

        Held queues count if there is a worker for one of them.
        """
        if self._ready:
            return self._ready[0].ready_at
        if self._shares.has_spare:
            return self._clock()
        return self._snoozed[0][0] if self._snoozed else None

    # --- snapshot and recovery

    def snapshot(self) -> Series:
        """Return the present state of all queues, which is encoded while the back end works on."""
        self.overflows.seal()
        return self._snapshots.begin(self._table.values())

    def rests(self) -> Series:
        """Return the rest periods of hosts without a queue, for the snapshot.

        Hosts that got a queue since theirs was stored are left out, as the queue has newer times.
        See ``HostClocks.snapshot``.
        """
        return self.remembered.snapshot(without=self._table)

    def open(self, snapshots: Sequence[QueueSnapshot]) -> None:
        """Restore the queues from *snapshots*, in the order given.

        Afterwards all hosts are in the ready line, until ``postpone`` and ``snooze_postponed`` are
        called. Queues beyond the limit are restored, too.
        """
        now = self._clock()
        overflows = self.overflows.open(
            {saved.number: saved.overflow for saved in snapshots if saved.overflow is not None}
        )
        for saved in snapshots:
            if not saved.items and saved.overflow is None:
                continue
            if saved.visits and (queue := self._table.get(saved.host)) is not None:
                # The queue of URLs to be fetched last is stored like a second queue of visits.
                name = "last" if queue.visits else "visits"
                setattr(queue, name, overflows[saved.number])
                self.size += len(overflows[saved.number])
                continue

            domain = self._enter(saved.host)
            queue = BackQueue(saved.host, domain, now, saved.min_rest, self._snapshots.number)
            queue.items = saved.items
            queue.overflow = overflows.get(saved.number)
            self.size += len(queue)
            self._table[queue.host] = queue
            self._ready.append(queue)

        self.spilled = len(overflows)
        self.limit = max(self.limit, len(self._table))

    def postpone(self, host: str, ready_at: float, *, min_rest: float) -> None:
        """Let *host* rest until *ready_at*; a later call for the same host replaces this one.

        Only used during recovery. *min_rest* is the last rest that the host asked for, in seconds.
        """
        queue = self._table.get(host)
        if queue is None:
            self._has_parts = self._has_parts or host_of_key(host) != host
            self.remembered.remember(host, ready_at, min_rest, now=self._clock())
        else:
            queue.ready_at = ready_at
            queue.min_rest = min_rest

    def snooze_postponed(self) -> None:
        """After recovery, move postponed queues from the ready line to the heap."""
        now = self._clock()
        waiting = [queue for queue in self._ready if queue.ready_at > now]
        self._ready = deque(queue for queue in self._ready if queue.ready_at <= now)
        for queue in waiting:
            self._line_up(queue, now, since=now)
