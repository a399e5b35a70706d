"""The address of a host, before a worker is spent on it (Mercator, section 3.3).

Asked by the host prelude for every URL that could be fetched now. What the resolver knows is told
at once; otherwise the look-up goes on by itself, and the host waits without holding a worker. The
invariants: no address is told that the guard forbids, and what the name servers said lasts, in the
host's record, for its time to live, also over a restart.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from webcrawl.net.dns.resolver import DnsError, LookupFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from webcrawl.hosts.politeness.delays import Records
    from webcrawl.net.dns.resolver import Resolver
    from webcrawl.net.guard import AddressGuard


class HostAddresses:
    """The resolver as the prelude wants it. Bound to the running loop by its first look-up."""

    def __init__(
        self,
        *,
        resolver: Resolver,
        guard: AddressGuard,
        records: Records,
        clock: Callable[[], float],
    ) -> None:
        self._resolver = resolver
        self._guard = guard
        self._records = records
        self._clock = clock
        self._tasks: dict[asyncio.Task[None], None] = {}

    def look(self, host: str) -> list[str] | DnsError | None:
        """The addresses of *host* that one fetch may contact, the first one first; none when it has
        only forbidden ones; the error when it has none; None when that must be looked up first."""
        known = self._resolver.cached(host)
        if known is None:
            record = self._records.get(host)
            left = record.addresses_until - self._clock()
            if left <= 0 or not record.addresses:
                return None
            self._resolver.remember(host, record.addresses, left)
            known = record.addresses
        if isinstance(known, DnsError):
            return known
        return self._guard.permitted(known)

    def again_in(self, host: str) -> float:
        """Seconds until the name servers would be asked for *host* again."""
        return self._resolver.ttl(host)

    @property
    def under_way(self) -> int:
        """How many hosts are being looked up."""
        return sum(not task.done() for task in self._tasks)

    def look_up(self, host: str, then: Callable[[Exception | None], None]) -> None:
        """Ask the name servers for *host* and call *then*, whatever they say; with the error when
        the answer could not be kept, or of the program."""
        self._begin(self._look_up(host, then))

    def check(self, host: str, then: Callable[[bool], None]) -> None:
        """Ask the name servers for *host*, a name that they were asked for before, whatever is
        known of it; *then* is told whether they find it."""

        async def check() -> None:
            then(await self._resolver.ask_anew(host))

        self._begin(check())

    def forget_failures(self) -> None:
        """Names that were not found are asked for anew."""
        self._resolver.forget_failures()

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _look_up(self, host: str, then: Callable[[Exception | None], None]) -> None:
        failure = None
        try:
            addresses = await self._resolver.resolve(host)
            record = self._records.get(host)
            record.addresses = addresses
            record.addresses_until = self._clock() + self._resolver.ttl(host)
            self._records.put(record)
        except DnsError:
            pass  # the resolver remembers it
        except Exception as error:  # noqa: BLE001  # nobody else would hear of it
            failure = error
        then(failure)

    def close(self) -> None:
        """Break off the look-ups under way; nobody is told."""
        for task in self._tasks:
            task.cancel()


def is_temporary(error: DnsError) -> bool:
    """Whether the name servers may answer otherwise when they are asked again."""
    return isinstance(error, LookupFailedError)
