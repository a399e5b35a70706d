"""Feeds new URLs from the eliminator through the gates to the frontier, in slices.

It also decides when parked URLs get another chance.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from webcrawl.frontier import Supply

if TYPE_CHECKING:
    from collections.abc import Callable

    from webcrawl.clock import TimeSource
    from webcrawl.crawl.shard.merge_turns import MergeTurns
    from webcrawl.frontier import Frontier
    from webcrawl.frontier.admission import Admission
    from webcrawl.seen.eliminator import Eliminator

# One slice takes about this long, so that the reactor is never blocked for more than 50 ms.
_SLICE_SECS = 0.01
_SLICE_ENTRIES = 256
# A merge expected within this many seconds counts as soon: it may bring something to fetch.
_SOON_SECS = 10.0


@dataclasses.dataclass(kw_only=True, eq=False)
class Feeder:
    """Feeds the frontier with the new URLs of the eliminator.

    *clock* gives epoch seconds. Set *has_all_seeds* when there are no more seeds: until then an
    empty frontier means nothing. *turns* decide when the eliminator merges.
    """

    eliminator: Eliminator
    admission: Admission
    frontier: Frontier
    clock: TimeSource
    turns: MergeTurns
    has_all_seeds: bool = dataclasses.field(default=False, init=False)

    def open(self, *, awaits_seeds: bool) -> None:
        """Start, now that the crawl is open.

        *awaits_seeds*: the spider will say when all seeds are read.
        """
        self.admission.open()
        self.has_all_seeds = not awaits_seeds

    @property
    def has_pending(self) -> bool:
        """Return whether submitted or parked URLs may still reach the frontier. O(1)."""
        waits = bool(self.eliminator.waiting) or self.admission.may_admit
        return waits or self.frontier.due.is_due

    @property
    def is_busy(self) -> bool:
        """Return whether something is on its way to the frontier now."""
        frontier = self.frontier
        return self.eliminator.has_decided or bool(frontier.parked.due) or frontier.due.is_due

    def work(self, supply: Callable[[], Supply]) -> None:
        """Do a slice of work on new URLs, and on URLs to be reconsidered.

        *supply* says how soon there is something to fetch in all shards that are crawled together.
        """
        deadline = self.clock() + _SLICE_SECS
        while batch := self.eliminator.take(_SLICE_ENTRIES):
            self.admission.push(batch)
            if self.clock() >= deadline:
                break
        while self.admission.work(supply()) and self.clock() < deadline:
            pass

    def supply(self) -> Supply:
        """Return how soon there is something to fetch here that is not parked."""
        if not self.has_all_seeds:
            return Supply.NOW
        supply = self.frontier.supply
        if not self.eliminator.waiting:
            return supply
        merges = self.eliminator.merging or self.turns.is_within(_SOON_SECS)
        return min(supply, Supply.SOON if merges else Supply.LATER)
