"""Requests sent with ``engine.download_async()``, which wait in their host's queue like any URL.

Each becomes an entry that goes before the URLs of its host, because a page is held in process until
it is answered. The downloader calls ``turn`` and waits. When the entry's lease reaches the
dispatcher, ``give`` ends the waiting. The invariant: nothing is sent to a host outside its turn.

If the process dies, waiting requests are lost, and so are the callbacks that wait for them. Their
pages were not finished and are fetched again, and the entries are dropped.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

from scrapy.exceptions import IgnoreRequest

from webcrawl.frontier import ASIDE, Entry
from webcrawl.randomness import random_hex

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from webcrawl.clock import TimeSource
    from webcrawl.crawl.lease.fetch import Fetch
    from webcrawl.crawl.shard.shard import Shard
    from webcrawl.crawl.shard.shards import Shards
    from webcrawl.frontier import Lease


_ELSEWHERE = (
    "its host belongs to another process of the crawl; yield a Request instead of downloading it"
)


class _Turn(NamedTuple):
    """A request that waits until the turn of its politeness key is *given*."""

    request: Request
    shard: Shard
    entry: Entry
    given: asyncio.Future[Fetch]


class SideDownloads:
    """Downloads that wait in the frontier, by the name in their entry's ``via``.

    *key_of* gives politeness keys, *clock* gives epoch seconds.
    """

    def __init__(self, *, shards: Shards, key_of: Callable[[str], str], clock: TimeSource) -> None:
        self._shards = shards
        self._key_of = key_of
        self._clock = clock
        self._waited_at = -math.inf
        self._waiting: dict[str, _Turn] = {}
        # Names of an earlier process must never match a request of this one.
        self._process = random_hex("side downloads")
        self._numbers = itertools.count()
        self._is_closed = False

    def __len__(self) -> int:
        """Return the number of waiting requests."""
        return len(self._waiting)

    def __contains__(self, name: str) -> bool:
        return name in self._waiting

    def is_of(self, host: str, request: Request) -> bool:
        """Return whether *request* needs the turn of *host*, a politeness key."""
        return self._key_of(request.url) == host

    async def turn(self, request: Request) -> Fetch:
        """Wait for the turn of *request*'s host, and return the Fetch of that contact.

        The Fetch belongs to *request* from the moment it is given, even if the caller is cancelled
        in that moment. Raises IgnoreRequest for robots.txt, exclusion, the crawl's end and a host
        of another process; the exception of net/outcome_log.py if the host cannot be reached;
        OSError when the disk is full.
        """
        if self._is_closed:
            raise IgnoreRequest(f"{request.url}: the crawl is closing")
        shard, key = self._shards.find(request.url), self._key_of(request.url)
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
            self._waited_at = self._clock()

    @property
    def idle_secs(self) -> float:
        """Return the seconds since a request last waited."""
        return 0.0 if self._waiting else self._clock() - self._waited_at

    def acquire(self) -> Lease[Shard] | None:
        """Return the next lease of a host that a request waits for, if one of these is ready."""
        turns = self._waiting.values()
        keys = {(one.shard, one.shard.frontier.key_of(one.entry)): None for one in turns}
        for shard, key in keys:
            lease = shard.acquire(key)
            if lease is not None:
                return lease
        return None

    def give(self, name: str, fetch: Fetch) -> bool:
        """Give the host, now in process, to the request *name*.

        Returns False if that is not waiting.
        """
        turn = self._waiting.get(name)
        if turn is None or turn.given.done():
            return False
        fetch.bind(turn.request)
        turn.given.set_result(fetch)
        return True

    def refuse(self, name: str, error: Exception) -> None:
        """Raise *error* in the ``turn`` of *name*, because nothing will be sent for it."""
        turn = self._waiting.get(name)
        if turn is not None and not turn.given.done():
            turn.given.set_exception(error)

    def refuse_leaving(self) -> None:
        """Refuse requests for hosts of a shard that is leaving, so that their pages can end.
        O(waiting)."""
        for name, turn in [*self._waiting.items()]:
            if turn.shard.is_leaving:
                self.refuse(name, IgnoreRequest(f"{turn.request.url}: {_ELSEWHERE}"))

    def close(self) -> None:
        """Refuse all requests, because the crawl is closing."""
        self._is_closed = True
        for name in [*self._waiting]:
            self.refuse(name, IgnoreRequest("the crawl is closing"))
