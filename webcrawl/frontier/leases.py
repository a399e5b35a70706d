"""Leases: entries that were handed out, and the ways in which they come back.

Contact and lease end separately: the host is released after the download (contacts.py), the entry
is finished after it was processed. The invariant: leases are ordered by time.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from webcrawl.frontier.done_log import NOTHING, Due, Finish, Record, Result
from webcrawl.frontier.entry import Entry, encode, key

if TYPE_CHECKING:
    from webcrawl.frontier.parts import FrontierParts

# Shared by all frontiers of this process.
_IDS = itertools.count(1)
_Shard = TypeVar("_Shard")


class Lease(msgspec.Struct, Generic[_Shard], eq=False):
    """A lease on *entry*, which was handed out to be fetched.

    *acquired_at* is epoch seconds, *shard* is the frontier's shard, and *id* is unique within the
    process. *key* is the politeness key that is in process: the entry's host or a part of it.
    *task* says what the lease is for, and *fingerprint* is that of the URL, once it was needed; the
    frontier does not look at them.
    """

    entry: Entry
    id: int
    acquired_at: float
    shard: _Shard
    key: str = ""
    task: Any = None
    fingerprint: int = 0


class LeaseTable:
    """All leases, on entries that were handed out and on hosts that are in process.

    Entries that are not finished return to the other *parts* of the frontier.
    """

    def __init__(self, parts: FrontierParts) -> None:
        self._parts = parts
        #: The shard that new leases refer to, set by the owner of the frontier.
        self.shard: object = None
        # Leases whose entry has not come back, by id, and leases whose host was not released, by
        # politeness key. Both are in the order in which they were handed out.
        self._entries: dict[int, Lease[Any]] = {}
        self._contacts: dict[str, Lease[Any]] = {}

    def __len__(self) -> int:
        """Return the number of leased entries."""
        return len(self._entries)

    @property
    def entries(self) -> Collection[Lease[Any]]:
        """The leases whose entries are neither finished nor put back."""
        return self._entries.values()

    @property
    def contacts(self) -> int:
        """Number of hosts in process: those that are being contacted or looked up."""
        return len(self._contacts)

    def hand_out(self, entry: Entry, key: str, now: float) -> Lease[Any]:
        """Create a lease on *entry* at *now*, and start the contact of its politeness key *key*."""
        lease = Lease(entry, next(_IDS), now, self.shard, key)
        self._entries[lease.id] = lease
        self._contacts[key] = lease
        return lease

    def finish(
        self,
        lease: Lease[Any],
        *other_records: Record,
        note: bytes = b"",
        result: Result = NOTHING,
        due: tuple[Entry, float] | None = None,
    ) -> None:
        """Record in one write that the entry of *lease* is finished and is never handed out again.

        *note* is passed to ``on_done`` if a restart has to replay this. *result* is counted. *due*
        is the entry of the next visit and when it is due, epoch seconds. *other_records* are part
        of the write.

        Raises LookupError if the lease is not held: it was finished, put back or has expired. The
        lease is still held after an OSError of that write, but not after one of the due queue,
        which has the next visit then.
        """
        self._check_held(lease)
        finish = Finish(key(lease.entry), note, *result)
        visits = [] if due is None else [Due(encode(due[0]), due[1])]
        self._parts.log.write(finish, *other_records, *visits)
        del self._entries[lease.id]
        self._parts.counts.count_end(finish)
        for visit in visits:
            self._parts.due.push(visit.data, visit.at)

    def finish_unleased(self, entries: Sequence[Entry], result: Result) -> None:
        """Record in one write that *entries*, which are in no queue, are finished with *result*."""
        records = [Finish(key(entry), b"", *result) for entry in entries]
        self._parts.log.write(*records)
        for record in records:
            self._parts.counts.count_end(record)

    def postpone(self, entry: Entry, at: float) -> None:
        """Set *entry*, which is in no queue, aside until *at*, epoch seconds. Makes one write."""
        data = encode(entry)
        self._parts.log.write(Due(data, at))
        self._parts.due.push(data, at)

    def put_back(self, lease: Lease[Any], *, behind: Entry | None = None) -> None:
        """Put the entry of *lease*, which was not fetched, back at the head of its host's queue.

        *behind* is an entry that was requeued ahead: if it still waits in that queue, it becomes
        the head, and the entry of *lease* comes behind it. The host stays in process until it is
        released, without a rest if nothing was sent to it. Raises LookupError like ``finish``.
        """
        self._end(lease)
        self._parts.counts.put_back += 1
        self._parts.back.push_front(lease.entry)
        if behind is not None:
            self._parts.back.move_to_front(behind)

    def park(self, lease: Lease[Any], reason: str) -> None:
        """Park the entry of *lease*, which was not fetched, for *reason*.

        Everything else is as for ``put_back``.
        """
        self._end(lease)
        self._parts.parked.push(reason, [encode(lease.entry)])

    def _check_held(self, lease: Lease[Any]) -> None:
        """Raise LookupError unless *lease* is held."""
        if lease.id not in self._entries:
            raise LookupError(f"lease {lease.id} on {lease.entry.url} is not held")

    def _end(self, lease: Lease[Any]) -> None:
        """Remove *lease*. Raises LookupError unless it is held."""
        self._check_held(lease)
        del self._entries[lease.id]

    def end_contact(self, host: str) -> None:
        """Remove the contact of *host*, which was released."""
        del self._contacts[host]

    def since(self, at: float) -> Iterator[Lease[Any]]:
        """Yield the leases handed out since *at*, those of hosts first, then those of entries.

        The time that it takes is proportional to the number of leases found.
        """
        # The last leases are the newest.
        for leases in (self._contacts, self._entries):
            newest = reversed(leases.values())
            yield from itertools.takewhile(lambda lease: lease.acquired_at >= at, newest)

    def before(self, at: float) -> tuple[list[Lease[Any]], list[Lease[Any]]]:
        """Return the leases of entries, and those of hosts, that were handed out before *at*.

        The time that it takes is proportional to the number of leases found.
        """
        return _before(self._entries.values(), at), _before(self._contacts.values(), at)


def _before(leases: Iterable[Lease[Any]], at: float) -> list[Lease[Any]]:
    """Return the leases acquired before *at*; *leases* are ordered by time."""
    return [*itertools.takewhile(lambda lease: lease.acquired_at < at, leases)]
