"""Uses a user's DNS client (DNS_CLIENT_CLASS) instead of name servers, such as DNS over HTTPS.

Invariant, as in query.py: `done` of every question is called exactly once, within the timeouts.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from webcrawl.net.dns import wire as dnswire
from webcrawl.net.dns.query import MAX_IN_PROGRESS, DnsResult, Done, Unanswered

if TYPE_CHECKING:
    from collections.abc import Iterable

logger = logging.getLogger(__name__)

# Number of addresses that are read from one answer; fewer are kept.
_MAX_ADDRESSES = 512
_CLOSED = Unanswered("the resolver was closed", timed_out=False)


class DnsClient(Protocol):
    """Interface of a DNS client. It may also have a method ``async close()``."""

    async def addresses(self, name: str) -> tuple[Iterable[str], float]:
        """Return the addresses of *name*, and for how many seconds they are valid.

        These are IPv4 and IPv6 addresses; there are none if the name does not exist. An exception
        of any kind means that there was no answer, and that it can be tried again. Must not block.
        """
        ...


class ClientQuestions:
    """Sends the questions of a resolver to *client*, up to 1,024 at a time.

    A question is tried up to *tries* times. The first try has *timeout* seconds, and each further
    try twice as many as the one before.
    """

    def __init__(self, client: DnsClient, *, timeout: float, tries: int) -> None:
        self.counts: Counter[str] = Counter()
        self._client = client
        self._timeout = timeout
        self._tries = tries
        self._room = asyncio.Semaphore(MAX_IN_PROGRESS)
        self._tasks: set[asyncio.Task[DnsResult]] = set()

    def ask(self, name: bytes, qtype: int, done: Done) -> None:
        """Ask for *name*, and call *done* with the answer; the same as ``NameServers.ask``."""
        task = asyncio.get_running_loop().create_task(self._answer(name, qtype))
        self._tasks.add(task)

        def ended(task: asyncio.Task[DnsResult]) -> None:
            self._tasks.discard(task)
            done(_CLOSED if task.cancelled() else task.result())

        task.add_done_callback(ended)

    async def close(self) -> None:
        """Answer every open question with Unanswered, and close the client."""
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if hasattr(self._client, "close"):
            async with asyncio.timeout(self._timeout):
                await self._client.close()

    async def _answer(self, name: bytes, qtype: int) -> DnsResult:
        """Return the answer for *name*, after several tries if necessary."""
        answer: DnsResult = _CLOSED
        for number in range(self._tries):
            answer = await self._try(dnswire.text_of(name), qtype, self._timeout * 2**number)
            if not isinstance(answer, Unanswered):
                break
        return answer

    async def _try(self, name: str, qtype: int, secs: float) -> DnsResult:
        """Call the client for *name*, for at most *secs* seconds, and return its answer."""
        try:
            async with self._room:
                self.counts["queries"] += 1
                async with asyncio.timeout(secs):
                    texts, ttl = await self._client.addresses(name)
            parsed = [ipaddress.ip_address(str(text)) for text in islice(texts, _MAX_ADDRESSES)]
            ttl = int(ttl)
        except TimeoutError:
            self.counts["query_timeouts"] += 1
            return Unanswered("the DNS client did not answer in time", timed_out=True)
        except Exception as error:
            logger.exception("The client of DNS_CLIENT_CLASS failed for %s", name)
            return Unanswered(f"the DNS client failed: {error!r:.200}", timed_out=False)

        version = 4 if qtype == dnswire.A else 6
        rcode = dnswire.NOERROR if parsed else dnswire.NXDOMAIN
        addresses = tuple(str(address) for address in parsed if address.version == version)
        return dnswire.DnsAnswer(rcode, truncated=False, addresses=addresses, ttl=ttl, alias=None)
