"""Leases: entries that were handed out and not given back, and the contacts of their hosts.

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
    """A lease: an entry that was handed out, with its host.

    *acquired_at* is epoch seconds, *shard* the frontier's shard; *id* is unique within the process.
    *key* is the politeness key in process: the entry's host or one of its parts.
    """

    entry: Entry
    id: int
    acquired_at: float
    shard: _Shard
    key: str = ""


class LeaseTable:
    """The leases on entries, and the leases with which hosts in process were handed out."""

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
        """Create a lease on *entry*, and start the contact of its politeness key."""
        lease = Lease(entry, next(_IDS), now, shard, key)
        self._entries[lease.id] = self._contacts[key] = lease
        return lease

    def check_held(self, lease: Lease[Any]) -> None:
        """Raise LookupError unless *lease* is held."""
        if lease.id not in self._entries:
            raise LookupError(f"lease {lease.id} on {lease.entry.url} is not held")

    def end(self, lease: Lease[Any]) -> None:
        """Remove a lease whose entry came back in any way. Raises like ``check_held``."""
        self.check_held(lease)
        del self._entries[lease.id]

    def end_contact(self, host: str) -> None:
        """Remove *host*, which was released."""
        del self._contacts[host]

    def since(self, at: float) -> Iterator[Lease[Any]]:
        """Yield leases handed out since *at*: those of hosts, then those of entries. O(found)."""
        for leases in (self._contacts, self._entries):
            newest = reversed(leases.values())
            yield from itertools.takewhile(lambda lease: lease.acquired_at >= at, newest)

    def before(self, at: float) -> tuple[list[Lease[Any]], list[Lease[Any]]]:
        """Return the leases handed out before *at*: those of entries, those of hosts. O(found)."""
        return _before(self._entries.values(), at), _before(self._contacts.values(), at)


def _before(leases: Iterable[Lease[Any]], at: float) -> list[Lease[Any]]:
    """Return those of *leases*, which are ordered by time, that were acquired before *at*."""
    return [*itertools.takewhile(lambda lease: lease.acquired_at < at, leases)]
