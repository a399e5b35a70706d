"""State that all connections of a server share."""

from __future__ import annotations

import asyncio
import functools
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from webcrawl.simweb.accesslog import Hit, epoch_clock, line_of
from webcrawl.simweb.replies import HostReply, reply_to

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from webcrawl.simweb.host_spec import HostSpec
    from webcrawl.simweb.world import World

_KNOWN_NAMES = 16_384
#: Returns whether the header fields of a request, by name in lower case, have a valid signature.
Verify: TypeAlias = "Callable[[dict[bytes, bytes]], bool]"


class ServerState:
    """State that all connections of a server share.

    The first *pool_bytes* of bodies are kept in memory. So a crawler that is being measured does
    not wait for pages to be made, except for the first request for a page.
    """

    def __init__(
        self,
        *,
        world: World,
        log: BinaryIO | None,
        pool_bytes: int = 0,
        clock: Callable[[], float] | None = None,
        verify: Verify | None = None,
    ) -> None:
        """Create the state; *clock* returns epoch seconds and never goes back.

        With *verify*, https hosts answer 401 to requests for whose fields it returns false.
        """
        self.verify = verify
        self.world = world
        self._pool: dict[tuple[int, str, bool], HostReply] = {}
        self._pool_left = 0 if world.changes_per_day else pool_bytes
        self.clock = clock or epoch_clock()
        self.connections: set[asyncio.Transport] = set()
        # Finds an FTP or Gopher host by its address, because requests do not name the host.
        by_address = world.hosts_by_address("ftp") | world.hosts_by_address("gopher")
        self.find_at: Callable[[str], HostSpec] = by_address.__getitem__
        self._log = log
        self.tasks: set[asyncio.Task[None]] = set()
        # Finds the host that a Host header names.
        self.find: Callable[[str], HostSpec | None] = functools.lru_cache(_KNOWN_NAMES)(
            lambda header: world.find(header.partition(":")[0])
        )
        self._answered_at: dict[int, float] = {}
        self._date = (0, b"")

    def start(self, answering: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run *answering* as a task, until it ends or ``abort_all`` is called."""
        task = asyncio.create_task(answering)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def abort_all(self) -> None:
        """Abort all connections and wait until they have ended and are logged."""
        while self.connections or self.tasks:
            for transport in list(self.connections):
                transport.abort()
            for task in self.tasks:
                task.cancel()
            await asyncio.sleep(0)

    def record(self, hit: Hit) -> None:
        """Write *hit* to the access log, if there is one."""
        if self._log is not None:
            self._log.write(line_of(hit))

    def reply_to(self, host: HostSpec, target: str, *, gzip: bool, **options: Any) -> HostReply:
        """Return the response of *host* without faults, like ``replies.reply_to``.

        The reply may be taken from the pool of replies that are kept.
        """
        key = (host.index, target, gzip)
        answer = self._pool.get(key)
        if answer is None:
            answer = reply_to(self.world, host, target, gzip=gzip, **options)
            size = sum(map(len, answer.parts))
            if 0 < size <= self._pool_left:
                answer = answer._replace(parts=[b"".join(answer.parts)])
                self._pool[key] = answer
                self._pool_left -= size
        return answer

    def secs_until_accepted(self, host: HostSpec) -> float:
        """Return the seconds until *host*, which throttles, accepts a request again.

        The result is 0 if it accepts one now; then the request counts as answered.
        """
        now = self.clock()
        secs_left = self._answered_at.get(host.index, -1e9) + self.world.throttle_secs - now
        if secs_left > 0:
            return secs_left
        self._answered_at[host.index] = now
        return 0.0

    def date(self) -> bytes:
        """Return the Server and Date header lines, for the current second."""
        now = int(self.clock())
        if self._date[0] != now:
            text = f"Server: simweb\r\nDate: {formatdate(now, usegmt=True)}\r\n"
            self._date = (now, text.encode())
        return self._date[1]
