"""Makes checkpoints of a running crawl, one at a time.

It runs the three steps of a checkpoint in jobdir.py, notifies modules and other processes, and logs
errors. The Checkpoints extension starts one at intervals, and the process makes one at the end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scrapy.signalmanager import SignalManager
from scrapy.statscollectors import StatsCollector

from webcrawl.clock import now
from webcrawl.crawl.engine.stop import CrawlStop
from webcrawl.crawl.job.jobdir import Job, PreparedCheckpoint
from webcrawl.signals import checkpoint as checkpoint_signal

logger = logging.getLogger(__name__)


@dataclass(kw_only=True, eq=False)
class Checkpointer:
    """Makes the checkpoints of one job.

    *facts* returns facts for the manifest, which people read. *stop* ends the crawl if an OSError
    prevents a checkpoint. *on_published* is awaited after each checkpoint. *on_due* is called
    instead of ``start`` when the interval has passed. A job that *is_temporary* gets no checkpoint
    before the crawl ends.
    """

    job: Job
    signals: SignalManager
    stats: StatsCollector
    facts: Callable[[], Mapping[str, Any]]
    stop: CrawlStop
    on_published: Callable[[], Awaitable[None]] | None = None
    on_due: Callable[[], object] | None = None
    is_temporary: bool = False
    # The last checkpoint that was started, whether or not it is complete; None before the first.
    _running: asyncio.Task[bool] | None = field(default=None, init=False)
    _is_ending: bool = field(default=False, init=False)

    def start_scheduled(self) -> None:
        """Start a checkpoint because the interval has passed, or call ``on_due`` if set."""
        (self.on_due or self.start)()

    def start(self) -> bool:
        """Start a checkpoint, and return immediately whether it was started.

        No checkpoint is started while one is being made, or while the crawl is ending: the process
        makes one at its end.
        """
        is_busy = self._running is not None and not self._running.done()
        if is_busy or self.is_temporary or self.stop.is_ending:
            return False
        self._running = asyncio.ensure_future(self._make_and_keep())
        return True

    async def settle(self) -> None:
        """Wait until no checkpoint is being made.

        A checkpoint that starts in the same turn of the loop contains everything present now.
        """
        while self._running is not None and not self._running.done():
            await asyncio.wait([self._running])

    async def make_another(self) -> bool:
        """Wait for a checkpoint that is being made, then make another one, as ``make`` does.

        Returns False when the crawl is ending: nothing may run alongside the last checkpoint.
        """
        await self.settle()
        if self._is_ending:
            return False
        self._running = asyncio.ensure_future(self._make_and_keep())
        return await self._running

    async def _make_and_keep(self) -> bool:
        """Make a checkpoint as ``make`` does, and keep it for later if that is due."""
        if not await self.make():
            return False
        await self._keep()
        return True

    async def _keep(self) -> None:
        """Keep the current checkpoint for later if that is due. Errors are only logged."""
        started = now()
        try:
            was_kept = await asyncio.to_thread(self.job.kept.keep)
        except Exception as error:  # the crawl can continue without it
            self.stats.inc_value("checkpoint/kept/failed")
            message = "The checkpoint is valid, but could not be kept for later: %s"
            logger.warning(message, error, exc_info=_traceback_of(error))
            return
        if was_kept:
            self.stats.inc_value("checkpoint/kept/count")
            logger.info("Checkpoint kept for later in %.2f s", now() - started)

    async def wait(self) -> None:
        """Wait until no checkpoint is being made or kept, because the crawl is ending."""
        self._is_ending = True
        self.job.kept.abort_keeping()
        if self._running is not None:
            await self._running

    def make_first(self) -> None:
        """Make the first checkpoint since the machine booted. Blocks.

        If the crawl dies before the next checkpoint, it can resume from this one.
        """
        self.job.publish(self.job.prepare(self.facts()))
        self.job.forget()

    async def make(self) -> bool:
        """Make a checkpoint now. Returns False if the previous one stays current.

        In that case an error was logged, or an error is ending the crawl, so that its parts may no
        longer agree on which pages were done.
        """
        if self.stop.has_begun:
            return False
        started = now()
        try:
            prepared = self.job.prepare(self.facts())
            prepare_secs = now() - started
            # The longest time for which nothing else could run in the reactor.
            pause_secs = max(prepare_secs, await self._encode_in_steps(prepared))
            await self._await_modules()
            await asyncio.to_thread(self.job.publish, prepared)
        except Exception as error:
            self.stats.inc_value("checkpoint/failed")
            message = "No checkpoint was made; the previous one stays current: %s"
            logger.error(message, error, exc_info=_traceback_of(error))  # noqa: TRY400  # by kind
            # After another error the crawl continues, and the next checkpoint may succeed.
            if isinstance(error, OSError):
                self.stop.fail(error)
            return False

        await self._notify_published()
        await self._delete_old_files()
        total_secs = now() - started
        self.stats.inc_value("checkpoint/count")
        self.stats.max_value("checkpoint/pause_ms_max", round(pause_secs * 1000, 1))
        logger.info(
            "Checkpoint made: %.0f ms in the reactor, %.2f s in all", pause_secs * 1000, total_secs
        )
        return True

    async def _encode_in_steps(self, prepared: PreparedCheckpoint) -> float:
        """Encode *prepared* a few ms at a time, while the crawl continues.

        Returns the duration of the longest step, in seconds.
        """
        longest = 0.0
        started = now()
        for _ in prepared.gather():
            longest = max(longest, now() - started)
            await asyncio.sleep(0)
            started = now()
        return longest

    async def _await_modules(self) -> None:
        """Wait until all processing modules have stored their pages.

        Raises the error of a module that failed.
        """
        for _, answer in await self.signals.send_catch_log_async(signal=checkpoint_signal):
            # DirectSignals returns the exception that a handler raised or returned. Scrapy's own
            # signal manager would return a Failure.
            if isinstance(answer, BaseException):
                raise answer

    async def _notify_published(self) -> None:
        """Await ``on_published``; its errors are only logged."""
        if self.on_published is None:
            return
        try:
            await self.on_published()
        except Exception:
            logger.exception("The checkpoint is valid, but not every process was notified of it")

    async def _delete_old_files(self) -> None:
        """Delete files that only earlier checkpoints name. An error of the disk ends the crawl."""
        try:
            for _ in self.job.forget_in_steps():
                await asyncio.sleep(0)
        except OSError as error:
            # The checkpoint is valid, and resuming deletes leftover files.
            message = "Files of earlier checkpoints could not be deleted: %s"
            logger.error(message, error)  # noqa: TRY400  # as ``_traceback_of``
            self.stop.fail(error)


def _traceback_of(error: Exception) -> Exception | None:
    """Return *error* to log its traceback; None for a disk error, which needs no traceback."""
    return None if isinstance(error, OSError) else error
