"""Leases: entries handed out and not given back, and the contacts of their hosts.

Used by the frontier only. The two end apart: the host is given back after the download, the entry
is finished after its processing. The invariant: leases are in the order of their time.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from webcrawl.frontier.entry import Entry  # noqa: TC001 - msgspec reads the annotation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator


# Of all frontiers of this process.
_IDS = itertools.count(1)
_Shard = TypeVar("_Shard")


class Lease(msgspec.Struct, Generic[_Shard], frozen=True):
    """A lease: an entry that was handed out, with its host.

    *acquired_at* is epoch seconds, *shard* what the frontier is part of; *id* is no other lease's
    in this process. *key* is the politeness key in process: the entry's host or one of its parts.
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
        self._hosts: dict[str, Lease[Any]] = {}

    def __len__(self) -> int:
        """Leased entries."""
        return len(self._entries)

    @property
    def entries(self) -> Collection[Lease[Any]]:
        """The leases whose entries are neither finished nor put back."""
        return self._entries.values()

    @property
    def contacts(self) -> int:
        """Hosts in process."""
        return len(self._hosts)

    def hand_out(self, entry: Entry, key: str, now: float, shard: object = None) -> Lease[Any]:
        """A lease on *entry*, and the contact of its politeness key."""
        lease = Lease(entry, next(_IDS), now, shard, key)
        self._entries[lease.id] = self._hosts[key] = lease
        return lease

    def held(self, lease: Lease[Any]) -> None:
        """Raise LookupError unless *lease* is held."""
        if lease.id not in self._entries:
            raise LookupError(f"lease {lease.id} on {lease.entry.url} is not held")

    def end(self, lease: Lease[Any]) -> None:
        """The entry came back, one way or the other. Raises as ``held``."""
        self.held(lease)
        del self._entries[lease.id]

    def end_contact(self, host: str) -> None:
        """The host was given back."""
        del self._hosts[host]

    def since(self, at: float) -> Iterator[Lease[Any]]:
        """Those handed out since *at*: of hosts, and of entries. O(found)."""
        for leases in (self._hosts, self._entries):
            newest = reversed(leases.values())
            yield from itertools.takewhile(lambda lease: lease.acquired_at >= at, newest)

    def before(self, at: float) -> tuple[list[Lease[Any]], list[Lease[Any]]]:
        """Those handed out before *at*: of entries, and of hosts. O(found)."""
        return _before(self._entries.values(), at), _before(self._hosts.values(), at)


def _before(leases: Iterable[Lease[Any]], at: float) -> list[Lease[Any]]:
    """The first of *leases*, which are in order of time: those acquired before *at*."""
    return [*itertools.takewhile(lambda lease: lease.acquired_at < at, leases)]
