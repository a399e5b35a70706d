"""Holding: the shards that a drone has, and until when its leases on them are good."""

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
    """The shards of a drone, by their numbers, and how long its leases on them are good.

    lease_secs: HIVE_LEASE_SECS.
    leases: tokens of the shards that were claimed.
    outboxes, inboxes: of those of them that were adopted.
    good_until: until when nobody else can have the shards, by the clock of the process.
    has_redis: whether Redis has answered the last beat.
    has_all: whether Redis has all that it ever had of this hive.

    What concerns ``good_until`` may be called in any thread.
    """

    lease_secs: float = 10.0
    leases: dict[int, int] = dataclasses.field(default_factory=dict)
    outboxes: dict[int, Outbox] = dataclasses.field(default_factory=dict)
    inboxes: dict[int, Inbox] = dataclasses.field(default_factory=dict)
    good_until: float = 0.0
    has_redis: bool = True
    has_all: bool = False
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    # Since when the lease has been in Redis without a break, and until when it surely is.
    _kept_since: float = 0.0
    _kept_until: float = 0.0
    # The beginning of the last beat by which all shards are the drone's.
    _confirmed_at: float = -math.inf
    # The incarnation that the last beat saw, and since when what it says of shards counts.
    _incarnation: str = ""
    _trusted_since: float = -math.inf

    def is_good(self) -> bool:
        """Whether nobody else can have the shards."""
        return now() < self.good_until

    @property
    def is_steady(self) -> bool:
        """Whether the lease has not lapsed for as long as it lasts, so that this process is not
        what is held up if the leases of others have."""
        return self._kept_since + self.lease_secs < now() < self._kept_until

    def renewed(self, began: float, *, had_lease: bool) -> None:
        """Redis has renewed the lease by a call that *began* then. Without *had_lease*, and after
        a break, that is good for the shards from the next ``confirm`` on."""
        with self._lock:
            if not had_lease or now() >= self._kept_until:
                self._kept_since = began
            self._kept_until = began + self.lease_secs
            self._extend()

    def break_off(self) -> None:
        """What Redis has done is not known: what it renews next counts as after a break."""
        with self._lock:
            self._kept_until = 0.0

    def confirm(self, began: float, incarnation: str) -> None:
        """By a beat that *began* then all shards are the drone's. A Redis that is in doubt is
        trusted a lease later, when others have registered theirs again."""
        with self._lock:
            if self.is_in_doubt(incarnation):
                self._trusted_since = began + self.lease_secs
            self._incarnation = incarnation
            if began >= self._trusted_since:
                self._confirmed_at = began
                self._extend()

    def is_in_doubt(self, incarnation: str) -> bool:
        """Whether Redis may have forgotten that others have claimed the shards: it has another
        *incarnation* than before the leases lapsed."""
        return bool(self._incarnation) and incarnation != self._incarnation and not self.is_good()

    def revoke(self) -> None:
        """Others may have the shards, whatever Redis has said: it must ``confirm`` them again."""
        with self._lock:
            self._confirmed_at, self.good_until = -math.inf, 0.0

    def _extend(self) -> None:
        if self._kept_since <= self._confirmed_at:
            self.good_until = max(self.good_until, self._kept_until)

    def renewed_in_store(self, began: float) -> None:
        """A beat in HIVE_STORE that *began* then is there; no longer good if that came too late."""
        with self._lock:
            if self.is_good():
                self.good_until = began + self.lease_secs
