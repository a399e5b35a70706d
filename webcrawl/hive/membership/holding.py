"""Records which shards a drone holds, and until when its leases on them are valid."""

from __future__ import annotations

import dataclasses
import math
import threading
from typing import TYPE_CHECKING

from webcrawl.clock import now

if TYPE_CHECKING:
    from webcrawl.hive.bus.inbox import Inbox
    from webcrawl.hive.bus.outbox import Outbox


@dataclasses.dataclass(slots=True, kw_only=True)
class Holding:
    """The shards of a drone by number, and how long its leases on them are valid.

    lease_secs: HIVE_LEASE_SECS.
    leases: tokens of the claimed shards.
    outboxes, inboxes: those of the claimed shards that were adopted.
    valid_until: when the leases expire, by the clock of the process. Until then, no other drone can
        hold the shards.
    expired_at: when the leases last expired before they became valid again.
    is_redis_up: whether Redis answered the last heartbeat.
    is_redis_complete: whether Redis has never lost data of this hive.
    settled_at: when all drones have registered their shards again after Redis was restarted or
        replaced. Until then, its table may be older than the leases.
    newest: by shard, the token of a newer checkpoint that another drone has published.

    The methods and ``valid_until`` may be used in any thread.
    """

    lease_secs: float = 10.0
    leases: dict[int, int] = dataclasses.field(default_factory=dict)
    outboxes: dict[int, Outbox] = dataclasses.field(default_factory=dict)
    inboxes: dict[int, Inbox] = dataclasses.field(default_factory=dict)
    valid_until: float = 0.0
    expired_at: float = 0.0
    is_redis_up: bool = True
    is_redis_complete: bool = False
    settled_at: float = -math.inf
    newest: dict[int, int] = dataclasses.field(default_factory=dict)
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    # Since when the drone's lease has been in Redis without a break, and until when it is certain
    # to be there.
    _renewed_since: float = 0.0
    _renewed_until: float = 0.0
    # The beginning of the last heartbeat that confirmed all shards.
    _confirmed_at: float = -math.inf
    # The incarnation of Redis at the last heartbeat.
    _incarnation: str = ""

    def is_valid(self) -> bool:
        """Return whether the leases are valid, so that no other drone can hold the shards."""
        return now() < self.valid_until

    @property
    def is_steady(self) -> bool:
        """Whether the drone's lease has been in Redis for at least HIVE_LEASE_SECS.

        If the leases of other drones expire then, the cause is not a delay of this process.
        """
        return self._renewed_since + self.lease_secs < now() < self._renewed_until

    @property
    def superseded(self) -> set[int]:
        """The held shards that have a newer token in the store."""
        return {
            number for number, token in self.leases.items() if self.newest.get(number, 0) > token
        }

    def record_store_beat(self, started_at: float) -> None:
        """Record a heartbeat in the store that began at *started_at*, while Redis was away.

        It is ignored if the leases have expired meanwhile.
        """
        with self._lock:
            if self.is_valid():
                self.valid_until = started_at + self.lease_secs

    def record_renewal(self, started_at: float, *, had_lease: bool) -> None:
        """Record that the lease was renewed in Redis, by a call that began at *started_at*.

        If the drone no longer *had_lease*, or renewed it too late, other drones may have claimed
        its shards. Then the leases are valid only after ``confirm``.
        """
        with self._lock:
            # After such a break, the lease counts as renewed only since this call.
            if not had_lease or now() >= self._renewed_until:
                self._renewed_since = started_at
            self._renewed_until = started_at + self.lease_secs
            self._extend()

    def forget_renewals(self) -> None:
        """Treat the next renewal as too late, because the lease in Redis may have expired."""
        with self._lock:
            self._renewed_until = 0.0

    def confirm(self, started_at: float, incarnation: str) -> None:
        """Record that a heartbeat that began at *started_at* confirmed all shards."""
        with self._lock:
            if self._incarnation not in ("", incarnation):
                self.settled_at = started_at + self.lease_secs
            self._incarnation = incarnation
            self._confirmed_at = started_at
            self._extend()

    def is_in_doubt(self, incarnation: str) -> bool:
        """Return whether Redis may have forgotten that other drones have claimed the shards.

        That is possible if the leases have expired and *incarnation* has changed since. Then the
        shards must be given up before ``confirm``.
        """
        return bool(self._incarnation) and incarnation != self._incarnation and not self.is_valid()

    def revoke(self) -> None:
        """Invalidate the leases until ``confirm``, because other drones may hold the shards."""
        with self._lock:
            self._confirmed_at = -math.inf
            self.valid_until = 0.0

    def _extend(self) -> None:
        """Extend the leases by the last renewal, if the shards were confirmed since a break."""
        if self._renewed_since <= self._confirmed_at:
            if not self.is_valid():  # they become valid again
                self.expired_at = self.valid_until
            self.valid_until = max(self.valid_until, self._renewed_until)
