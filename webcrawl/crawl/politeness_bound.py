"""Whether politeness is what the crawl waits for.

When few hosts remain, workers are idle because every host that has URLs rests. Politeness is kept
then, and the crawl must say that it is the reason: "after weeks on one site" a slow crawl looks
like a broken one. Looked at by the scheduler with every slice of background work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from webcrawl.frontier import Frontier


class PolitenessBound:
    """Counts the seconds; *workers* is how many there are, *clock* monotonic seconds."""

    def __init__(self, *, frontier: Frontier, workers: int, clock: Callable[[], float]) -> None:
        self._frontier = frontier
        self.workers = workers
        self._clock = clock
        self._looked_at = clock()
        self.holds = False
        self.secs = 0.0

    def look(self) -> None:
        """Judge the present, and count the time since the last look by what held then."""
        now = self._clock()
        if self.holds:
            self.secs += now - self._looked_at
        self._looked_at = now
        self.holds = self._frontier.all_rest and self._frontier.leased < self.workers

    @property
    def secs_left(self) -> float | None:
        """Seconds until the next host is ready; None while politeness is not the reason."""
        ready_at = self._frontier.ready_at()
        if not self.holds or ready_at is None:
            return None
        return max(0.0, ready_at - self._clock())
