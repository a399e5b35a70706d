"""One contact of a server over plain TCP, for the protocols that are not HTTP.

Used by the download handlers of ftp and gopher: whom to connect to, how long it may take, how much
is read, and what its failures are called.

Invariant: a `Connection` is to the address that the guard permitted, and no read from it takes more
memory than its caller allowed nor more time than the limits allow.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from scrapy.exceptions import DownloadTimeoutError

from webcrawl.net import dns, outcomes
from webcrawl.net.guard import AddressGuard
from webcrawl.net.shared import resolver_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from webcrawl.net.limits import FetchLimits

# As for HTTP: of a host's addresses the first, and one more where that does not answer.
_MAX_ADDRESSES: Final = 2
# The longest line; a connection holds twice as much before it stops reading from the socket.
_READ_BUFFER: Final = 64 * 1024


class Received(NamedTuple):
    """What a connection said until its end; *cut* if there was more than allowed."""

    data: bytes
    cut: bool


class Connection:
    """One TCP connection. Its methods raise the exceptions of `outcomes`."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        address: str,
        patience: float,
    ) -> None:
        """*patience* is how many seconds may pass until the other side says something."""
        self.address = address
        self._reader = reader
        self._writer = writer
        self._patience = patience

    def send(self, data: bytes) -> None:
        """Send *data*, which is small: it waits in memory if need be."""
        self._writer.write(data)

    async def line(self) -> bytes:
        """Return the next line without its end; BadAnswerError if it is longer than 64 kB."""
        try:
            async with asyncio.timeout(self._patience):
                line = await self._reader.readuntil(b"\n")
        except TimeoutError as e:
            raise _silent(self.address, self._patience) from e
        except asyncio.LimitOverrunError as e:
            raise outcomes.BadAnswerError("a line without an end") from e
        except (asyncio.IncompleteReadError, OSError) as e:
            raise outcomes.ConnectionLostError(str(e) or type(e).__name__) from e
        return line.rstrip(b"\r\n")

    async def rest(self, limit: int, *, begun: Callable[[], None]) -> Received:
        """Return what comes until the end, *limit* bytes at most; *begun* is called at once when
        the first byte is there."""
        chunks: list[bytes] = []
        size = 0
        while chunk := await self._some():
            if not size:
                begun()
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                chunks[-1] = chunk[: limit - size]
                break
        return Received(b"".join(chunks), size > limit)

    async def _some(self) -> bytes:
        try:
            async with asyncio.timeout(self._patience):
                return await self._reader.read(_READ_BUFFER)
        except TimeoutError as e:
            raise _silent(self.address, self._patience) from e
        except OSError as e:
            raise outcomes.ConnectionLostError(str(e) or type(e).__name__) from e

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
        try:
            addresses = await self._resolver.resolve(host)
        except dns.NameNotFoundError as e:
            raise outcomes.HostNotFoundError(str(e)) from e
        except dns.DnsError as e:
            raise outcomes.HostLookupError(str(e)) from e
        permitted = self._guard.permitted(addresses)[:_MAX_ADDRESSES]
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
        """Connect to *address*, which the guard is asked about once more."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = self._guard.open_socket((family, socket.SOCK_STREAM, 0, "", (address, port)))
        try:
            sock.setblocking(False)
            if self._local_address is not None:
                sock.bind(self._local_address)
            async with asyncio.timeout(self._limits.connect_timeout):
                await asyncio.get_running_loop().sock_connect(sock, (address, port))
            reader, writer = await asyncio.open_connection(sock=sock, limit=_READ_BUFFER)
        except BaseException as e:
            sock.close()
            if isinstance(e, OSError):
                where = f"{address}, port {port}"
                raise _meaning_of(e)(f"{where}: {e or type(e).__name__}") from e
            raise
        return Connection(reader, writer, address=address, patience=self._limits.total_timeout)


@contextlib.asynccontextmanager
async def contact(request: Request, limits: FetchLimits) -> AsyncIterator[Callable[[], None]]:
    """Bound the whole of one contact, and note in ``request.meta`` how long it took.

    Gives a function to call when the answer begins. Raises DownloadTimeoutError in place of what
    was awaited when the time is over.
    """
    started = time.monotonic()
    seconds = request.meta.get("download_timeout", limits.total_timeout)

    def answered() -> None:
        request.meta["download_latency"] = time.monotonic() - started

    try:
        async with asyncio.timeout(seconds):
            yield answered
    except TimeoutError as e:
        raise DownloadTimeoutError(f"{request.url}: not done within {seconds} seconds") from e
    finally:
        request.meta["download_seconds"] = time.monotonic() - started


def _silent(address: str, seconds: float) -> DownloadTimeoutError:
    return DownloadTimeoutError(f"{address} said nothing for {seconds} seconds")


def _meaning_of(error: OSError) -> type[Exception]:
    return next(meaning for cls, meaning in _MEANINGS if isinstance(error, cls))


# The first that fits.
_MEANINGS: Final[tuple[tuple[type[OSError], type[Exception]], ...]] = (
    (ConnectionRefusedError, outcomes.ConnectRefusedError),
    (TimeoutError, outcomes.ConnectTimeoutError),
    (ConnectionError, outcomes.ConnectionLostError),  # reset or aborted: somebody was there
    (OSError, outcomes.ConnectFailedError),
)
