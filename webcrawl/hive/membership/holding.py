"""Shards that a drone holds, and until when its leases on them are valid."""

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
    """Shards of a drone by number, and how long its leases on them are valid.

    lease_secs: HIVE_LEASE_SECS.
    leases: tokens of the claimed shards.
    outboxes, inboxes: of the claimed shards that were adopted.
    valid_until: until when no other drone can hold the shards, by the clock of the process.
    is_redis_up: whether Redis has answered the last heartbeat.
    is_redis_complete: whether Redis has never lost data of this hive.

    Everything about ``valid_until`` may be called in any thread.
    """

    lease_secs: float = 10.0
    leases: dict[int, int] = dataclasses.field(default_factory=dict)
    outboxes: dict[int, Outbox] = dataclasses.field(default_factory=dict)
    inboxes: dict[int, Inbox] = dataclasses.field(default_factory=dict)
    valid_until: float = 0.0
    is_redis_up: bool = True
    is_redis_complete: bool = False
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    # Since when the lease has been in Redis without a break, and until when it is certain to be.
    _kept_since: float = 0.0
    _kept_until: float = 0.0
    # The beginning of the last heartbeat that confirmed all shards.
    _confirmed_at: float = -math.inf
    # The incarnation that the last beat saw, and since when what it says of shards counts.
    _incarnation: str = ""
    _trusted_since: float = -math.inf

    def is_valid(self) -> bool:
        """Return whether no other drone can hold the shards."""
        return now() < self.valid_until

    @property
    def is_steady(self) -> bool:
        """Whether the lease was valid for a whole lease time.

        Then, if the leases of others have expired, the cause is not a delay of this process.
        """
        return self._kept_since + self.lease_secs < now() < self._kept_until

    def record_renewal(self, began: float, *, had_lease: bool) -> None:
        """Record that a call that *began* then renewed the lease in Redis.

        Without *had_lease*, or after a break, the shards must be confirmed by ``confirm`` first.
        """
        with self._lock:
            if not had_lease or now() >= self._kept_until:
                self._kept_since = began
            self._kept_until = began + self.lease_secs
            self._extend()

    def forget_renewals(self) -> None:
        """Count the next renewal as after a break, because the state in Redis is unknown."""
        with self._lock:
            self._kept_until = 0.0

    def confirm(self, began: float, incarnation: str) -> None:
        """Record that a heartbeat that *began* then confirmed all shards.

        A Redis in doubt is trusted a lease later, when others have registered their shards again.
        """
        with self._lock:
            if self.is_in_doubt(incarnation):
                self._trusted_since = began + self.lease_secs
            self._incarnation = incarnation
            if began >= self._trusted_since:
                self._confirmed_at = began
                self._extend()

    def is_in_doubt(self, incarnation: str) -> bool:
        """Return whether Redis may have forgotten that others have claimed the shards.

        It may have if its *incarnation* is not the one from before the leases expired.
        """
        return bool(self._incarnation) and incarnation != self._incarnation and not self.is_valid()

    def revoke(self) -> None:
        """Forget the confirmation: other drones may hold the shards until ``confirm``."""
        with self._lock:
            self._confirmed_at, self.valid_until = -math.inf, 0.0

    def _extend(self) -> None:
        if self._kept_since <= self._confirmed_at:
            self.valid_until = max(self.valid_until, self._kept_until)

    def record_store_renewal(self, began: float) -> None:
        """Record a heartbeat in HIVE_STORE that *began* then; one that came too late is ignored."""
        with self._lock:
            if self.is_valid():
                self.valid_until = began + self.lease_secs
