"""Pauses: named reasons for which no host is contacted, though there is something to fetch.

Downloads under way are not broken off, checkpoints go on, and the crawl can be stopped. Nothing is
kept over a restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from webcrawl.clock import TimeSource


class Pauses:
    """The reasons that hold the crawl, by name. *wake* is called when the last one ends."""

    def __init__(self, *, clock: TimeSource, wake: Callable[[], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._held: dict[str, tuple[float, str, Callable[[], bool]]] = {}
        self._secs: dict[str, float] = {}

    def __bool__(self) -> bool:
        """Whether there is a reason that makes no exception now."""
        return bool(self._held) and any(not except_if() for _, _, except_if in self._held.values())

    def hold(
        self, name: str, sentence: str, *, except_if: Callable[[], bool] = lambda: False
    ) -> bool:
        """Hand out nothing until ``lift(name)``, except while *except_if* returns True; *sentence*
        has the reason and the remedy. False if it is held by that name already: then only the
        sentence changes."""
        is_new = name not in self._held
        since = self._clock() if is_new else self._held[name][0]
        self._held[name] = (since, sentence, except_if)
        return is_new

    def lift(self, name: str) -> bool:
        """End the reason *name*; False if there is none."""
        if name not in self._held:
            return False
        self._secs[name] = self._secs_of(name)
        del self._held[name]
        if not self._held:
            self._wake()
        return True

    @property
    def names(self) -> list[str]:
        """The names of the reasons that hold, the oldest first."""
        return [*self._held]

    @property
    def sentences(self) -> list[str]:
        """The sentences of the reasons that hold, the oldest first."""
        return [sentence for _, sentence, _ in self._held.values()]

    def stats(self) -> dict[str, float | str]:
        """Seconds by reason, and the reasons that hold, by their names in Scrapy's stats."""
        names = {*self._secs, *self._held}
        secs = {f"pauses/{name}_secs": round(self._secs_of(name), 1) for name in sorted(names)}
        return {**secs, "pauses/now": " ".join(self.sentences)} if names else {}

    def _secs_of(self, name: str) -> float:
        held = self._held.get(name)
        return self._secs.get(name, 0.0) + (0.0 if held is None else self._clock() - held[0])
