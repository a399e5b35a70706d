"""New URLs on their way from the eliminator through the gates to the frontier, in slices.

It also says when the eliminator is to merge, and when parked URLs get another chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.frontier import Supply

if TYPE_CHECKING:
    from collections.abc import Callable

    from webcrawl.crawl.live_settings import LiveSettings
    from webcrawl.frontier import Frontier
    from webcrawl.frontier.admission import Admission
    from webcrawl.seen.eliminator import Eliminator

# One slice takes about this long, so that the reactor is never held for more than 50 ms.
_SLICE_SECS = 0.01
_SLICE_ENTRIES = 256
# A merge that comes within so many seconds is waited for: it may bring something to fetch.
_SOON_SECS = 10.0


class Feeder:
    """Feeder of the frontier with the new URLs of the eliminator.

    The front end should have a URL for each of the workers; *clock* gives epoch seconds.

    Set *is_starving* when a worker found nothing to do, and *is_fed* when there are no more seeds:
    until then an empty frontier means nothing.
    """

    def __init__(
        self,
        *,
        eliminator: Eliminator,
        admission: Admission,
        frontier: Frontier,
        live: LiveSettings,
        clock: Callable[[], float],
    ) -> None:
        self._eliminator = eliminator
        self._admission = admission
        self._frontier = frontier
        self._live = live
        self._clock = clock
        self._merge_at = 0.0
        self.is_starving = False
        self.is_fed = False

    def open(self, *, awaits_seeds: bool) -> None:
        """The crawl is open; its spider will say when all seeds are read, or has none."""
        self._admission.open()
        self.is_fed = not awaits_seeds

    @property
    def may_bring(self) -> bool:
        """Whether anything may come to the frontier yet that was submitted or is parked. O(1)."""
        return bool(self._eliminator.waiting) or self._admission.may_admit

    def work(self, supply: Callable[[], Supply]) -> None:
        """A slice: what is new, what is to be reconsidered, a merge when the front end is low.

        *supply* is how soon there is something to fetch, in all shards that are crawled together.
        """
        deadline = self._clock() + _SLICE_SECS
        while batch := self._eliminator.take(_SLICE_ENTRIES):
            self._admission.push(batch)
            if self._clock() >= deadline:
                break
        while self._admission.work(supply()) and self._clock() < deadline:
            pass
        self._merge_if_low()

    def supply(self) -> Supply:
        """How soon there is something to fetch here that is not parked."""
        if not self.is_fed:
            return Supply.NOW
        supply = self._frontier.supply
        if not self._eliminator.waiting:
            return supply
        merges = self._eliminator.merging or self._merge_at < self._clock() + _SOON_SECS
        return min(supply, Supply.SOON if merges else Supply.LATER)

    def _merge_if_low(self) -> None:
        """Merge at once when workers are idle or the front end runs low: a small crawl must not
        wait for T to fill. Merging takes at most a tenth of the time."""
        now = self._clock()
        low = self.is_starving or self._frontier.front_size < self._live.workers
        if low and now >= self._merge_at and not self._eliminator.merging:
            self._eliminator.merge()
            self._merge_at = now + 10 * self._eliminator.last_merge_secs
        self.is_starving = False
