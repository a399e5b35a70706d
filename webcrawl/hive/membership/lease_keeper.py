"""Lease keeper: a thread that sends a drone's heartbeats over its own connection to Redis.

In a busy process, or without enough CPU, one turn of the event loop may take many seconds. A living
drone must not lose its shards because of that. So this thread sends the heartbeats, and renews the
drone's lease between them. While Redis cannot be reached, it writes heartbeats to HIVE_STORE. A
process that hangs does lose its shards: if its loop has not turned for three times HIVE_LEASE_SECS,
the lease is no longer renewed.

A renewal does not check which shards the drone holds. It only extends leases on shards that a
heartbeat has confirmed while the drone's lease was in Redis without a break. Then no other drone
could have claimed one of them (``holding.Holding``).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from redis.asyncio import Redis

from webcrawl.clock import now
from webcrawl.hive.membership.connection import UNREACHABLE, reason_of
from webcrawl.hive.membership.holding import Holding
from webcrawl.hive.membership.membership import Beat, Membership
from webcrawl.hive.membership.report import Report
from webcrawl.wording import counted

logger = logging.getLogger(__name__)

# Renewals per lease.
_RENEWALS = 5
# How long the event loop may hang, in lease times.
_MAX_HANG_LEASES = 3


@dataclass(kw_only=True, eq=False)
class LeaseKeeper:
    """Renews the lease of one drone and sends its heartbeats, in a thread.

    Only *membership* uses *client*. *holding* is the drone's. *fail* is called with unexpected
    exceptions. *beat_in_store* writes a heartbeat to HIVE_STORE. It blocks and may raise OSError.
    """

    client: Redis
    membership: Membership
    beat_in_store: Callable[[], object]
    holding: Holding
    fail: Callable[[Exception], object]
    _thread: threading.Thread | None = None
    _is_stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _last_turn: float = 0.0  # when the crawl's event loop last turned
    _failure: str = ""  # why the last renewal failed
    _logged_expiry: float = 0.0  # the ``valid_until`` whose expiry was last logged

    def __post_init__(self) -> None:
        # Seconds between two renewals.
        self._pause = self.holding.lease_secs / _RENEWALS

    def start(self) -> None:
        """Start the thread. Must be called in the crawl's event loop."""
        self._crawl_loop = asyncio.get_running_loop()
        self._loop = asyncio.new_event_loop()
        self._on_turn()
        self._thread = threading.Thread(target=self._run, name="lease keeper", daemon=True)
        self._thread.start()

    async def beat(self, report: Report) -> Beat:
        """Send a heartbeat with *report*, as ``Membership.beat`` does, and return the answer."""
        beat = asyncio.run_coroutine_threadsafe(self._beat(report), self._loop)
        return await asyncio.wrap_future(beat)

    async def stop(self) -> None:
        """Stop the thread, so that the lease is no longer renewed."""
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._is_stopping.set)
            await asyncio.to_thread(self._thread.join)

    def _on_turn(self) -> None:
        self._last_turn = now()

    # --- in the thread

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            try:
                runner.run(self._keep())
            except Exception as error:  # noqa: BLE001  # the crawl must not continue without a lease
                self._crawl_loop.call_soon_threadsafe(self.fail, error)

    async def _keep(self) -> None:
        """Renew the lease at intervals until ``stop`` is called."""
        while not self._is_stopping.is_set():
            due = now() + self._pause
            try:
                await asyncio.wait_for(self._is_stopping.wait(), self._pause)
            except TimeoutError:
                await self._renew(late=now() - due)
        await self.client.aclose()

    async def _beat(self, report: Report) -> Beat:
        try:
            beat = await self.membership.beat(report)
        except UNREACHABLE:
            self.holding.forget_renewals()  # the lease may have expired and been created again
            raise
        self.holding.record_renewal(beat.began, had_lease=beat.had_lease)
        return beat

    async def _renew(self, *, late: float) -> None:
        """Renew the lease, *late* seconds after it was due."""
        if late > self._pause:  # the whole process did not run, so the loop did not hang
            self._last_turn += late
            self._failure = f"the process did not run for {late:.1f} s"
        self._log_expiry()
        started_at = now()
        # When the loop turns next, it calls ``_on_turn``.
        hang_secs = now() - self._last_turn
        self._crawl_loop.call_soon_threadsafe(self._on_turn)
        if hang_secs > _MAX_HANG_LEASES * self.holding.lease_secs:
            self._failure = f"the event loop has not turned for {hang_secs:.0f} s"
            return

        try:
            had_lease = await self.membership.renew()
        except UNREACHABLE as error:
            self._failure = f"Redis cannot be reached: {reason_of(error)}"
            # Heartbeats in the store keep leases valid, but cannot make them valid again.
            if self.holding.is_valid():
                await self._renew_in_store()
            return
        self._failure = "" if had_lease else "Redis has lost it"
        if had_lease:
            self.holding.record_renewal(started_at, had_lease=True)

    async def _renew_in_store(self) -> None:
        """Write a heartbeat to HIVE_STORE, because Redis is away.

        The leases stay valid as long as no heartbeat is late. After a late one, other drones may
        hold the shards, so only Redis can make the leases valid again.
        """
        started_at = now()
        try:
            # A store that hangs must not stop the renewals in Redis.
            await asyncio.wait_for(
                asyncio.to_thread(self.beat_in_store), self.holding.lease_secs / 2
            )
        except OSError as error:
            failure = f"HIVE_STORE cannot be reached: {reason_of(error)}"
            logger.warning("%s", failure)
            self._failure = "; ".join(filter(None, (self._failure, failure)))
            return
        self.holding.record_store_beat(started_at)

    def _log_expiry(self) -> None:
        """Log once that the leases have expired, and why."""
        holding = self.holding
        # Leases that are valid again may have expired since the last renewal.
        expired_at = holding.expired_at if holding.is_valid() else holding.valid_until
        if expired_at > 0 and self._logged_expiry != expired_at:
            self._logged_expiry = expired_at
            logger.warning(
                "The lease on %s has expired (%s): their hosts are not contacted until it is "
                "certain that this drone still holds them",
                counted(len(holding.leases), "shard"),
                self._failure or "Redis or HIVE_STORE answered too late",
            )
