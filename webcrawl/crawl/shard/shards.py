"""Shards: those of a crawl that this process holds, by their numbers.

A URL belongs to the shard of its host's registered domain: a stable hash of it, modulo the number
of shards of the crawl, which never changes. Shards come and go while the process runs.

With one shard in all, every call goes straight to it. With several it is remembered when each has
a URL ready, and asked anew only of those that have changed; and shards with nothing on its way to
their frontiers take turns in the background work.
"""

from __future__ import annotations

import math
from collections import deque
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from xxhash import xxh3_64_intdigest

from webcrawl.clock import now
from webcrawl.crawl.job.totals import COUNTED, added
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

# Shards that one slice of background work looks at though they have nothing new, at least.
_DRAINED = 8
_NEVER = math.inf
# Of all shards the same.
_NOT_SUMMED = frozenset({"reputation/round"})


class NotHeldError(LookupError):
    """The error of a URL whose shard this process does not hold."""


class Shards:
    """Those that were added, of *number* in the crawl.

    For a process that holds all of them a ``LinkSink``, which divides batches.

    *remote* makes of these the way to the processes that hold the others; None: there are
    none.
    turns: in which their eliminators merge.
    """

    def __init__(
        self,
        *,
        number: int = 1,
        remote: Callable[[Shards], RemoteShards] | None = None,
    ) -> None:
        self.number = number
        #: The number of the shard of a host, held or not: 0.1 us for one that was asked for lately.
        self.number_of = lru_cache(maxsize=CACHED_HOSTS)(
            lambda host: (xxh3_64_intdigest(registered_domain(host).encode()) or 1) % number
        )
        self.turns = MergeTurns()
        self._held: dict[int, Shard] = {}
        self._only: Shard | None = None
        # When each shard has a URL ready, by the clock of the process, as of its last change; and
        # those that have changed since.
        self._ready_at: dict[int, float] = {}
        self._changed: set[int] = set()
        # Shards that had a URL ready at the last look, the one that waits longest first.
        self._line: deque[int] = deque()
        self._slices = 0
        # What shards that have gone had counted since they came.
        self._counted_before: dict[str, float] = {}
        self.remote = None if remote is None else remote(self)

    def __iter__(self) -> Iterator[Shard]:
        """Those held, by their numbers."""
        return iter([*self._held.values()])

    def __len__(self) -> int:
        """The number of those held."""
        return len(self._held)

    def add(self, shard: Shard) -> None:
        """*shard*, which is open or about to be opened, is held from now on."""
        assert shard.number not in self._held, shard.name
        assert shard.number < self.number, shard.name
        self._held[shard.number] = shard
        self._held = dict(sorted(self._held.items()))
        self._only = shard if self.number == 1 else None
        shard.frontier.on_change = partial(self._changed.add, shard.number)
        self._changed.add(shard.number)

    def remove(self, shard: Shard) -> None:
        """*shard* is not held any more."""
        self._counted_before = added(self._counted_before, _counts(shard))
        del self._held[shard.number]
        self._only = None
        self._ready_at.pop(shard.number, None)

    def resize(self) -> None:
        """Divide the memory of the process evenly among those held."""
        for shard in self._held.values():
            shard.resize(len(self._held))

    # --- whose

    def find(self, url: str) -> Shard | None:
        """The shard of *url*, None if it is not held: 0.1 us if there is only one."""
        if self._only is not None:
            return self._only
        return self._held.get(self.number_of(host_of(url)))

    def held(self, number: int) -> Shard | None:
        """The shard *number*, None if it is not held."""
        return self._held.get(number)

    def of(self, url: str) -> Shard:
        """As ``find``; NotHeldError for one that is not held."""
        shard = self.find(url)
        if shard is None:
            raise NotHeldError(f"the shard of {url} is not held by this process")
        return shard

    # --- in

    def submit(self, batch: LinkBatch) -> None:
        """As ``LinkSink.submit``. NotHeldError for a shard that is not held."""
        if self._only is not None:
            self._only.submit(batch)
            return
        for number, part in batch.split(self.number_of):
            if number not in self._held:
                raise NotHeldError(f"the shard {number} is not held by this process")
            self._held[number].submit(part)

    def requeue(self, entry: Entry, *, ahead: bool = False) -> None:
        """As ``Frontier.requeue``, of the shard that *entry* belongs to."""
        shard = self.find(entry.url)
        if shard is not None:
            shard.frontier.requeue(entry, ahead=ahead)
        elif self.remote is not None:
            self.remote.enqueue(entry, None)
        else:
            raise NotHeldError(f"the shard of {entry.url} is not held by this process")

    # --- out

    def acquire(self) -> Lease[Shard] | None:
        """A URL of a host that is ready, of the shards in turn; None when there is none. As
        ``Frontier.acquire``."""
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
        """When ``acquire`` should be tried again, by the clock of the process: as
        ``Frontier.ready_at``."""
        if self._only is not None:
            only_at = self._only.frontier.ready_at() if self._only.hands_out else None
            return None if only_at is None else only_at - self._only.clock() + now()
        self._look()
        at = min(self._ready_at.values(), default=_NEVER)
        return None if at == _NEVER else at

    def _look(self) -> None:
        """Ask those that have changed when they have something ready."""
        for number in self._changed:
            shard = self._held.get(number)
            if shard is not None:
                at = shard.frontier.ready_at() if shard.hands_out else None
                self._ready_at[number] = _NEVER if at is None else at - shard.ahead_secs
        self._changed.clear()

    def expire(
        self, older_than: float, *, except_if: Callable[[Lease[Shard]], bool]
    ) -> list[Lease[Shard]]:
        """As ``Frontier.expire``, of all of them."""
        busy = [shard.frontier for shard in self._held.values() if not shard.is_idle]
        found = (frontier.expire(older_than, except_if=except_if) for frontier in busy)
        return [lease for leases in found for lease in leases]

    # --- background work

    def drain(self, least: Supply = Supply.NONE) -> None:
        """A slice of background work: for each shard that has something new, and for some others in
        turn. Reputation rounds are for all: one begins when there is nothing else to fetch in any
        shard; *least* is how soon there is in those of other processes."""
        if self._only is None:
            least = min(least, self.supply)
        self._slices += 1
        rounds = max(1, len(self._held) // _DRAINED)
        for place, shard in enumerate(self, start=self._slices):
            if place % rounds and not shard.feeder.is_busy:
                continue
            shard.drain(lambda: min(least, shard.feeder.supply()))  # noqa: B023  # called at once
            if self._only is None:
                least = min(least, shard.feeder.supply())
                # What is pushed from where it was parked, and shards that hand out from now on.
                self._changed.add(shard.number)
        self.turns.work(self)
        domains = [shard.hosts.records.domains for shard in self]
        latest = max([one.current_round for one in domains], default=0)
        for one in domains:
            if one.current_round < latest:
                one.begin_round(latest, counted_since=one.counted_since)

    @property
    def supply(self) -> Supply:
        """How soon there is something to fetch in the shards that are held. O(shards) at most."""
        least = Supply.NONE
        for shard in self._held.values():
            least = min(least, shard.feeder.supply())
            if least is Supply.NOW:
                break
        return least

    def note_idle_worker(self) -> None:
        """A worker found nothing to do."""
        self.turns.is_starving = any(shard.hands_out for shard in self._held.values())

    # --- counts

    @property
    def all_rest(self) -> bool:
        """Whether URLs wait, all of them for hosts that rest or are in process."""
        busy = [shard.frontier for shard in self._held.values() if len(shard.frontier)]
        return bool(busy) and all(frontier.all_rest for frontier in busy)

    @property
    def leased(self) -> int:
        """URLs handed out and not finished."""
        return sum([shard.frontier.leased for shard in self._held.values()])

    @property
    def is_full(self) -> bool:
        """Whether an eliminator wants the sources of URLs to pause."""
        return any(shard.eliminator.is_full for shard in self._held.values())

    @property
    def may_bring(self) -> bool:
        """Whether anything waits, is leased, or may come to a frontier yet. O(shards)."""
        return any(shard.may_bring for shard in self._held.values())

    @property
    def next_due(self) -> float | None:
        """When the next visits are due, epoch seconds; None if there are none. O(shards)."""
        times = [shard.frontier.due.next_at for shard in self._held.values()]
        return min((at for at in times if at is not None), default=None)

    def has_fewer_hosts_than(self, number: int) -> bool:
        """Whether fewer than *number* hosts have URLs to be fetched, parked ones apart."""
        held = self._held.values()
        if any(shard.frontier.front_size or shard.eliminator.waiting for shard in held):
            return False
        return self.hosts < number

    @property
    def hosts(self) -> int:
        """Hosts with a back-end queue."""
        return sum([shard.frontier.hosts for shard in self._held.values()])

    @property
    def awaits_seeds(self) -> bool:
        """Whether a shard hands out nothing before all seeds are known."""
        return any(shard.awaits_seeds for shard in self._held.values())

    def stats(self) -> dict[str, float]:
        """Sums over the shards, under their names in the crawl's statistics; what is counted in a
        run, over those that have gone, too."""
        stats = [shard.stats() for shard in self]
        same = {name: number for one in stats[:1] for name, number in one.items()}
        rounds = {name: number for name, number in same.items() if name in _NOT_SUMMED}
        return added(self._counted_before, *stats) | rounds


def _counts(shard: Shard) -> dict[str, float]:
    """The counts of *shard*, and 0 for each size: else the last figure stayed in the stats."""
    return {
        name: number if name.startswith(COUNTED) else 0 for name, number in shard.stats().items()
    }
