"""The shards of a crawl that this process holds, by number.

A URL belongs to the shard of its host's registered domain. The shard's number is a stable hash of
the domain, modulo the number of shards of the crawl, which never changes. Shards can be added and
removed while the process runs. In background work, shards without new URLs for their frontiers take
turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial

from xxhash import xxh3_64_intdigest

from webcrawl.crawl.job.totals import COUNTED, sum_counts
from webcrawl.crawl.links.link_intake import LinkBatch
from webcrawl.crawl.links.remote_shards import RemoteShards
from webcrawl.crawl.shard.merge_turns import MergeTurns
from webcrawl.crawl.shard.ready_shards import ReadyShards
from webcrawl.crawl.shard.shard import Shard
from webcrawl.frontier import Entry, Supply
from webcrawl.urls import host_of
from webcrawl.urls.registered_domain import CACHED_HOSTS, registered_domain

# Minimum number of shards without new URLs that one slice of background work serves.
_MIN_SERVED = 8
# Stats that are the same in all shards.
_NOT_SUMMED = frozenset({"reputation/round"})


class NotHeldError(LookupError):
    """Raised for a URL whose shard this process does not hold."""


class Shards:
    """The shards held by this process, out of ``number`` in the crawl.

    In a process that holds all shards, this is a ``LinkSink``, which divides batches. ``turns``
    decides when the eliminators merge; ``ready`` hands out URLs.
    """

    def __init__(
        self,
        *,
        number: int = 1,
        remote: Callable[[Shards], RemoteShards] | None = None,
    ) -> None:
        """Create it without shards; *number* is that of the shards in the crawl.

        *remote* is called with this object, and returns the connection to the processes that hold
        the other shards; None if there are none.
        """
        self.number = number
        #: Return the number of the shard of a host, held or not. 0.1 us for a recent host.
        self.number_of = lru_cache(maxsize=CACHED_HOSTS)(
            lambda host: (xxh3_64_intdigest(registered_domain(host).encode()) or 1) % number
        )
        self.turns = MergeTurns()
        # The held shards by number, in that order.
        self._held: dict[int, Shard] = {}
        # The shard of a crawl that has only one; otherwise None.
        self._only: Shard | None = None
        self.ready = ReadyShards(self._held)
        # Number of calls of ``work``, which determines whose turn it is.
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
        for number in sorted(self._held):
            self._held[number] = self._held.pop(number)
        self._only = shard if self.number == 1 else None
        shard.frontier.contacts.on_change = partial(self.ready.changed.add, shard.number)
        self.ready.changed.add(shard.number)

    def remove(self, shard: Shard) -> None:
        """Remove *shard*, but keep its counts for the stats of this run."""
        self._counted_before = sum_counts(self._counted_before, _counts(shard))
        del self._held[shard.number]
        self._only = None
        self.ready.changed.add(shard.number)

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

    def find_held(self, number: int) -> Shard | None:
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
        if self.remote is not None and self.find(entry.url) is None:
            self.remote.enqueue(entry, None)
        else:
            self.of(entry.url).frontier.requeue(entry, ahead=ahead)

    # --- background work

    def work(self, soonest: Supply = Supply.NONE) -> None:
        """Do a slice of background work for the held shards. Called often.

        It serves each shard that has new URLs, and some of the others in turn. When no shard has
        anything else to fetch, a reputation round starts for all of them together. *soonest* tells
        how soon there is a URL to fetch in other processes.
        """
        # With several shards, a URL of any of them counts for all others.
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
                self.ready.changed.add(shard.number)

        self.turns.work(self)

        # When one shard has begun a round, all others begin the same one.
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

    # --- counts

    @property
    def has_pending(self) -> bool:
        """Return whether any URL waits, is leased, or may still reach a frontier. O(shards)."""
        return any(shard.has_pending for shard in self._held.values())

    def stats(self) -> dict[str, float]:
        """Return the sums of the shards' stats, keyed by their names in the crawl's stats.

        The counts of this run include those of shards that have left.
        """
        stats = [shard.stats() for shard in self]
        first = {name: value for values in stats[:1] for name, value in values.items()}
        not_summed = {name: value for name, value in first.items() if name in _NOT_SUMMED}
        return sum_counts(self._counted_before, *stats) | not_summed


def _counts(shard: Shard) -> dict[str, float]:
    """Return the stats of *shard*, with 0 for each size.

    Only counts remain valid when a shard has left. A 0 keeps a stale size out of the stats.
    """
    return {
        name: number if name.startswith(COUNTED) else 0 for name, number in shard.stats().items()
    }
