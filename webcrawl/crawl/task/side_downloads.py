"""Requests sent with ``engine.download_async()``, which wait in their host's queue like any URL.

Each becomes an entry that goes before the other URLs of its host, because a page is held in process
until the response arrives. The downloader calls ``turn`` and waits. When the entry's lease reaches
the dispatcher, ``prepare`` ends the wait. The invariant: nothing is sent to a host outside its
turn.

If the process dies, waiting requests are lost, and so are the callbacks that wait for them. Their
pages were not finished and are fetched again, and the entries are dropped.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.statscollectors import StatsCollector

from webcrawl.clock import TimeSource
from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.crawl.shard.shard import Shard
from webcrawl.crawl.shard.shards import Shards
from webcrawl.crawl.task.task import Ending, Finish, Task, Way
from webcrawl.frontier import ASIDE, NOTHING, Entry, Lease
from webcrawl.net.outcomes import errback_error
from webcrawl.randomness import random_hex

_ELSEWHERE = (
    "its host belongs to another process of the crawl; yield a Request instead of downloading it"
)


class _Turn(NamedTuple):
    """A request that waits for the turn of its host; *given* is set to the Fetch of that turn."""

    request: Request
    shard: Shard
    entry: Entry
    given: asyncio.Future[Fetch]


@dataclass(kw_only=True, eq=False)
class SideDownloads(Task):
    """Downloads that wait in the frontier. Each has a name, which is in its entry's ``via``.

    Who waits for a response has it, so there is nothing to accept.

    *key_of* returns politeness keys, *clock* returns seconds.
    """

    shards: Shards
    key_of: Callable[[str], str]
    stats: StatsCollector
    clock: TimeSource

    def __post_init__(self) -> None:
        # When a request last stopped waiting.
        self._waited_at = -math.inf
        # The requests that wait, by name.
        self._waiting: dict[str, _Turn] = {}
        # Part of all names, so that names from an earlier process never match a request of this
        # one.
        self._process = random_hex("side downloads")
        self._numbers = itertools.count()
        self._is_closed = False

    def __len__(self) -> int:
        """Return the number of waiting requests."""
        return len(self._waiting)

    def is_for_host(self, host: str, request: Request) -> bool:
        """Return whether *request* needs the turn of *host*, a politeness key."""
        return self.key_of(request.url) == host

    async def turn(self, request: Request) -> Fetch:
        """Wait for the turn of *request*'s host, and return the Fetch of that contact.

        The Fetch belongs to *request* as soon as ``prepare`` was called, even if the caller is
        cancelled just then. Raises IgnoreRequest if robots.txt or an exclusion denies the URL, if
        the crawl is ending, or if the host belongs to another process. Raises an exception of
        net/outcomes.py if the host cannot be reached, and OSError when the disk is full.
        """
        if self._is_closed:
            raise IgnoreRequest(f"{request.url}: the crawl is closing")
        shard = self.shards.find(request.url)
        key = self.key_of(request.url)
        if shard is None or shard.is_leaving:
            raise IgnoreRequest(f"{request.url}: {_ELSEWHERE}")
        name = f"{self._process}/{next(self._numbers)}"
        entry = Entry(request.url, key, kind=ASIDE, via=name)
        turn = _Turn(request, shard, entry, asyncio.get_running_loop().create_future())
        self._waiting[name] = turn
        try:
            shard.frontier.requeue(entry, ahead=True)
            return await turn.given
        finally:
            del self._waiting[name]
            self._waited_at = self.clock()

    @property
    def idle_secs(self) -> float:
        """Return the seconds since the last request stopped waiting; 0.0 while one waits."""
        return 0.0 if self._waiting else self.clock() - self._waited_at

    def acquire(self) -> Lease[Shard] | None:
        """Return a lease of a host that a request waits for; None if none of them is ready."""
        # In the order of their requests, the longest waiting first.
        hosts = [
            (turn.shard, turn.shard.frontier.back.host_parts.key_of(turn.entry))
            for turn in self._waiting.values()
        ]
        for shard, key in dict.fromkeys(hosts):
            lease = shard.acquire(key)
            if lease is not None:
                return lease
        return None

    # --- its task

    def begin(self, lease: Lease[Shard]) -> Ending | None:
        """Drop *lease* if its request has stopped waiting.

        It needs no budget, because the page that waits for it has used one.
        """
        return None if lease.entry.via in self._waiting else Ending(Way.DROP)

    def prepare(self, fetch: Fetch) -> Ending | None:
        """Give the contact *fetch* to the request that waits for it, or tell it the refusal."""
        entry = fetch.lease.entry
        if fetch.refusal:
            error = errback_error(fetch.refusal)
            self.refuse(entry.via, error(f"{entry.url}: {fetch.refusal}"))
            return Ending(Way.FINISH, fetch.refusal)
        turn = self._waiting.get(entry.via)
        if turn is None or turn.given.done():
            return Ending(Way.DROP)
        fetch.bind(turn.request)
        turn.given.set_result(fetch)
        return None

    def finish(
        self,
        lease: Lease[Shard],
        outcome: str,
        fetch: Fetch | None,
        robots_line: str,
    ) -> Finish:
        """Count *outcome*."""
        self.stats.inc_value(f"side_downloads/{outcome}")
        return Finish(NOTHING)

    # --- requests that will not be sent

    def refuse(self, name: str, error: Exception) -> None:
        """Make ``turn`` raise *error* for the request *name*, because it will not be sent."""
        turn = self._waiting.get(name)
        if turn is not None and not turn.given.done():
            turn.given.set_exception(error)

    def refuse_leaving(self) -> None:
        """Refuse requests for hosts of shards that are leaving, so that their pages can end.

        O(waiting).
        """
        for name, turn in [*self._waiting.items()]:
            if turn.shard.is_leaving:
                self.refuse(name, IgnoreRequest(f"{turn.request.url}: {_ELSEWHERE}"))

    def close(self) -> None:
        """Refuse all requests, because the crawl is closing."""
        self._is_closed = True
        for name in [*self._waiting]:
            self.refuse(name, IgnoreRequest("the crawl is closing"))
