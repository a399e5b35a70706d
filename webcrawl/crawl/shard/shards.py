"""The shards of a crawl that this process holds, by number.

A URL belongs to the shard of its host's registered domain: a stable hash of the domain, modulo the
number of shards of the crawl, which never changes. Shards can be added and removed while the
process runs.

With one shard in the crawl, every call goes straight to it. With several, the time when each has a
URL ready is remembered, and only shards that have changed are asked again. Shards with nothing on
its way to their frontiers take turns in the background work.
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

# Minimum number of shards without news that one slice of background work looks at.
_DRAINED = 8
_NEVER = math.inf
# Stats that are the same in all shards.
_NOT_SUMMED = frozenset({"reputation/round"})


class NotHeldError(LookupError):
    """Error of a URL whose shard this process does not hold."""


class Shards:
    """The shards held by this process, out of *number* in the crawl.

    In a process that holds all of them it is a ``LinkSink``, which divides batches. *remote* makes
    the connection to the processes that hold the others, from this object; None: there are none.
    turns: those in which their eliminators merge.
    """

    def __init__(
        self,
        *,
        number: int = 1,
        remote: Callable[[Shards], RemoteShards] | None = None,
    ) -> None:
        self.number = number
        #: Number of the shard of a host, held or not: 0.1 us for a host looked up recently.
        self.number_of = lru_cache(maxsize=CACHED_HOSTS)(
            lambda host: (xxh3_64_intdigest(registered_domain(host).encode()) or 1) % number
        )
        self.turns = MergeTurns()
        self._held: dict[int, Shard] = {}
        self._only: Shard | None = None
        # When each shard has a URL ready, by the clock of the process, as of its last change; and
        # the shards that have changed since.
        self._ready_at: dict[int, float] = {}
        self._changed: set[int] = set()
        # Shards that had a URL ready at the last look, the longest waiting first.
        self._line: deque[int] = deque()
        self._slices = 0
        # Counts of shards that have left, since they were added.
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
        assert shard.number not in self._held, shard.name
        assert shard.number < self.number, shard.name
        self._held[shard.number] = shard
        self._held = dict(sorted(self._held.items()))
        self._only = shard if self.number == 1 else None
        shard.frontier.on_change = partial(self._changed.add, shard.number)
        self._changed.add(shard.number)

    def remove(self, shard: Shard) -> None:
        """Remove *shard*."""
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
        """Return the shard of *url*, None if it is not held. 0.1 us if there is only one."""
        if self._only is not None:
            return self._only
        return self._held.get(self.number_of(host_of(url)))

    def held(self, number: int) -> Shard | None:
        """Return the shard *number*, None if it is not held."""
        return self._held.get(number)

    def of(self, url: str) -> Shard:
        """Return the shard of *url*; raise NotHeldError if it is not held."""
        shard = self.find(url)
        if shard is None:
            raise NotHeldError(f"the shard of {url} is not held by this process")
        return shard

    # --- in

    def submit(self, batch: LinkBatch) -> None:
        """Submit *batch* as ``LinkSink.submit``.

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
        """Requeue *entry* in its shard, as ``Frontier.requeue``."""
        shard = self.find(entry.url)
        if shard is not None:
            shard.frontier.requeue(entry, ahead=ahead)
        elif self.remote is not None:
            self.remote.enqueue(entry, None)
        else:
            raise NotHeldError(f"the shard of {entry.url} is not held by this process")

    # --- out

    def acquire(self) -> Lease[Shard] | None:
        """Acquire a URL of a host that is ready, from the shards in turn; None when there is none.

        Otherwise as ``Frontier.acquire``.
        """
        if self._only is not None:
            return self._only.acquire()
        line = self._line
        for looks_again in (True, False):
            while line:
                shard = self._held.get(line.popleft())
                lease = None if shard is None else shard.acquire()
                if shard is not None:
                    self._changed.add(shard.number)
                if lease is not None:
                    return lease
            if looks_again:
                self._look()
                at = now()
                line.extend(
                    sorted(
                        [number for number, ready_at in self._ready_at.items() if ready_at <= at],
                        key=self._ready_at.__getitem__,
                    )
                )
        return None

    def ready_at(self) -> float | None:
        """Return when to try ``acquire`` again, by the clock of the process.

        Otherwise as ``Frontier.ready_at``.
        """
        if self._only is not None:
            only_at = self._only.frontier.ready_at() if self._only.can_hand_out else None
            return None if only_at is None else only_at - self._only.clock() + now()
        self._look()
        at = min(self._ready_at.values(), default=_NEVER)
        return None if at == _NEVER else at

    def _look(self) -> None:
        """Ask shards that have changed when they have something ready."""
        for number in self._changed:
            shard = self._held.get(number)
            if shard is not None:
                at = shard.frontier.ready_at() if shard.can_hand_out else None
                self._ready_at[number] = _NEVER if at is None else at - shard.ahead_secs
        self._changed.clear()

    def expire(
        self, older_than: float, *, except_if: Callable[[Lease[Shard]], bool]
    ) -> list[Lease[Shard]]:
        """Expire leases in all shards, as ``Frontier.expire``."""
        busy = [shard.frontier for shard in self._held.values() if not shard.is_idle]
        found = (frontier.expire(older_than, except_if=except_if) for frontier in busy)
        return [lease for leases in found for lease in leases]

    # --- background work

    def drain(self, soonest: Supply = Supply.NONE) -> None:
        """Do a slice of background work.

        It serves each shard that has something new, and some of the others in turn. A reputation
        round starts for all shards together, when there is nothing else to fetch in any. *soonest*
        says how soon there is something in other processes.
        """
        if self._only is None:
            soonest = min(soonest, self.supply)
        self._slices += 1
        rounds = max(1, len(self._held) // _DRAINED)
        for place, shard in enumerate(self, start=self._slices):
            if place % rounds and not shard.feeder.is_busy:
                continue
            shard.drain(lambda: min(soonest, shard.feeder.supply()))  # noqa: B023  # called at once
            if self._only is None:
                soonest = min(soonest, shard.feeder.supply())
                # Parked URLs may have been released, and the shard may have begun to hand out URLs.
                self._changed.add(shard.number)
        self.turns.work(self)
        domains = [shard.hosts.records.domains for shard in self]
        latest = max([one.current_round for one in domains], default=0)
        for one in domains:
            if one.current_round < latest:
                one.begin_round(latest, counted_since=one.counted_since)

    @property
    def supply(self) -> Supply:
        """Return how soon there is something to fetch in the held shards. At most O(shards)."""
        soonest = Supply.NONE
        for shard in self._held.values():
            soonest = min(soonest, shard.feeder.supply())
            if soonest is Supply.NOW:
                break
        return soonest

    def note_idle_worker(self) -> None:
        """Note that a worker found nothing to do."""
        self.turns.is_starving = any(shard.can_hand_out for shard in self._held.values())

    # --- counts

    @property
    def all_rest(self) -> bool:
        """Return whether URLs are waiting, all of them for hosts that pause or are in process."""
        busy = [shard.frontier for shard in self._held.values() if len(shard.frontier)]
        return bool(busy) and all(frontier.all_rest for frontier in busy)

    @property
    def leased(self) -> int:
        """Return the number of URLs handed out and not finished."""
        return sum([shard.frontier.leased for shard in self._held.values()])

    @property
    def is_full(self) -> bool:
        """Return whether an eliminator wants the sources of URLs to pause."""
        return any(shard.eliminator.is_full for shard in self._held.values())

    @property
    def has_pending(self) -> bool:
        """Return whether anything waits, is leased, or may still reach a frontier. O(shards)."""
        return any(shard.has_pending for shard in self._held.values())

    @property
    def next_due(self) -> float | None:
        """Return when the next repeat visits are due, in epoch seconds, or None. O(shards)."""
        times = [shard.frontier.due.next_at for shard in self._held.values()]
        return min((at for at in times if at is not None), default=None)

    def has_fewer_hosts_than(self, number: int) -> bool:
        """Return whether fewer than *number* hosts have URLs to fetch; parked ones do not count."""
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
        """Return whether a shard hands out nothing before all seeds are known."""
        return any(shard.awaits_seeds for shard in self._held.values())

    def stats(self) -> dict[str, float]:
        """Return sums over the shards, by their names in the crawl's statistics.

        Counts of this run include those of shards that have left.
        """
        stats = [shard.stats() for shard in self]
        same = {name: number for one in stats[:1] for name, number in one.items()}
        rounds = {name: number for name, number in same.items() if name in _NOT_SUMMED}
        return summed(self._counted_before, *stats) | rounds


def _counts(shard: Shard) -> dict[str, float]:
    """Return the counts of *shard*, and 0 for each size.

    Otherwise the last value of a size would stay in the stats.
    """
    return {
        name: number if name.startswith(COUNTED) else 0 for name, number in shard.stats().items()
    }
