"""Shards that a process adopts, hands over and abandons while its crawl goes on."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from webcrawl.crawl.job.state_directory import shard_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from webcrawl.crawl.job_state import JobState
    from webcrawl.crawl.shard.shard import Shard

logger = logging.getLogger(__name__)


class ShardLifecycle:
    """Lifecycle of the shards of *state*.

    *on_come* is called when one was adopted, *on_go* when one is not of this process any more.
    awaits_seeds: the spider has not read all seeds yet.
    """

    def __init__(
        self, *, state: JobState, on_come: Callable[[], None], on_go: Callable[[Shard], None]
    ) -> None:
        self._state = state
        self._job = state.resources.job
        self._shards = state.shards
        self._on_come = on_come
        self._on_go = on_go
        self._on_merged: Callable[[], object] = lambda: None
        # Shards that have gone and are being closed, by their names.
        self._closing: dict[str, Future[None]] = {}
        self.awaits_seeds = False

    def open(self, *, awaits_seeds: bool, on_merged: Callable[[], None]) -> None:
        """Open the shards that are held at first. *on_merged* is called in the reactor thread soon
        after an eliminator has merged. Blocks. Raises as ``JobState.open``."""
        self.awaits_seeds = awaits_seeds
        self._on_merged = partial(asyncio.get_running_loop().call_soon_threadsafe, on_merged)
        self._state.open()
        for shard in self._shards:
            self._begin(shard)

    def _begin(self, shard: Shard) -> None:
        shard.feeder.open(awaits_seeds=self.awaits_seeds)
        shard.eliminator.on_merged = self._on_merged

    def adopt(self, shard: Shard, *, forgets: bool = False) -> None:
        """Open *shard*, as its directory has it, and crawl it from now on. Blocks; to be called
        after ``until_gone``. *forgets* as in ``Shard.open``.

        A checkpoint should follow soon: its logs are trusted only within one boot. Its seeds are
        awaited, with a spider that reads some, until ``Shard.seeds_are_known``.
        Raises as ``Shard.open``; the shard is none of this process then.
        """
        state = self._job.adopt(shard.name)
        try:
            self._state.open_shard(shard, state, forgets=forgets)
        except BaseException:
            self._job.drop(shard.name)
            raise
        self._begin(shard)
        self._shards.add(shard)
        self._shards.resize()
        self._on_come()

    async def until_gone(self, number: int) -> None:
        """Return when nothing is written any more to the directory of the shard *number*, which
        was here before: to be awaited before the directory is made anew."""
        closing = self._closing.pop(shard_name(number), None)
        if closing is not None:
            await asyncio.wrap_future(closing)

    def abandon(self, shard: Shard, *, deletes: bool = False) -> None:
        """*shard* is another process's: nothing of it is written or contacted any more, and what
        comes back of it is ignored. Returns at once; a thread closes it, and *deletes* its
        directory if it was handed over with all that its last checkpoint has."""
        job = self._job
        self._shards.remove(shard)
        self._shards.resize()
        job.drop(shard.name)
        shard.abandon()
        self._on_go(shard)

        def close() -> None:
            job.settle()
            shard.close(lambda error: logger.warning("Shard %s: %s", shard.name, error))
            if deletes:
                job.delete(shard.name)

        self._closing[shard.name] = self._state.resources.closing.submit(close)
