"""Shards that a process adopts, hands over and abandons during its crawl."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from webcrawl.crawl.job.state_directory import shard_name
from webcrawl.crawl.job_state import JobState
from webcrawl.crawl.shard.shard import Shard

logger = logging.getLogger(__name__)


class ShardLifecycle:
    """Opens, adopts and abandons the shards of a process."""

    def __init__(
        self, *, state: JobState, on_adopt: Callable[[], None], on_abandon: Callable[[Shard], None]
    ) -> None:
        """Create it; *on_adopt* is called after a shard was adopted.

        *on_abandon* is called after one was abandoned.
        """
        self._state = state
        self._job = state.resources.job
        self._shards = state.shards
        self._on_adopt = on_adopt
        self._on_abandon = on_abandon
        # Called, in any thread, when an eliminator has merged; set by ``open``.
        self._on_merged: Callable[[], object] = lambda: None
        # The closings of shards that have left, by the shards' names.
        self._closing: dict[str, Future[None]] = {}
        #: Whether the spider still has seeds to read.
        self.awaits_seeds = False

    def open(self, *, awaits_seeds: bool, on_merged: Callable[[], None]) -> None:
        """Open the shards that this process holds at the start of its crawl.

        *on_merged* is called in the reactor thread soon after an eliminator has merged. Blocks.
        Raises as ``JobState.open``.
        """
        self.awaits_seeds = awaits_seeds
        # Merges end in a thread, but *on_merged* runs in the reactor.
        self._on_merged = partial(asyncio.get_running_loop().call_soon_threadsafe, on_merged)
        self._state.open()
        for shard in self._shards:
            self._start(shard)

    def _start(self, shard: Shard) -> None:
        """Let *shard*, which is open, work for this crawl."""
        shard.feeder.open(awaits_seeds=self.awaits_seeds)
        shard.eliminator.on_merged = self._on_merged

    def adopt(self, shard: Shard, *, forgets: bool = False) -> None:
        """Open *shard* from its directory, and crawl it from now on.

        Blocks; call it after ``until_gone``. *forgets* as in ``Shard.open``. A
        checkpoint should follow soon: the shard's logs are trusted only within one boot. With a
        spider that reads seeds, the shard waits for them until ``Feeder.has_all_seeds`` is set.
        Raises as ``Shard.open``; the shard is then not adopted.
        """
        state = self._job.adopt(shard.name)
        try:
            self._state.open_shard(shard, state, forgets=forgets)
        except BaseException:
            self._job.drop(shard.name)
            raise
        self._start(shard)
        self._shards.add(shard)
        self._shards.resize()
        self._on_adopt()

    async def until_gone(self, number: int) -> None:
        """Wait until nothing writes to the directory of shard *number* any more.

        Must be awaited before the directory is created again, if the shard was here before.
        """
        closing = self._closing.pop(shard_name(number), None)
        if closing is not None:
            await asyncio.wrap_future(closing)

    def abandon(self, shard: Shard, *, deletes: bool = False) -> None:
        """Leave *shard* to another process: stop writing to it and contacting its hosts.

        Results that still arrive for it are ignored. Returns immediately; a thread closes the
        shard. With *deletes* it also deletes the directory, because the shard was handed over with
        everything in its last checkpoint.
        """
        job = self._job

        self._shards.remove(shard)
        self._shards.resize()
        job.drop(shard.name)
        shard.abandon()
        self._on_abandon(shard)

        def close() -> None:
            job.settle()  # a checkpoint may still be writing to the shard's directory
            shard.close(lambda error: logger.warning("Shard %s: %s", shard.name, error))
            if deletes:
                job.delete(shard.name)

        self._closing[shard.name] = self._state.resources.closing.submit(close)
