"""Contacts of servers over plain TCP, for ftp and gopher: connection, bounds, failures.

Invariant: a `Connection` is to the address that the guard permitted, and no read from it takes more
memory than its caller allowed nor more time than the limits allow.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from scrapy.exceptions import DownloadTimeoutError, ResponseDataLossError

from webcrawl.clock import now
from webcrawl.net import outcomes
from webcrawl.net.dns import resolver as dns
from webcrawl.net.dns.resolver import resolver_of
from webcrawl.net.guard import BOUND_ADDRESS, AddressGuard
from webcrawl.net.http.large_bodies import larger_bound
from webcrawl.net.limits import is_for_robots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy import Request
    from scrapy.crawler import Crawler

    from webcrawl.net.documents import Document
    from webcrawl.net.limits import FetchLimits

# The longest line; a connection holds twice as much before it stops reading from the socket.
_READ_BUFFER: Final = 64 * 1024
# The share of a contact's time after which a document is cut; the rest is for goodbyes.
_FOR_DOCUMENTS: Final = 0.95


class Ending(enum.Enum):
    """Reasons to read no more from a connection."""

    WHOLE = "the other side ended it"
    CUT = "it says more than it may"
    LATE = "it is too slow, or the time is over"
    LOST = "it broke"


class Received(NamedTuple):
    """Bytes received over a connection; some of them at least, unless they are all."""

    data: bytes
    ending: Ending

    @property
    def flags(self) -> list[str]:
        """The flags of a response with that body, as for HTTP."""
        return list(_FLAGS[self.ending])


_FLAGS: Final = {
    Ending.WHOLE: (),
    Ending.CUT: ("truncated",),
    Ending.LATE: ("truncated", "time"),
    Ending.LOST: ("dataloss",),
}


@dataclass(slots=True)
class PlainContact:
    """A contact under way: its request and its bounds in time.

    Times are epoch seconds, as loops' clocks may be coarse.
    """

    request: Request
    started: float
    # A document that is not whole by then is cut, so that what has come can still be used.
    until: float

    def answered(self) -> None:
        """Note that the document begins."""
        self.request.meta["download_latency"] = now() - self.started

    def check_ending(self, received: Received) -> None:
        """Raise TooSlowError for half a document that is worse than none."""
        if is_for_robots(self.request) and received.ending is Ending.LATE:
            raise outcomes.TooSlowError(f"{self.request.url}: only half of it came")

    def check_loss(self, document: Document, *, fail: bool) -> None:
        """Raise ResponseDataLossError for a lost part, if *fail* or the request says so."""
        fail = self.request.meta.get("download_fail_on_dataloss", fail)
        fail = fail or is_for_robots(self.request)
        if fail and "dataloss" in document.flags:
            raise ResponseDataLossError(f"{self.request.url}: {document.reason}")


class Connection:
    """One TCP connection. Its methods raise the exceptions of `outcomes`."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        address: str,
        limits: FetchLimits,
    ) -> None:
        self.address = address
        self._reader = reader
        self._writer = writer
        self._limits = limits

    def send(self, data: bytes) -> None:
        """Send *data*, which is small: it waits in memory if need be."""
        self._writer.write(data)

    async def line(self) -> bytes:
        """Return the next line without its end; BadAnswerError if it is longer than 64 kB."""
        try:
            async with asyncio.timeout(self._limits.first_byte_timeout):
                line = await self._reader.readuntil(b"\n")
        except TimeoutError as e:
            raise self._silent() from e
        except asyncio.LimitOverrunError as e:
            raise outcomes.BadAnswerError("a line without an end") from e
        except (asyncio.IncompleteReadError, OSError) as e:
            raise outcomes.ConnectionLostError(str(e) or type(e).__name__) from e
        return line.rstrip(b"\r\n")

    async def rest(self, limit: int, contact: PlainContact) -> Received:
        """Return what comes until the end: *limit* bytes at most, at the lowest rate at least,
        and until *contact* has to end."""
        limits = self._limits
        window = limits.rate_window if limits.min_rate else math.inf
        chunks: list[bytes] = []
        size = counted = 0
        look_at = now() + limits.first_byte_timeout
        ending: Ending | None = None
        while ending is None:
            due = min(look_at, contact.until)
            chunk = await self._some(due)
            at = now()
            if isinstance(chunk, bytes) and chunk:
                if not chunks:
                    contact.answered()
                    look_at = at + window
                    due = min(look_at, contact.until)
                chunks.append(chunk)
                size += len(chunk)
                if size > limit:
                    limit = await larger_bound(contact.request, limit)
                if size > limit:
                    chunks[-1] = chunk[: limit - size]
                    ending = Ending.CUT
            elif chunk is not None:
                ending = self._end(chunk, is_begun=size > 0)
            elif not chunks:
                if due < contact.until:
                    raise self._silent()
                raise DownloadTimeoutError(f"{self.address} said nothing")
            # Timers may ring a little early.
            if ending is None and (chunk is None or at >= due):
                if due == contact.until or size - counted < limits.min_rate * window:
                    ending = Ending.LATE
                counted, look_at = size, at + window
        return Received(b"".join(chunks), ending)

    async def _some(self, until: float) -> bytes | OSError | None:
        """What comes next, nothing at the end; None if it does not come in time."""
        try:
            async with asyncio.timeout(until - now()) as time_left:
                return await self._reader.read(_READ_BUFFER)
        except OSError as e:  # a TimeoutError is one, and sockets have some of their own
            return None if time_left.expired() else e

    @staticmethod
    def _end(end: bytes | OSError, *, is_begun: bool) -> Ending:
        if not isinstance(end, OSError):
            return Ending.WHOLE
        if not is_begun:
            raise outcomes.ConnectionLostError(str(end) or type(end).__name__) from end
        return Ending.LOST

    def _silent(self) -> Exception:
        seconds = self._limits.first_byte_timeout
        return outcomes.FirstByteTimeoutError(f"{self.address} said nothing for {seconds:g} s")

    async def close(self) -> None:
        """Close at once, whatever is still on its way."""
        self._writer.transport.abort()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


