"""Makes checkpoints of a running crawl, one at a time: the steps of jobdir.py around a loop.

Called by the scheduler: at an interval by way of the Checkpoints extension, and at the end.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from typing import TYPE_CHECKING, Any

from webcrawl.clock import now
from webcrawl.signals import checkpoint as checkpoint_signal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from scrapy.signalmanager import SignalManager
    from scrapy.statscollectors import StatsCollector

    from webcrawl.crawl.engine.stop import CrawlStop
    from webcrawl.crawl.job.jobdir import Job, PreparedCheckpoint

logger = logging.getLogger(__name__)


@dataclasses.dataclass(kw_only=True, eq=False)
class Checkpointer:
    """Checkpoints of one job.

    *facts* returns what the manifest has for readers; *stop* is called with the OSError that kept a
    checkpoint from being written. *on_due* is called instead of ``start`` when one is due by the
    clock. None is begun before the crawl ends if the job *is_temporary*.
    """

    job: Job
    signals: SignalManager
    stats: StatsCollector
    facts: Callable[[], Mapping[str, Any]]
    stop: CrawlStop
    on_published: Callable[[], Awaitable[None]] | None = None
    on_due: Callable[[], object] | None = None
    is_temporary: bool = False
    _running: asyncio.Task[bool] | None = dataclasses.field(default=None, init=False)
    _is_ending: bool = dataclasses.field(default=False, init=False)

    def due(self) -> None:
        """A checkpoint is due by the clock."""
        (self.on_due or self.start)()

    def start(self) -> bool:
        """Begin a checkpoint unless one is being made, or the crawl is ending, which makes one at
        its end; returns immediately whether it has begun."""
        is_busy = self._running is not None and not self._running.done()
        if is_busy or self.is_temporary or self.stop.is_ending:
            return False
        self._running = asyncio.ensure_future(self._make_and_keep())
        return True

    async def settle(self) -> None:
        """Return when no checkpoint is being made: one that is begun in the same turn of the loop
        has what is there then."""
        while self._running is not None and not self._running.done():
            await asyncio.wait([self._running])

    async def make_another(self) -> bool:
        """As ``make``, after one that is being made. False when the crawl ends: then the last one
        is made beside no other."""
        await self.settle()
        if self._is_ending:
            return False
        self._running = asyncio.ensure_future(self._make_and_keep())
        return await self._running

    async def _make_and_keep(self) -> bool:
        if not await self.make():
            return False
        await self._keep()
        return True

    async def _keep(self) -> None:
        started = now()
        try:
            kept = await asyncio.to_thread(self.job.kept.keep)
        except Exception as error:  # it does not concern the crawl
            self.stats.inc_value("checkpoint/kept/failed")
            told = "The checkpoint is good, but could not be kept for later: %s"
            logger.warning(told, error, exc_info=_trace_of(error))
            return
        if kept:
            self.stats.inc_value("checkpoint/kept/count")
            logger.info("Checkpoint kept for later in %.2f s", now() - started)

    async def wait(self) -> None:
        """The crawl ends: return when no checkpoint is being made any more, and none kept."""
        self._is_ending = True
        self.job.kept.give_way()
        if self._running is not None:
            await self._running

    def make_first(self) -> None:
        """A crawl that dies before its first checkpoint since the machine was started must find one
        to go on from. Blocks."""
        self.job.publish(self.job.prepare(self.facts()))
        self.job.forget()

    async def make(self) -> bool:
        """Make one now. False when the previous one stays the live one: then an error is logged,
        or the crawl is ending and the parts do not agree any more about what was done."""
        if self.stop.has_begun:
            return False
        started = now()
        try:
            prepared = self.job.prepare(self.facts())
            paused = now() - started
            paused = max(paused, await self._gather(prepared))
            await self._tell_modules()
            await asyncio.to_thread(self.job.publish, prepared)
        except Exception as error:
            self.stats.inc_value("checkpoint/failed")
            told = "No checkpoint was made; the previous one stays the live one: %s"
            logger.error(told, error, exc_info=_trace_of(error))  # noqa: TRY400  # by kind
            if isinstance(error, OSError):
                self.stop.fail(error)
            return False
        await self._tell_published()
        await self._forget()
        took = now() - started
        self.stats.inc_value("checkpoint/count")
        self.stats.max_value("checkpoint/pause_ms_max", round(paused * 1000, 1))
        logger.info("Checkpoint made: %.0f ms in the reactor, %.2f s in all", paused * 1000, took)
        return True

    async def _gather(self, prepared: PreparedCheckpoint) -> float:
        """Encode *prepared* a few ms at a time while the crawl goes on; the longest, in seconds."""
        longest = 0.0
        started = now()
        for _ in prepared.gather():
            longest = max(longest, now() - started)
            await asyncio.sleep(0)
            started = now()
        return longest

    async def _tell_modules(self) -> None:
        """Return when all processing modules have stored their pages; raises what one answered."""
        for _, answer in await self.signals.send_catch_log_async(signal=checkpoint_signal):
            # What it raised, where Scrapy's other senders give a Failure, or has returned.
            if isinstance(answer, BaseException):
                raise answer

    async def _tell_published(self) -> None:
        if self.on_published is None:
            return
        try:
            await self.on_published()
        except Exception:
            logger.exception("The checkpoint is good, but not all could be told of it")

    async def _forget(self) -> None:
        try:
            for _ in self.job.forgetting():
                await asyncio.sleep(0)
        except OSError as error:
            # The checkpoint is good: resuming deletes what is left over.
            told = "Files of earlier checkpoints could not be deleted: %s"
            logger.error(told, error)  # noqa: TRY400  # as ``_trace_of``
            self.stop.fail(error)


def _trace_of(error: Exception) -> Exception | None:
    """The part of *error* for the log besides its message: nothing if it is the disk's."""
    return None if isinstance(error, OSError) else error
