"""Lease keeper: a thread that sends heartbeats for a drone by its own connection to Redis.

One turn of the event loop may take many seconds in a busy process, or without enough CPU. A living
drone must not lose its shards because of that. So this thread sends the heartbeats, and renews the
lease between them. While Redis cannot be reached, it writes heartbeats to HIVE_STORE. A process
that hangs does lose its shards: when its loop has not turned for three times HIVE_LEASE_SECS,
nothing is renewed any more.

A renewal does not check the shards. It extends their leases while the lease has been in Redis
without a break since the last heartbeat that confirmed them: then no other drone could claim one
(``holding.Holding``).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from webcrawl.clock import now
from webcrawl.hive.membership.connection import UNREACHABLE, RedisClient, close
from webcrawl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from webcrawl.hive.membership.holding import Holding
    from webcrawl.hive.membership.membership import Beat, Membership
    from webcrawl.hive.membership.report import Report

logger = logging.getLogger(__name__)

# Renewals per lease.
_RENEWALS = 5
# For how many leases the loop may stand still.
_HANGS = 3


@dataclass(kw_only=True, eq=False, repr=False)
class LeaseKeeper:
    """Thread that renews the lease of one drone and sends its heartbeats.

    Only *membership* uses *client*. *holding* is the drone's. *beat_in_store* blocks and raises
    OSError; *fail* is called with any other exception.
    """

    client: RedisClient
    membership: Membership
    beat_in_store: Callable[[], None]
    holding: Holding
    fail: Callable[[Exception], object]
    _thread: threading.Thread | None = None
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _turned: float = 0.0  # when the loop of the crawl last turned
    _cause: str = ""  # why the last renewal failed
    _logged: float = 0.0  # the end of the last lease that was logged as expired

    def __post_init__(self) -> None:
        self._pause = self.holding.lease_secs / _RENEWALS

    def start(self) -> None:
        """Start the thread. Called in the loop of the crawl."""
        self._crawl, self._loop = asyncio.get_running_loop(), asyncio.new_event_loop()
        self._turn()
        self._thread = threading.Thread(target=self._run, name="lease keeper", daemon=True)
        self._thread.start()

    async def beat(self, report: Report) -> Beat:
        """Send a heartbeat, as ``Membership.beat``."""
        beat = asyncio.run_coroutine_threadsafe(self._beat(report), self._loop)
        return await asyncio.wrap_future(beat)

    async def stop(self) -> None:
        """Stop the thread; nothing is renewed any more."""
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._over.set)
            await asyncio.to_thread(self._thread.join)

    def _turn(self) -> None:
        self._turned = now()

    # --- in the thread

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            try:
                runner.run(self._keep())
            except Exception as error:  # noqa: BLE001  # the crawl must not continue without a lease
                self._crawl.call_soon_threadsafe(self.fail, error)

    async def _keep(self) -> None:
        while not self._over.is_set():
            due = now() + self._pause
            try:
                await asyncio.wait_for(self._over.wait(), self._pause)
            except TimeoutError:
                await self._renew(late=now() - due)
        await close(self.client)

    async def _beat(self, report: Report) -> Beat:
        try:
            beat = await self.membership.beat(report)
        except UNREACHABLE:
            self.holding.forget_renewals()  # the lease may have been created again after a break
            raise
        self.holding.record_renewal(beat.began, had_lease=beat.had_lease)
        return beat

    async def _renew(self, *, late: float) -> None:
        """Renew the lease; the thread is *late* by so many seconds."""
        if late > self._pause:
            self._turned += late
            self._cause = f"the process did not run for {late:.1f} s"
        self._log_expiry()
        began, hung = now(), now() - self._turned
        self._crawl.call_soon_threadsafe(self._turn)
        if hung > _HANGS * self.holding.lease_secs:
            self._cause = f"the event loop has not turned for {hung:.0f} s"
            return
        try:
            had_lease = await self.membership.renew()
        except UNREACHABLE as error:
            await self._renew_in_store(str(error) or type(error).__name__)
            return
        self._cause = "" if had_lease else "Redis has lost it"
        if had_lease:
            self.holding.record_renewal(began, had_lease=True)

    async def _renew_in_store(self, why: str) -> None:
        """Write a heartbeat to the store, because Redis cannot be reached (*why*).

        The leases stay valid as long as no heartbeat is late. After a late one other drones may
        hold the shards, so only Redis can confirm them.
        """
        began = now()
        if not self.holding.is_valid():
            return
        self._cause = f"Redis cannot be reached: {why}"
        try:
            await asyncio.to_thread(self.beat_in_store)
        except OSError as error:
            self._cause += f"; HIVE_STORE cannot either: {error}"
            logger.warning("HIVE_STORE cannot be reached either: %s", error)
            return
        self.holding.record_store_renewal(began)

    def _log_expiry(self) -> None:
        holding = self.holding
        if 0 < holding.valid_until <= now() and self._logged != holding.valid_until:
            self._logged = holding.valid_until
            logger.warning(
                "The lease on %s has expired (%s): their hosts are not contacted until Redis "
                "confirms that this drone still holds them",
                counted(len(holding.leases), "shard"),
                self._cause or "Redis or HIVE_STORE answered too late",
            )
