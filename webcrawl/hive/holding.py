"""Holding of a drone: its shards, with outboxes and inboxes, and how long its leases are good."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from webcrawl.clock import now

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webcrawl.crawl.shard import Shard
    from webcrawl.hive.inbox import Inbox
    from webcrawl.hive.outbox import Outbox


@dataclasses.dataclass(slots=True)
class Held:
    """A shard that is held, with its lease's *token*."""

    shard: Shard
    token: int
    outbox: Outbox
    inbox: Inbox


@dataclasses.dataclass(slots=True)
class LeaseTime:
    """How long the leases of a drone are good, and what they are good by.

    good_until: by the clock of the process.
    has_redis: whether Redis has answered the last beat.
    is_new: whether Redis has all that it ever had of this hive.
    """

    good_until: float = 0.0
    has_redis: bool = True
    is_new: bool = False

    def is_good(self) -> bool:
        """Whether nobody else can have the shards."""
        return now() < self.good_until


class Holding:
    """The shards held, by their numbers. *outboxes* and *inboxes* are theirs, for the bus."""

    def __init__(self, *, outboxes: dict[int, Outbox], inboxes: dict[int, Inbox]) -> None:
        self.outboxes = outboxes
        self.inboxes = inboxes
        self._held: dict[int, Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._held))

    def __contains__(self, number: int) -> bool:
        return number in self._held

    def __getitem__(self, number: int) -> Held:
        return self._held[number]

    @property
    def leases(self) -> dict[int, int]:
        """Their tokens."""
        return {number: held.token for number, held in self._held.items()}

    def add(self, held: Held) -> None:
        """*held* is open, and held from now on."""
        number = held.shard.number
        self._held[number] = held
        self.outboxes[number], self.inboxes[number] = held.outbox, held.inbox

    def let_go(self, number: int) -> Held:
        """The shard *number* is not held any more."""
        del self.outboxes[number], self.inboxes[number]
        return self._held.pop(number)
