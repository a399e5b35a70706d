"""Lease keeper: a thread that beats for a drone by its own connection to Redis.

The event loop of a busy process, or of one that is short of CPU, may take many seconds for a turn,
and shards of a drone that is alive must not be lost by that. So the drone's beats are sent from
here, and between them the lease is renewed. While Redis cannot be reached the drone beats in
HIVE_STORE. A process that hangs loses its shards: when its loop has not turned for three times
HIVE_LEASE_SECS nothing is renewed any more.

A renewal does not look at the shards. It is good for them while the lease has been in Redis without
a break since the last beat whose answer said that they are the drone's: then no other drone could
claim one (`holding.Holding`).
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

# Renewals in a lease.
_RENEWALS = 5
# Leases for which the loop may stand still.
_HANGS = 3


@dataclass(kw_only=True, eq=False, repr=False)
class LeaseKeeper:
    """Thread that renews the lease of one drone, and sends its beats.

    *membership* uses *client*, which nothing else does. *holding* is the drone's. *beat_in_store*
    blocks, and raises OSError; *fail* is called with what else goes wrong.
    """

    client: RedisClient
    membership: Membership
    beat_in_store: Callable[[], None]
    holding: Holding
    fail: Callable[[Exception], object]
    _thread: threading.Thread | None = None
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _turned: float = 0.0  # when the loop of the crawl turned last
    _cause: str = ""  # why the last renewal failed
    _told: float = 0.0  # the end of the last lease of which it was told that it has lapsed

    def __post_init__(self) -> None:
        self._pause = self.holding.lease_secs / _RENEWALS

    def start(self) -> None:
        """Begin. Called in the loop of the crawl."""
        self._crawl, self._loop = asyncio.get_running_loop(), asyncio.new_event_loop()
        self._turn()
        self._thread = threading.Thread(target=self._run, name="lease keeper", daemon=True)
        self._thread.start()

    async def beat(self, report: Report) -> Beat:
        """As ``Membership.beat``."""
        beat = asyncio.run_coroutine_threadsafe(self._beat(report), self._loop)
        return await asyncio.wrap_future(beat)

    async def stop(self) -> None:
        """End; nothing is renewed any more."""
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
            except Exception as error:  # noqa: BLE001  # the crawl must not go on without a lease
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
            self.holding.break_off()  # the lease may have been made anew, after a break
            raise
        self.holding.renewed(beat.began, had_lease=beat.had_lease)
        return beat

    async def _renew(self, *, late: float) -> None:
        """Renew the lease; the thread has come *late* to it, in seconds."""
        if late > self._pause:
            self._turned += late
            self._cause = f"the process did not run for {late:.1f} s"
        self._tell()
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
            self.holding.renewed(began, had_lease=True)

    async def _renew_in_store(self, why: str) -> None:
        """Redis cannot be reached; *why*. The leases stay good by beats in the store, as long as
        none came too late. After one that did the shards may be others' by now: Redis must say."""
        began = now()
        if not self.holding.is_good():
            return
        self._cause = f"Redis cannot be reached: {why}"
        try:
            await asyncio.to_thread(self.beat_in_store)
        except OSError as error:
            self._cause += f", nor HIVE_STORE: {error}"
            logger.warning("HIVE_STORE cannot be reached either: %s", error)
            return
        self.holding.renewed_in_store(began)

    def _tell(self) -> None:
        holding = self.holding
        if 0 < holding.good_until <= now() and self._told != holding.good_until:
            self._told = holding.good_until
            logger.warning(
                "The lease on %s has lapsed (%s): no host of them is contacted before Redis "
                "confirms that they are this drone's",
                counted(len(holding.leases), "shard"),
                self._cause or "Redis or HIVE_STORE answered too late",
            )
