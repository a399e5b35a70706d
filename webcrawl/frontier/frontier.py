"""`Frontier`: front end, back end, leases and parked URLs as one object.

URLs are pushed, leases on them are acquired, hosts are released, and leases are finished. The
package's docstring explains the life of a URL and the invariants. This module manages the leases
and the order in which events are journaled. contacts.py does so for the contacts of hosts, and
parts.py saves and restores the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from webcrawl.frontier.contacts import Contacts
from webcrawl.frontier.done_log import NOTHING, Distrust, Requeue, Result
from webcrawl.frontier.entry import SUBRESOURCE, Entry, decode, encode, is_visit
from webcrawl.frontier.leases import Lease
from webcrawl.frontier.parts import FrontierParts
from webcrawl.frontier.supply import Supply, supply_of


class Frontier:
    """Polite, prioritizing frontier, made of *parts* (Mercator). Not thread-safe."""

    def __init__(self, parts: FrontierParts) -> None:
        self._clock = parts.clock
        # Number of entries that one call moves, or passes over, at most.
        self._slice = parts.slice_size
        self.parts = parts
        self.front = parts.front
        self.back = parts.back
        self.leases = parts.leases
        self.parked = parts.parked
        self.due = parts.due
        self.finished = parts.finished
        self.counts = parts.counts
        self.contacts = Contacts(parts)
        self._log = parts.log

    # --- counts, each O(1)

    def __len__(self) -> int:
        """Return the number of waiting URLs; leased and parked URLs are not waiting."""
        return self.front.size + self.back.size

    @property
    def all_rest(self) -> bool:
        """Return whether there are waiting URLs, but only of hosts that rest or are in process."""
        back = self.back
        return bool(back.size) and not (self.front.size or back.line.ready or back.line.shares.held)

    @property
    def supply(self) -> Supply:
        """How soon there is a URL to fetch. O(hosts contacted in the last second)."""
        return supply_of(self.parts)

    def stats(self) -> dict[str, int]:
        """Return all counters and sizes, by their names in the crawl's stats."""
        sizes = {
            "frontier/waiting": len(self),
            "frontier/front": self.front.size,
            "frontier/leased": len(self.leases),
            "frontier/hosts/in_process": self.leases.contacts,
            "frontier/addresses/in_process": len(self.parts.shared),
            "frontier/parked": self.parked.size,
            "frontier/due": len(self.due),
            "frontier/fresh": self.counts.count_fresh(self._clock()),
        }
        events = msgspec.structs.asdict(self.counts)
        # These two are not numbers: counts by other stats' names, and by day.
        del events["crawl"], events["answered"]
        sizes |= {f"frontier/{name}": count for name, count in events.items()}
        sizes |= {f"frontier/parked/{reason}": n for reason, n in self.parked.counts.items()}
        return sizes | self.back.sizes()

    # --- in

    def push(self, entries: Sequence[bytes]) -> None:
        """Add encoded *entries* to the front end. Writes to disk once per 256 entries of a level.

        The entries are durable with the next published snapshot; until then the caller must be able
        to submit them again. If OSError is raised (disk full), none of them is lost.
        """
        self.counts.pushed += len(entries)
        self.front.push(entries)
        self.contacts.on_change()

    def requeue(self, entry: Entry, *, ahead: bool = False, ended: str = "") -> None:
        """Add *entry*, which the caller will not submit again, and journal it in one write.

        With *ahead* it becomes the next entry of its host, at least until a restart. *ended* is the
        outcome with which its URL had ended; that outcome is no longer counted. A subresource is
        not journaled: after a restart, the caller requeues those that are still needed.
        """
        if records := _requeue_records(entry):
            self._log.write(*records)
        if ended:
            self.counts.uncount_outcome(ended)
        self._add_requeued(entry, ahead=ahead)

    def retry(
        self, lease: Lease[Any], entry: Entry, *, note: bytes = b"", result: Result = NOTHING
    ) -> None:
        """Finish *lease* and requeue *entry*, which replaces its entry, in one write.

        So neither a crash nor a full disk leaves both entries. If the machine goes down, *entry* is
        lost together with the finish. For *note*, *result* and errors see ``LeaseTable.finish``.
        """
        self.leases.finish(lease, *_requeue_records(entry, is_retry=True), note=note, result=result)
        self._add_requeued(entry)

    def _add_requeued(self, entry: Entry, *, ahead: bool = False) -> None:
        """Add *entry*, which was journaled, to the queues."""
        self.counts.requeued += 1
        if entry.kind == SUBRESOURCE:
            self.back.push_subresource(entry)
        elif ahead:
            self.back.push_front(entry)
        else:
            self.front.push([encode(entry)])
        self.contacts.on_change()

    def refill(self, limit: int) -> int:
        """Move up to *limit* entries to the back end while it has room; return how many it moved.

        As in Mercator, each entry comes from a front-end queue chosen at random with bias. If its
        host has a back-end queue, the entry is added there; otherwise the host gets a new one.
        ``acquire`` calls this when needed.
        """
        before = self.front.size
        # Most of the time no keys of finished entries are left, and no visits wait. Then entries
        # are moved without looking at them.
        drop = self.finished.use_up if self.finished.size else None
        try:
            take = self._pop_counted if self.due.ahead else self.front.pop
            self.back.route(take, min(limit, before), drop=drop)
        finally:
            moved = before - self.front.size
            self.counts.moved += moved
        return moved

    def _pop_counted(self) -> bytes:
        """Pop the next entry of the front end, and tell the due queues if it is a visit."""
        data = self.front.pop()
        if is_visit(data):
            self.due.left_front_end()
        return data

    # --- out and back

    def acquire(self, host: str | None = None) -> Lease[Any] | None:
        """Return a lease on a URL whose host may be contacted now, or None if there is none.

        The host is in process until ``Contacts.release``. If *host* is given, its URLs are tried
        first, and None is returned if it is not ready. ``ready_at`` returns when to try again after
        None. The contact is on disk when this returns. Moves at most two slices of entries to the
        back end.
        """
        back = self.back
        line = back.line
        if host is not None:
            line.first_ready(self._clock())  # queues whose time has come join the line
            if not line.bring_forward(back.table.get(host)):
                return None

        if self.front.size and back.has_room():
            self.refill(self._slice)
        now = self._clock()
        queue = line.first_ready(now)
        if queue is None and self.front.size and (back.has_room() or back.grow()):
            # A worker would have to wait although there may be other hosts in the front end. This
            # is how n grows until all workers are busy.
            self.refill(self._slice)
            now = self._clock()
            queue = line.first_ready(now)

        # Entries that are already finished, or must be put elsewhere first, are passed over.
        for _ in range(self._slice):
            # Held hosts are only for workers that other hosts cannot use, even after a refill.
            if queue is None and not self._may_refill:
                queue = line.first_held()
            if queue is None:
                return None
            # The contact must be on disk, in the segment that a restart would read.
            if queue.journaled != self._log.number:
                self.contacts.journal_next()

            entry = decode(back.pop(queue))
            if self.finished.use_up_entry(entry):
                back.drop_if_empty(queue)
            elif not back.divert(queue, entry, now):
                line.begin(queue, now)
                self.counts.popped += 1
                return self.leases.hand_out(entry, queue.host, now)
            now = self._clock()
            queue = line.first_ready(now)
        return None

    def expire(
        self, older_than: float, *, except_if: Callable[[Lease[Any]], bool] = lambda _: False
    ) -> list[Lease[Any]]:
        """Take back leases older than *older_than* seconds, except where *except_if* returns True.

        This is the safety net for lost requests. Leased entries return to their queues. Hosts in
        process rest, see ``Contacts.expire``. Returns the expired leases, including those whose
        entry was put back while the host stayed in process: the caller must no longer finish them
        or release their hosts. The time that it takes is proportional to their number.
        """
        now = self._clock()
        leases, host_leases = self.leases.before(now - older_than)
        leases = [lease for lease in leases if not except_if(lease)]
        # In reverse order, so that the oldest one ends up at the head of its queue.
        for lease in reversed(leases):
            self.leases.put_back(lease)
            self.counts.put_back -= 1  # they are counted as expired instead

        for lease in host_leases:
            self.contacts.expire(lease, now)

        expired = {lease.id: lease for lease in leases + host_leases}
        self.counts.expired += len(expired)
        return [*expired.values()]

    @property
    def _may_refill(self) -> bool:
        """Return whether the front end has URLs, and a host among them could get a queue."""
        return bool(self.front.size) and (self.back.has_room() or self.back.can_grow())

    def ready_at(self) -> float | None:
        """Return when to try ``acquire`` again; None means after the next release or push.

        If the time is not in the future, ``acquire`` may succeed now. If it does not, it at least
        moves a slice of the front end, so that a later call can succeed.
        """
        now = self._clock()
        line = self.back.line
        return now if not line.ready and self._may_refill else line.earliest(now)

    # --- snapshot and recovery

    def open(
        self,
        snapshot: bytes | None,
        *,
        trust_done: bool = True,
        on_done: Callable[[bytes], None] | None = None,
        unlogged_until: float = 0.0,
    ) -> None:
        """Restore *snapshot* (None: a new frontier) and replay the events journaled after it.

        Leased entries return to the head of their host's queue, requeued ones are pushed again, and
        finished ones will be skipped when they appear; *on_done* receives the notes of these. A
        host whose contact was cut off rests as if the contact had lasted until now, or longer if
        its server may still be answering. Contacts until *unlogged_until*, epoch seconds, may be
        missing from the log, so every host also rests as if it had been contacted then; see
        ``Contacts.promise``. With *trust_done* false, finished entries are fetched again: the
        machine went down, and links found on their pages may be lost. Entries that were set aside
        for later visits when these were finished are dropped then, as the visits are waiting again.
        Afterwards the caller submits its discoveries again.

        Raises CorruptRecordError if a file that the snapshot names is damaged, and NewerFormatError
        if a later version wrote it.
        """
        replayed = self.parts.restore(snapshot, unlogged_until=unlogged_until)
        replayed.add_to(self.counts, trust_done=trust_done)

        if trust_done:
            self.finished.add_all(record.key for record in replayed.finished)
            for record in replayed.finished:
                if record.note and on_done is not None:
                    on_done(record.note)
            for due in replayed.due:
                self.due.push(due.data, due.at)
        elif replayed.finished or replayed.requeued:
            # They will be finished again. The marker makes their records void, so that they are not
            # counted twice after another crash.
            self._log.write(Distrust())

        self.front.push(
            [requeue.data for requeue in replayed.requeues_to_apply(trust_done=trust_done)]
        )

    def close(self) -> None:
        """Close the done log. No snapshot is written; a restart replays the log."""
        self._log.close()


def _requeue_records(entry: Entry, *, is_retry: bool = False) -> list[Requeue]:
    """Return the records that journal *entry*: none for a subresource."""
    return [] if entry.kind == SUBRESOURCE else [Requeue(encode(entry), is_retry=is_retry)]