class Dialer:
    """Opens connections to hosts, one address after the other."""

    def __init__(
        self,
        *,
        resolver: dns.Resolver,
        guard: AddressGuard,
        limits: FetchLimits,
        local_address: tuple[str, int] | None,
    ) -> None:
        self._resolver = resolver
        self._guard = guard
        self._limits = limits
        self._local_address = local_address

    @classmethod
    def from_crawler(cls, crawler: Crawler, limits: FetchLimits) -> Self:
        """Build by ALLOW_PRIVATE_ADDRESSES, DOWNLOAD_BIND_ADDRESS and those of the resolver."""
        bind = crawler.settings.get("DOWNLOAD_BIND_ADDRESS")
        return cls(
            resolver=resolver_of(crawler),
            guard=AddressGuard.from_settings(crawler.settings),
            limits=limits,
            local_address=(bind, 0) if isinstance(bind, str) else bind,
        )

    async def dial(self, host: str, port: int) -> Connection:
        """Connect to *host*, a name or an address.

        Raises an exception of `outcomes`; ForbiddenAddressError if no address may be contacted.
        """
        turn = BOUND_ADDRESS.get()
        try:
            addresses = [turn] if turn else await self._resolver.resolve(host)
        except dns.NameNotFoundError as e:
            raise outcomes.HostNotFoundError(str(e)) from e
        except dns.DnsError as e:
            raise outcomes.HostLookupError(str(e)) from e
        permitted = self._guard.permitted(addresses)
        if not permitted:
            raise outcomes.ForbiddenAddressError(f"{host} has no address of the public internet")
        for address in permitted[:-1]:
            with contextlib.suppress(
                outcomes.ConnectRefusedError,
                outcomes.ConnectFailedError,
                outcomes.ConnectTimeoutError,
            ):
                return await self.dial_address(address, port)
        return await self.dial_address(permitted[-1], port)

    async def dial_address(self, address: str, port: int) -> Connection:
        """Connect to *address*, one that was judged."""
        try:
            async with asyncio.timeout(self._limits.connect_timeout):
                reader, writer = await asyncio.open_connection(
                    address, port, limit=_READ_BUFFER, local_addr=self._local_address
                )
        except OSError as e:
            where = f"{address}, port {port}"
            raise outcomes.failure_of(e)(f"{where}: {e or type(e).__name__}") from e
        return Connection(reader, writer, address=address, limits=self._limits)


@contextlib.asynccontextmanager
async def contact_for(request: Request, limits: FetchLimits) -> AsyncIterator[PlainContact]:
    """Bound the whole of one contact, and note in ``request.meta`` how long it took.

    Raises DownloadTimeoutError in place of what was awaited when the time is over.
    """
    seconds = request.meta.get("download_timeout", limits.total_timeout)
    started = now()
    until = started + _FOR_DOCUMENTS * seconds
    contact = PlainContact(request=request, started=started, until=until)
    try:
        async with asyncio.timeout(seconds):
            yield contact
    except TimeoutError as e:
        raise DownloadTimeoutError(f"{request.url}: not done within {seconds} seconds") from e
    finally:
        request.meta["download_seconds"] = now() - started
