"""The shards of a crawl that this process holds, by number.

A URL belongs to the shard of its host's registered domain. The shard's number is a stable hash of
the domain, modulo the number of shards of the crawl, which never changes. Shards can be added and
removed while the process runs.

With one shard in the crawl, every call is passed directly to it. With several, the time at which
each has a URL ready is stored, and only shards that have changed are asked again. In background
work, shards without new URLs for their frontiers take turns.
"""

from __future__ import annotations

import math
from collections import deque
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from xxhash import xxh3_64_intdigest

from webcrawl.clock import now
from webcrawl.crawl.job.totals import COUNTED, summed
from webcrawl.crawl.shard.merge_turns import MergeTurns
from webcrawl.frontier import Supply
from webcrawl.urls import host_of
from webcrawl.urls.registered_domain import CACHED_HOSTS, registered_domain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from webcrawl.crawl.links.link_intake import LinkBatch
    from webcrawl.crawl.links.remote_shards import RemoteShards
    from webcrawl.crawl.shard.shard import Shard
    from webcrawl.frontier import Entry, Lease

# Minimum number of shards without new URLs that one slice of background work serves.
_MIN_SERVED = 8
_NEVER = math.inf
# Stats that are the same in all shards.
_NOT_SUMMED = frozenset({"reputation/round"})


class NotHeldError(LookupError):
    """Raised for a URL whose shard this process does not hold."""


