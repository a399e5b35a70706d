"""Ready shards: those of a process that have a URL to fetch are served in turn.

The time at which each shard has a URL ready is stored, and only shards that have changed are asked
again. If the process has a single shard, that is always asked.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

from webcrawl.clock import now
from webcrawl.crawl.shard.shard import Shard
from webcrawl.frontier import Lease


class ReadyShards:
    """Hands out URLs of *shards*, by number, which may be added and removed at any time.

    ``changed`` has the numbers of shards to be asked again when they will have a URL ready.
    """

    def __init__(self, shards: Mapping[int, Shard]) -> None:
        self.changed: set[int] = set()
        self._shards = shards
        # When each shard has a URL ready, by the clock of the process.
        self._ready_at: dict[int, float] = {}
        # Shards that had a URL ready when last checked, the longest waiting first.
        self._turns: deque[int] = deque()

    def acquire(self) -> Lease[Shard] | None:
        """Lease a URL of a ready host, from the shards in turn; return None if no host is ready.

        See ``Frontier.acquire``.
        """
        shards = self._shards
        if len(shards) == 1:
            (shard,) = shards.values()
            return shard.acquire()

        # First try the shards that were ready when last checked. If that finds nothing, check all
        # shards that have changed since, and try once more.
        for may_check_again in (True, False):
            while self._turns:
                number = self._turns.popleft()
                self.changed.add(number)
                if number in shards and (lease := shards[number].acquire()) is not None:
                    return lease

            if may_check_again:
                self._update()
                time = now()
                ready = [number for number, ready_at in self._ready_at.items() if ready_at <= time]
                self._turns.extend(sorted(ready, key=self._ready_at.__getitem__))
        return None

    def ready_at(self) -> float | None:
        """Return when to try ``acquire`` again, by the clock of the process; None if never.

        See ``Frontier.ready_at``.
        """
        if len(self._shards) == 1:
            self.changed.update(self._shards)
        self._update()
        time = min(self._ready_at.values(), default=math.inf)
        return None if time == math.inf else time

    def _update(self) -> None:
        """Ask the shards that have changed when they will have a URL ready."""
        for number in self.changed:
            if number in self._shards:
                self._ready_at[number] = self._shards[number].ready_at()
            else:
                self._ready_at.pop(number, None)
        self.changed.clear()
