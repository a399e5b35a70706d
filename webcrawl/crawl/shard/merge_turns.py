"""Merge turns: which eliminator of a process merges before it is full, and when.

A small crawl must not wait for T to fill. When workers are idle, or the front ends run low, the
submitted URLs are looked up immediately. One shard merges at a time, in turn. However many shards
there are, merging takes at most a tenth of the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.clock import TimeSource, now

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webcrawl.crawl.shard.shard import Shard
    from webcrawl.seen.eliminator import Eliminator

# Minimum time between the starts of two merges, in multiples of the time a merge took.
_PAUSE = 10


class MergeTurns:
    """Merge turns of one process. *clock* gives seconds.

    Set *is_starving* when a worker found nothing to do.
    """

    def __init__(self, *, clock: TimeSource = now) -> None:
        self._clock = clock
        self._next_at = 0.0
        self._last = -1
        self._merging: Shard | None = None
        self.is_starving = False

    def is_within(self, secs: float) -> bool:
        """Return whether the next merge may start within *secs* seconds."""
        return self._next_at < self._clock() + secs

    def work(self, shards: Iterable[Shard]) -> None:
        """Start a merge of the next of *shards*, if it is time.

        Raises what stopped an earlier one.
        """
        is_starving, self.is_starving = self.is_starving, False
        at = self._clock()
        last = self._merging
        is_merging = last is not None and not last.is_abandoned and last.eliminator.merging
        if at < self._next_at or is_merging:
            return
        held = [*shards]
        front = sum([one.frontier.front_size for one in held])
        if not held or not (is_starving or front < held[0].live.workers):
            return
        # Shards after the last one come first.
        for shard in sorted(held, key=lambda one: (one.number <= self._last, one.number)):
            if _begins(shard.eliminator):
                self._merging, self._last = shard, shard.number
                self._next_at = at + _PAUSE * shard.eliminator.last_merge_secs
                return


def _begins(eliminator: Eliminator) -> bool:
    """Start a merge of *eliminator*, and return whether there was something to merge."""
    if not eliminator.waiting or eliminator.merging:
        return False
    eliminator.merge()
    return eliminator.merging
