"""Pauses: named reasons why no host is contacted, although there are URLs to fetch.

During a pause, downloads in progress are not aborted, checkpoints continue, and the crawl can be
stopped. Pauses do not survive a restart.
"""

from __future__ import annotations

from collections.abc import Callable

from webcrawl.clock import TimeSource


class Pauses:
    """All current pauses of the crawl, by name. *wake* is called when the last of them ends."""

    def __init__(self, *, clock: TimeSource, wake: Callable[[], None]) -> None:
        self._clock = clock
        self._wake = wake
        # For each current pause: since when it lasts, its sentence, and whether to make an
        # exception.
        self._held: dict[str, tuple[float, str, Callable[[], bool]]] = {}
        # How long pauses that have ended lasted in all, in seconds.
        self._secs: dict[str, float] = {}

    def __bool__(self) -> bool:
        """Return whether the crawl is paused now, as at least one pause makes no exception."""
        return bool(self._held) and any(not except_if() for _, _, except_if in self._held.values())

    def hold(
        self, name: str, sentence: str, *, except_if: Callable[[], bool] = lambda: False
    ) -> bool:
        """Pause the crawl until ``lift(name)``, except while *except_if* returns True.

        *sentence* names the reason and the remedy. If there is already a pause with this name, its
        sentence and exception are replaced, and False is returned.
        """
        is_new = name not in self._held
        since = self._clock() if is_new else self._held[name][0]
        self._held[name] = (since, sentence, except_if)
        return is_new

    def lift(self, name: str) -> bool:
        """End the pause *name*; return False if there is none."""
        if name not in self._held:
            return False
        self._secs[name] = self._secs_of(name)
        del self._held[name]
        if not self._held:
            self._wake()
        return True

    @property
    def names(self) -> list[str]:
        """Names of the current pauses, oldest first."""
        return [*self._held]

    @property
    def sentences(self) -> list[str]:
        """Sentences of the current pauses, oldest first."""
        return [sentence for _, sentence, _ in self._held.values()]

    def stats(self) -> dict[str, float | str]:
        """Return the stats: the seconds of each pause so far, and the sentences of current ones."""
        names = {*self._secs, *self._held}
        secs = {f"pauses/{name}_secs": round(self._secs_of(name), 1) for name in sorted(names)}
        return {**secs, "pauses/now": " ".join(self.sentences)} if names else {}

    def _secs_of(self, name: str) -> float:
        """Return for how many seconds the pause *name* has lasted in this run, in all."""
        pause = self._held.get(name)
        return self._secs.get(name, 0.0) + (0.0 if pause is None else self._clock() - pause[0])