class Shards:
    """The shards held by this process, out of *number* in the crawl.

    In a process that holds all shards, this is a ``LinkSink``, which divides batches. *remote* is
    called with this object and returns the connection to the processes that hold the other shards;
    None if there are none. ``turns`` decides when the eliminators merge.
    """

    def __init__(
        self,
        *,
        number: int = 1,
        remote: Callable[[Shards], RemoteShards] | None = None,
    ) -> None:
        self.number = number
        #: Return the number of the shard of a host, held or not. 0.1 us for a recent host.
        self.number_of = lru_cache(maxsize=CACHED_HOSTS)(
            lambda host: (xxh3_64_intdigest(registered_domain(host).encode()) or 1) % number
        )
        self.turns = MergeTurns()
        self._held: dict[int, Shard] = {}
        self._only: Shard | None = None
        # When each shard has a URL ready, by the clock of the process.
        self._ready_at: dict[int, float] = {}
        # Shards that have changed since that time was stored.
        self._changed: set[int] = set()
        # Shards that had a URL ready when last checked, the longest waiting first.
        self._ready_shards: deque[int] = deque()
        self._slices = 0
        # What shards that have left have counted while they were held.
        self._counted_before: dict[str, float] = {}
        self.remote = None if remote is None else remote(self)

    def __iter__(self) -> Iterator[Shard]:
        """Iterate over the held shards, by number."""
        return iter([*self._held.values()])

    def __len__(self) -> int:
        """Return the number of held shards."""
        return len(self._held)

    def add(self, shard: Shard) -> None:
        """Add *shard*, which is open or about to be opened."""
        self._held[shard.number] = shard
        self._held = dict(sorted(self._held.items()))
        self._only = shard if self.number == 1 else None
        shard.frontier.on_change = partial(self._changed.add, shard.number)
        self._changed.add(shard.number)

    def remove(self, shard: Shard) -> None:
        """Remove *shard*, but keep its counts for the stats of this run."""
        self._counted_before = summed(self._counted_before, _counts(shard))
        del self._held[shard.number]
        self._only = None
        self._ready_at.pop(shard.number, None)

    def resize(self) -> None:
        """Divide the memory of the process evenly among the held shards."""
        for shard in self._held.values():
            shard.resize(len(self._held))

    # --- look-up

    def find(self, url: str) -> Shard | None:
        """Return the shard of *url*; None if it is not held. 0.1 us if there is only one shard."""
        if self._only is not None:
            return self._only
        return self._held.get(self.number_of(host_of(url)))

    def held(self, number: int) -> Shard | None:
        """Return the shard with *number*; None if it is not held."""
        return self._held.get(number)

    def of(self, url: str) -> Shard:
        """Return the shard of *url*; raise NotHeldError if it is not held."""
        shard = self.find(url)
        if shard is None:
            raise NotHeldError(f"the shard of {url} is not held by this process")
        return shard

    # --- in

    def submit(self, batch: LinkBatch) -> None:
        """Submit *batch* to the shards of its links, see ``LinkSink.submit``.

        Raises NotHeldError for a shard that is not held.
        """
        if self._only is not None:
            self._only.submit(batch)
            return
        for number, part in batch.split(self.number_of):
            if number not in self._held:
                raise NotHeldError(f"the shard {number} is not held by this process")
            self._held[number].submit(part)

    def requeue(self, entry: Entry, *, ahead: bool = False) -> None:
        """Requeue *entry* in its shard, held or not, see ``Frontier.requeue``."""
        shard = self.find(entry.url)
        if shard is not None:
            shard.frontier.requeue(entry, ahead=ahead)
        elif self.remote is not None:
            self.remote.enqueue(entry, None)
        else:
            raise NotHeldError(f"the shard of {entry.url} is not held by this process")

    # --- out

    def acquire(self) -> Lease[Shard] | None:
        """Lease a URL of a ready host, from the shards in turn; return None if no host is ready.

        See ``Frontier.acquire``.
        """
        if self._only is not None:
            return self._only.acquire()

        ready_shards = self._ready_shards
        for may_check_again in (True, False):
            while ready_shards:
                shard = self._held.get(ready_shards.popleft())
                lease = None if shard is None else shard.acquire()
                if shard is not None:
                    self._changed.add(shard.number)
                if lease is not None:
                    return lease

            if may_check_again:
                self._update_ready_times()
                time = now()
                ready_shards.extend(
                    sorted(
                        [number for number, ready_at in self._ready_at.items() if ready_at <= time],
                        key=self._ready_at.__getitem__,
                    )
                )
        return None

    def ready_at(self) -> float | None:
        """Return when to try ``acquire`` again, by the clock of the process; None if never.

        See ``Frontier.ready_at``.
        """
        if self._only is not None:
            only_at = self._only.frontier.ready_at() if self._only.can_hand_out else None
            return None if only_at is None else only_at - self._only.clock() + now()
        self._update_ready_times()
        time = min(self._ready_at.values(), default=_NEVER)
        return None if time == _NEVER else time

    def _update_ready_times(self) -> None:
        """Ask the shards that have changed when they will have a URL ready."""
        for number in self._changed:
            shard = self._held.get(number)
            if shard is not None:
                time = shard.frontier.ready_at() if shard.can_hand_out else None
                self._ready_at[number] = _NEVER if time is None else time - shard.ahead_secs
        self._changed.clear()

    def expire(
        self, older_than: float, *, except_if: Callable[[Lease[Shard]], bool]
    ) -> list[Lease[Shard]]:
        """Take back overdue leases in all shards, see ``Frontier.expire``."""
        busy = [shard.frontier for shard in self._held.values() if not shard.is_idle]
        expired = (frontier.expire(older_than, except_if=except_if) for frontier in busy)
        return [lease for leases in expired for lease in leases]

    # --- background work

    def work(self, soonest: Supply = Supply.NONE) -> None:
        """Do a slice of background work for the held shards. Called often.

        It serves each shard that has new URLs, and some of the others in turn. When no shard has
        anything else to fetch, a reputation round starts for all of them together. *soonest* tells
        how soon there is a URL to fetch in other processes.
        """
        if self._only is None:
            soonest = min(soonest, self.supply)

        self._slices += 1
        # A shard without new URLs is served in one of this many slices.
        interval = max(1, len(self._held) // _MIN_SERVED)
        for position, shard in enumerate(self, start=self._slices):
            if position % interval and not shard.feeder.has_movable_urls:
                continue
            shard.work(lambda: min(soonest, shard.feeder.supply()))  # noqa: B023  # called at once
            if self._only is None:
                soonest = min(soonest, shard.feeder.supply())
                # Parked URLs may have been released, and the shard may have begun to hand out URLs.
                self._changed.add(shard.number)

        self.turns.work(self)

        domains = [shard.hosts.records.domains for shard in self]
        latest_round = max([counters.current_round for counters in domains], default=0)
        for counters in domains:
            if counters.current_round < latest_round:
                counters.begin_round(latest_round, counted_since=counters.counted_since)

    @property
    def supply(self) -> Supply:
        """Return how soon one of the held shards has a URL to fetch. At most O(shards)."""
        soonest = Supply.NONE
        for shard in self._held.values():
            soonest = min(soonest, shard.feeder.supply())
            if soonest is Supply.NOW:
                break
        return soonest

    def note_idle_worker(self) -> None:
        """Record that a worker found nothing to do, so that a merge may start."""
        self.turns.is_starving = any(shard.can_hand_out for shard in self._held.values())

    # --- counts

    @property
    def all_rest(self) -> bool:
        """Return whether URLs wait, but all their hosts are in process or paused."""
        busy = [shard.frontier for shard in self._held.values() if len(shard.frontier)]
        return bool(busy) and all(frontier.all_rest for frontier in busy)

    @property
    def leased(self) -> int:
        """Return the number of URLs that are handed out and not completed."""
        return sum([shard.frontier.leased for shard in self._held.values()])

    @property
    def is_full(self) -> bool:
        """Return whether the sources of URLs should pause, because an eliminator is full."""
        return any(shard.eliminator.is_full for shard in self._held.values())

    @property
    def has_pending(self) -> bool:
        """Return whether any URL waits, is leased, or may still reach a frontier. O(shards)."""
        return any(shard.has_pending for shard in self._held.values())

    @property
    def next_due(self) -> float | None:
        """Return when the next repeat visit is due, in epoch seconds; None if none. O(shards)."""
        times = [shard.frontier.due.next_at for shard in self._held.values()]
        return min((at for at in times if at is not None), default=None)

    def has_fewer_hosts_than(self, number: int) -> bool:
        """Return whether fewer than *number* hosts have URLs to fetch, not counting parked URLs.

        False while some URLs are not yet sorted by host.
        """
        held = self._held.values()
        if any(shard.frontier.front_size or shard.eliminator.waiting for shard in held):
            return False
        return self.hosts < number

    @property
    def hosts(self) -> int:
        """Return the number of hosts with a back-end queue."""
        return sum([shard.frontier.hosts for shard in self._held.values()])

    @property
    def awaits_seeds(self) -> bool:
        """Return whether some shard does not hand out URLs until all seeds are known."""
        return any(shard.awaits_seeds for shard in self._held.values())

    def stats(self) -> dict[str, float]:
        """Return the sums of the shards' stats, keyed by their names in the crawl's stats.

        The counts of this run include those of shards that have left.
        """
        stats = [shard.stats() for shard in self]
        first = {name: value for values in stats[:1] for name, value in values.items()}
        not_summed = {name: value for name, value in first.items() if name in _NOT_SUMMED}
        return summed(self._counted_before, *stats) | not_summed


def _counts(shard: Shard) -> dict[str, float]:
    """Return the stats of *shard*, with 0 for each size.

    Only counts remain valid when a shard has left. A 0 keeps a stale size out of the stats.
    """
    return {
        name: number if name.startswith(COUNTED) else 0 for name, number in shard.stats().items()
    }
