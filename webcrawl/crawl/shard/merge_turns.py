"""Merge turns: decides which eliminator of a process merges before it is full, and when.

A small crawl must not wait until the buffer of an eliminator is full. When workers are idle, or the
front ends have few URLs left, the submitted URLs are checked immediately. The shards merge one at a
time, in turn. However many shards there are, merging takes at most a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from webcrawl.clock import TimeSource, now

if TYPE_CHECKING:
    from webcrawl.crawl.shard.shard import Shard
    from webcrawl.seen.eliminator import Eliminator

# Minimum time between the starts of two merges, in multiples of the duration of the first.
_PAUSE = 10


class MergeTurns:
    """Starts the merges of the shards of one process. *clock* returns seconds.

    Set ``is_starving`` when a worker found nothing to do.
    """

    def __init__(self, *, clock: TimeSource = now) -> None:
        self._clock = clock
        # The earliest time for the next merge.
        self._next_at = 0.0
        # The shard whose merge was started last, and its number; its merge may be over.
        self._merging: Shard | None = None
        self._last = -1
        self.is_starving = False

    def is_within(self, secs: float) -> bool:
        """Return whether the next merge may start within *secs* seconds."""
        return self._next_at < self._clock() + secs

    def work(self, shards: Iterable[Shard]) -> None:
        """Start a merge in the next of *shards*, if URLs are needed and it is time.

        Raises the error that stopped an earlier merge.
        """
        is_starving = self.is_starving
        self.is_starving = False
        time = self._clock()
        last = self._merging
        is_merging = last is not None and not last.is_abandoned and last.eliminator.merging
        if time < self._next_at or is_merging:
            return

        held = [*shards]
        front_size = sum([shard.frontier.front.size for shard in held])
        # URLs are needed if a worker had nothing to do, or if there are fewer than workers. All
        # shards have the same settings.
        if not held or not (is_starving or front_size < held[0].live.workers):
            return

        # The shards after the one that merged last come first.
        for shard in sorted(held, key=lambda item: (item.number <= self._last, item.number)):
            if _start_merge(shard.eliminator):
                self._merging = shard
                self._last = shard.number
                self._next_at = time + _PAUSE * shard.eliminator.last_merge_secs
                return


def _start_merge(eliminator: Eliminator) -> bool:
    """Start a merge of *eliminator*, and return whether there was something to merge."""
    if not eliminator.waiting or eliminator.merging:
        return False
    eliminator.merge()
    return eliminator.merging
