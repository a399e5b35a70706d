"""The back end: one FIFO queue per host, and the host table (Mercator, figure 3).

The frontier routes entries here, takes them from here and gives them back. line.py says which host
is next. The invariant: the host table T contains exactly the hosts with waiting entries and the
hosts in process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from webcrawl.clock import TimeSource
from webcrawl.frontier.askers import Askers
from webcrawl.frontier.back_queue import BackQueue, QueueSnapshots, QueueState
from webcrawl.frontier.domain_share import DomainShares
from webcrawl.frontier.entry import SUBRESOURCE, Entry, decode, encode, host_of
from webcrawl.frontier.host_parts import HostParts, keys_of_other_divisions
from webcrawl.frontier.line import HostLine
from webcrawl.frontier.overflow import Overflows
from webcrawl.frontier.rests import HostClocks
from webcrawl.frontier.snapshot import QueueSnapshot, Series
from webcrawl.frontier.tails import Tails
from webcrawl.urls.registered_domain import domain_of

# Seconds until a host is checked again while another of its keys is in process.
_RECHECK_SECS = 1.0


@dataclass(frozen=True, kw_only=True)
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

    ``limit`` is how many queues are allowed at present; ``grow`` raises it. *remembered* keeps the
    rests of hosts without a queue. *soon* and *shares* are those of ``HostLine``; *parts_of* and
    *should_go_last* are those of ``FrontierPolicies``. Queues on disk are below *path*, *sizes* has
    the limits, and *clock* returns epoch seconds.
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
        should_go_last: Callable[[str], bool],
    ) -> None:
        self.limit = sizes.queues
        #: Number of waiting entries in all queues.
        self.size = 0
        self.remembered = remembered
        self.line = HostLine(soon=soon, shares=shares)
        self.host_parts = HostParts(parts_of)
        self.overflows = Overflows(path=path)
        #: The host table T: the queues by politeness key. Only the back end changes it.
        self.table: dict[str, BackQueue] = {}
        self.tails = Tails(self.table)
        # The maximum of ``limit``.
        self._max_queues = sizes.max_queues
        self._clock = clock
        self._should_go_last = should_go_last
        # Queues to which subresources were added. Some may have none any more.
        self._with_subresources: set[BackQueue] = set()
        self._snapshots = QueueSnapshots()

    def sizes(self) -> dict[str, int]:
        """Return the numbers of waiting URLs and resting hosts, by their names in the stats."""
        return {
            "frontier/back": self.size,
            "frontier/queues": self.limit,
            "frontier/queues/spilled": self.overflows.in_use,
            "frontier/hosts/ready": self.line.ready,
            "frontier/hosts/held": self.line.shares.held,
            "frontier/hosts/snoozed": self.line.snoozed,
            "frontier/hosts/remembered": len(self.remembered),
            "frontier/hosts/rests_spilled": self.remembered.spilled,
        }

    def is_far(self, host: str) -> bool:
        """Return whether *host* has a queue and was far off when its last rest began.

        It was not if only an origin had failed, so that the rest is short.
        """
        queue = self.table.get(host)
        return queue is not None and queue.is_far and not queue.is_origin_far

    @property
    def has_near_pages(self) -> bool:
        """Return whether pages wait for the rest of a host that is not far off.

        Takes time proportional to the hosts with subresources, but none if most hosts have none.
        """
        queues = self._with_subresources
        near = self.line.near
        # Only hosts with subresources may have no pages. If more hosts than these are near, some of
        # them have pages.
        if not queues or near > len(queues):
            return near > 0
        queues -= {queue for queue in queues if not queue.subresources}
        is_snoozed = QueueState.SNOOZED
        # Those that are counted in *near* although no page waits for them.
        without_pages = [
            queue
            for queue in queues
            if queue.state is is_snoozed and not (queue.is_far or queue.has_pages)
        ]
        return near > len(without_pages)

    def resize(self, max_queues: int) -> None:
        """Allow at most *max_queues* queues, or as many as there are now if that is more."""
        self._max_queues = max_queues
        self.limit = max(len(self.table), min(self.limit, max_queues), 1)

    def has_room(self) -> bool:
        """Return whether a host that is not in the table would get a queue."""
        return len(self.table) < self.limit

    def can_grow(self) -> bool:
        """Return whether one more queue may be allowed."""
        return self.limit < self._max_queues

    def grow(self) -> bool:
        """Allow one more queue; return False at the maximum."""
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
        table = self.table
        parts_of = self.host_parts.count
        number = self._snapshots.number
        for _ in range(limit):
            if len(table) >= self.limit:
                break

            data = take()
            if drop is not None and drop(data):
                continue
            # Only if the host is divided does the key depend on the whole entry.
            key = host_of(data)
            if parts_of(key) > 1:
                key = self.host_parts.key_of(decode(data))

            queue = table.get(key)
            if queue is None:
                queue = self._add(key)
            elif queue.copied_in != number:  # a snapshot needs it as it is before this entry
                self._snapshots.copy(queue)
            self.size += 1
            queue.push(data, self.overflows)

    def push_front(self, entry: Entry) -> None:
        """Put *entry*, which was handed out and comes back, at the head of its host's queue.

        A subresource comes back to the head of its own queue.
        """
        if entry.kind == SUBRESOURCE:
            self.push_subresource(entry, ahead=True)
            return
        queue = self._queue_for(entry)
        queue.push_front(encode(entry), self.overflows)
        self.size += 1
        queue.is_turn_given = False  # it comes back without a contact

    def push_subresource(self, entry: Entry, *, ahead: bool = False) -> None:
        """Add the subresource *entry* to those that its domain asks for; *ahead* of these."""
        queue = self._queue_for(entry)
        queue.subresources = queue.subresources or Askers(self.overflows)
        queue.subresources.push(domain_of(entry.via), encode(entry), ahead=ahead)
        self._with_subresources.add(queue)
        self.size += 1
        if ahead:  # as in ``push_front``
            queue.is_turn_given = False

    def _queue_for(self, entry: Entry) -> BackQueue:
        """Return the queue for the politeness key of *entry*; the caller adds the entry to it.

        If there is no such queue, it is created even when there is no room, as the host may have
        left the table in the meantime.
        """
        key = self.host_parts.key_of(entry)
        queue = self.table.get(key)
        if queue is None:
            queue = self._add(key)
            self.limit = max(self.limit, len(self.table))
        else:
            self._snapshots.copy(queue)
        return queue

    def move_to_front(self, entry: Entry) -> None:
        """Move *entry* to the head of its queue, if it is in memory there."""
        data = encode(entry)
        queue = self.table.get(self.host_parts.key_of(entry))
        if queue is not None and data in queue.items:
            self._snapshots.copy(queue)
            queue.items.remove(data)
            queue.items.insert(0, data)

    def _add(self, key: str) -> BackQueue:
        """Create a queue for *key*, ready or snoozed; the caller must add an entry immediately."""
        now = self._clock()
        ready_at, min_rest = self.remembered.take(key) or (now, 0.0)
        queue = self._new_queue(key, ready_at, min_rest)
        self.line.add(queue, now, since=now)
        return queue

    def _new_queue(self, key: str, ready_at: float, min_rest: float) -> BackQueue:
        """Return a new queue for *key*, which is in the table and not yet in line."""
        domain = self.line.shares.enter(self.host_parts.enter(key))
        queue = BackQueue(key, domain, ready_at, min_rest, self._snapshots.number)
        self.table[key] = queue
        return queue

    def _remove(self, queue: BackQueue) -> None:
        """Remove *queue*, which is empty, from the table."""
        del self.table[queue.host]
        self.line.shares.leave(queue.domain)

    # --- handing out

    def pop(self, queue: BackQueue) -> bytes:
        """Remove and return the oldest entry of *queue*. Reads the disk once per chunk."""
        self._snapshots.copy(queue)
        data = queue.pop()
        self.size -= 1
        # Queues on disk are never empty: the last entry of one may have been taken.
        if (drained := queue.take_drained()) is not None:
            self.overflows.retire(drained)
        return data

    def divert(self, queue: BackQueue, entry: Entry, now: float) -> bool:
        """Put *entry* elsewhere if it must not be fetched now; return whether that was done.

        The entry has just been popped from *queue*, which is the first in line. If it is to be
        fetched last, it goes behind the host's other entries. If the number of the host's parts has
        changed, it moves to the queue of its new key, or waits until none of the old keys rests or
        is in process.
        """
        # Other entries than those to be fetched last and subresources are left.
        if queue.has_early_pages and self._should_go_last(entry.url):
            queue.last = queue.last or self.overflows.take()
            queue.last.push(encode(entry))
            self.size += 1
            return True

        host = entry.host
        parts = self.host_parts.count(host)
        # In most crawls no host was ever divided, so there are no other keys to check.
        if parts == 1 and not self.host_parts.existed:
            return False

        if self.host_parts.key_of(entry) != queue.host:
            if entry.kind == SUBRESOURCE:
                self.push_subresource(entry)
            else:
                self._queue_for(entry).push(encode(entry), self.overflows)
                self.size += 1
            if queue:
                # The queue goes to the end of the line: its other entries may have to move, too.
                self.line.requeue_first(queue.ready_at, now)
            self.drop_if_empty(queue)
            return True

        # The key is right, but other keys of the host may still rest or be in process.
        until = self._other_keys_until(host, parts, now)
        if until > now:
            self.push_front(entry)
            self.line.requeue_first(until, now)
        return until > now

    def _other_keys_until(self, host: str, parts: int, now: float) -> float:
        """Return when all keys that *host* had before its division into *parts* have rested.

        This includes the rest that ``Contacts.hold`` set for the whole host. A key in process is
        checked again a second after *now*.
        """
        # An undivided host has its rest in its queue, whose time has come.
        rest = self.remembered.find(host) if parts > 1 else None
        keys = [*keys_of_other_divisions(host, parts)]
        until = max(0.0 if rest is None else rest[0], self.remembered.all_rested_at([host, *keys]))
        for key in keys:
            queue = self.table.get(key)
            if queue is not None:
                is_busy = queue.state is QueueState.IN_PROCESS
                until = max(until, now + _RECHECK_SECS if is_busy else queue.ready_at)
        return until

    def drop_if_empty(self, queue: BackQueue) -> None:
        """Remove *queue*, the first in line, from the line and the table if it is empty."""
        if not queue:
            self.line.remove_first()
            self._remove(queue)

    def find_in_process(self, host: str) -> BackQueue:
        """Return the queue of a host in process, which the caller may change.

        Raises LookupError if the host is not in process.
        """
        queue = self.table.get(host)
        if queue is None or queue.state is not QueueState.IN_PROCESS:
            raise LookupError(f"{host} is not in process")
        self._snapshots.copy(queue)
        return queue

    def end(self, queue: BackQueue, ready_at: float, now: float, *, is_far: bool = False) -> None:
        """End the contact of *queue*: the host rests until *ready_at*.

        If *queue* has no entries, it leaves the table, and its rest is remembered. The host counts
        as far off if its rest is long, or if *is_far*.
        """
        queue.ready_at = ready_at
        queue.is_origin_far = is_far
        # Measured from a contact that began infinitely long ago, any rest makes the host far off.
        if not self.line.end(queue, now, since=-math.inf if is_far else queue.contact):
            self._remove(queue)
            self.remembered.remember(queue.host, ready_at, queue.min_rest, now=now)

    # --- snapshot and recovery

    def snapshot(self) -> Series:
        """Return the present state of all queues, which is encoded while the back end works on."""
        self.overflows.seal()
        return self._snapshots.begin(self.table.values())

    def open(self, snapshots: Sequence[QueueSnapshot], limit: int) -> None:
        """Restore the queues from *snapshots*, in the order given, and the *limit* on them.

        Afterwards all hosts are in the ready line, until ``set_rests`` is called. Queues beyond
        the limit are restored, too.
        """
        now = self._clock()
        overflows = self.overflows.open(
            {saved.number: saved.overflow for saved in snapshots if saved.overflow is not None}
        )
        for saved in snapshots:
            # An empty first part: the host was in process, or has only further parts.
            if not saved.items and saved.overflow is None:
                continue
            queue = self.table.get(saved.host)
            if queue is None:
                queue = self._new_queue(saved.host, now, saved.min_rest)
                self.line.add(queue, now, since=now)
            queue.restore(saved, overflows.get(saved.number), self.overflows)
            self.size += len(saved.items) + len(overflows.get(saved.number) or ())

        # The saved limit, within the present settings; but all restored queues must be allowed.
        self.limit = max(min(max(self.limit, limit), self._max_queues), len(self.table))

    def set_rests(self, rests: Mapping[str, tuple[float, float]]) -> None:
        """Let hosts rest as in *rests*: until when, and the last rest they asked for, in seconds.

        To be called once, after ``open``.
        """
        now = self._clock()
        for host, (ready_at, min_rest) in rests.items():
            queue = self.table.get(host)
            if queue is None:
                self.host_parts.enter(host)
                self.remembered.remember(host, ready_at, min_rest, now=now)
            else:
                queue.ready_at = ready_at
                queue.min_rest = min_rest
        self.line.sort(now)
