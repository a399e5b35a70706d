"""Moves new URLs from the eliminator through admission to the frontier, in short slices of work.

It also decides when parked URLs are reconsidered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from webcrawl.clock import TimeSource
from webcrawl.crawl.shard.merge_turns import MergeTurns
from webcrawl.frontier import Frontier, Supply
from webcrawl.frontier.admission import Admission
from webcrawl.seen.eliminator import Eliminator

# Duration of one slice of work. It keeps the reactor from being blocked for more than 50 ms.
_SLICE_SECS = 0.01
_SLICE_ENTRIES = 256
# A merge that is expected within this time may soon provide URLs to fetch.
_SOON_SECS = 10.0


@dataclass(kw_only=True, eq=False)
class Feeder:
    """Feeds the frontier with the new URLs of the eliminator.

    *clock* returns epoch seconds. *turns* decide when the eliminator merges. Set ``has_all_seeds``
    when there are no more seeds; until then an empty frontier does not mean that no URLs are left.
    """

    eliminator: Eliminator
    admission: Admission
    frontier: Frontier
    clock: TimeSource
    turns: MergeTurns
    has_all_seeds: bool = field(default=False, init=False)

    def open(self, *, awaits_seeds: bool) -> None:
        """Start feeding. Called when the crawl is open.

        *awaits_seeds* tells whether the spider will later report that all seeds are read.
        """
        self.admission.open()
        self.has_all_seeds = not awaits_seeds

    @property
    def has_pending(self) -> bool:
        """Return whether submitted or parked URLs may still reach the frontier. O(1)."""
        has_urls = bool(self.eliminator.waiting) or self.admission.may_admit
        return has_urls or self.frontier.due.is_due

    @property
    def has_movable_urls(self) -> bool:
        """Return whether any URLs can be moved to the frontier now."""
        frontier = self.frontier
        return self.eliminator.has_decided or bool(frontier.parked.due) or frontier.due.is_due

    def work(self, supply: Callable[[], Supply]) -> None:
        """Spend a slice of work on new URLs, and on parked URLs to be reconsidered.

        *supply* returns how soon any shard of the crawl has a URL to fetch.
        """
        deadline = self.clock() + _SLICE_SECS
        while batch := self.eliminator.take(_SLICE_ENTRIES):
            self.admission.push(batch)
            if self.clock() >= deadline:
                break
        # It returns whether there is more to do.
        while self.admission.work(supply()) and self.clock() < deadline:
            pass

    def supply(self) -> Supply:
        """Return how soon this shard has a URL to fetch, not counting parked ones."""
        if not self.has_all_seeds:
            return Supply.NOW
        supply = self.frontier.supply
        if not self.eliminator.waiting:
            return supply
        # The next merge may find that some of the submitted URLs are new. The smaller supply is
        # the sooner one.
        is_merge_near = self.eliminator.merging or self.turns.is_within(_SOON_SECS)
        return min(supply, Supply.SOON if is_merge_near else Supply.LATER)
