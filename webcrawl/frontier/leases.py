"""Leases: entries that were handed out and have not come back, and the contacts of their hosts.

Used by the frontier only. Contact and lease end separately: the host is released after the
download, the entry is finished after it was processed. The invariant: leases are ordered by time.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from webcrawl.frontier.entry import Entry  # noqa: TC001 - msgspec reads the annotation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator


# Shared by all frontiers of this process.
_IDS = itertools.count(1)
_Shard = TypeVar("_Shard")


class Lease(msgspec.Struct, Generic[_Shard], frozen=True):
    """A lease on *entry*, which was handed out to be fetched.

    *acquired_at* is epoch seconds, *shard* is the frontier's shard, and *id* is unique within the
    process. *key* is the politeness key that is in process: the entry's host or a part of it.
    """

    entry: Entry
    id: int
    acquired_at: float
    shard: _Shard
    key: str = ""


class LeaseTable:
    """All leases: those on single entries, and those under which hosts are in process."""

    def __init__(self) -> None:
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
        """Number of hosts in process."""
        return len(self._contacts)

    def hand_out(self, entry: Entry, key: str, now: float, shard: object = None) -> Lease[Any]:
        """Create a lease on *entry* at *now*, and start the contact of its politeness key *key*."""
        lease = Lease(entry, next(_IDS), now, shard, key)
        self._entries[lease.id] = self._contacts[key] = lease
        return lease

    def check_held(self, lease: Lease[Any]) -> None:
        """Raise LookupError unless *lease* is held."""
        if lease.id not in self._entries:
            raise LookupError(f"lease {lease.id} on {lease.entry.url} is not held")

    def end(self, lease: Lease[Any]) -> None:
        """Remove *lease*, as its entry was finished, put back or parked.

        Raises LookupError unless *lease* is held.
        """
        self.check_held(lease)
        del self._entries[lease.id]

    def end_contact(self, host: str) -> None:
        """Remove the contact of *host*, which was released."""
        del self._contacts[host]

    def since(self, at: float) -> Iterator[Lease[Any]]:
        """Yield the leases handed out since *at*, those of hosts first, then those of entries.

        The time that it takes is proportional to the number of leases found.
        """
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
