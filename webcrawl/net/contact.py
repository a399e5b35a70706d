"""Contacts with servers over plain TCP, for ftp and gopher, with their limits and failures.

Invariant: no read from a `Connection` takes more memory than its caller allowed or more time than
the limits allow.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import NamedTuple

from scrapy import Request
from scrapy.exceptions import DownloadTimeoutError, ResponseDataLossError

from webcrawl.clock import now
from webcrawl.net import outcomes
from webcrawl.net.documents import Document
from webcrawl.net.fence import FENCE, pass_fence
from webcrawl.net.http.large_bodies import limit_with_permit
from webcrawl.net.limits import FetchLimits, is_for_robots
from webcrawl.net.rates import COUNT_RECEIVED

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

# Length of the longest line. A connection buffers twice as much before it stops reading from the
# socket.
_READ_BUFFER = 64 * 1024
# The part of a contact's time after which a document is cut. The remaining time is for ending the
# session.
_DOCUMENT_SHARE = 0.95


class Received(NamedTuple):
    """Bytes received over a connection, and the flags of a response with these bytes as its body.

    *data* is empty only if the document is empty. There are no flags if *data* is complete.
    """

    data: bytes
    flags: list[str]


@dataclass(slots=True)
class PlainContact:
    """A contact in progress: its request and its time limits.

    Times are in epoch seconds, as the clocks of event loops may be coarse.
    """

    request: Request
    started: float
    # A document that is not complete by this time is cut, so that the received part can be used.
    until: float

    def check_loss(self, document: Document, limits: FetchLimits) -> None:
        """Raise ResponseDataLossError if a part of *document* was lost and the fetch fails then."""
        fail = self.request.meta.get("download_fail_on_dataloss", limits.fail_on_dataloss)
        if "dataloss" in document.flags and (fail or is_for_robots(self.request)):
            raise ResponseDataLossError(f"{self.request.url}: {document.reason}")


class Connection:
    """A TCP connection. Its methods raise the exceptions of `outcomes`."""

    def __init__(self, streams: Streams, limits: FetchLimits) -> None:
        self._reader, self._writer = streams
        self._limits = limits
        self._count_received = COUNT_RECEIVED.get()
        # None if the server has already reset the connection.
        peer = self._writer.get_extra_info("peername")
        self.address: str = peer[0] if peer else "the server"

    def send(self, data: bytes) -> None:
        """Send *data*, which must be small, as it may wait in memory.

        Raises what ``pass_fence`` raises.
        """
        pass_fence()
        self._writer.write(data)

    async def read_line(self) -> bytes:
        """Return the next line without its line end.

        Raises BadAnswerError if the line is longer than 64 kB.
        """
        try:
            async with asyncio.timeout(self._limits.first_byte_timeout):
                line = await self._reader.readuntil(b"\n")
        except TimeoutError as e:
            raise self._first_byte_timeout() from e
        except asyncio.LimitOverrunError as e:
            raise outcomes.BadAnswerError("a line is longer than 64 kB") from e
        except (asyncio.IncompleteReadError, OSError) as e:
            raise _lost_error(e) from e
        self._count_received(len(line))
        return line.rstrip(b"\r\n")

    async def read_to_end(self, limit: int, contact: PlainContact) -> Received:
        """Read until the server closes the connection, and return the bytes received.

        Reading ends early after *limit* bytes, if the bytes come below the minimum rate, or when
        the time of *contact* is over; the flags of the result tell so.
        """
        # The minimum rate is checked at the end of each window.
        window = self._limits.rate_window if self._limits.min_rate else math.inf
        min_bytes = self._limits.min_rate * self._limits.rate_window
        # An OSError if the connection broke, None if nothing came before the end of the window.
        chunk: bytes | OSError | None = await self._first_bytes(contact)
        window_end = min(now() + window, contact.until)
        chunks: list[bytes] = []
        size = 0
        size_before_window = 0

        while chunk != b"":
            if isinstance(chunk, OSError):
                return Received(b"".join(chunks), ["dataloss"])

            if chunk is not None:
                chunks.append(chunk)
                size += len(chunk)
                if size > limit:
                    limit = await limit_with_permit(contact.request, limit)
                if size > limit:
                    chunks[-1] = chunk[: limit - size]
                    return Received(b"".join(chunks), ["truncated"])

            time = now()
            if chunk is None or time >= window_end:  # timers may fire a little early
                # The whole time is over, or too few bytes came in this window.
                if window_end == contact.until or size - size_before_window < min_bytes:
                    if is_for_robots(contact.request):
                        raise outcomes.TooSlowError("too slow: only a part of robots.txt came")
                    return Received(b"".join(chunks), ["truncated", "time"])
                size_before_window = size
                window_end = min(time + window, contact.until)

            chunk = await self._next_bytes(window_end)
        return Received(b"".join(chunks), [])

    async def _first_bytes(self, contact: PlainContact) -> bytes:
        """Return the first bytes of the answer, b"" if the server closes the connection first."""
        deadline = min(now() + self._limits.first_byte_timeout, contact.until)
        chunk = await self._next_bytes(deadline)
        if isinstance(chunk, OSError):
            raise _lost_error(chunk) from chunk
        if chunk is None and deadline < contact.until:
            raise self._first_byte_timeout()
        if chunk is None:
            raise DownloadTimeoutError(f"{self.address} sent nothing")
        contact.request.meta["download_latency"] = now() - contact.started
        return chunk

    async def _next_bytes(self, until: float) -> bytes | OSError | None:
        """Return the next bytes; b"" at the end, None if nothing comes until *until*.

        If the connection breaks, the error is returned.
        """
        try:
            async with asyncio.timeout(until - now()) as time_left:
                chunk = await self._reader.read(_READ_BUFFER)
        except OSError as e:
            # TimeoutError is an OSError. The system raises it, too, for a connection that is lost.
            return None if time_left.expired() else e
        self._count_received(len(chunk))
        return chunk

    def _first_byte_timeout(self) -> Exception:
        seconds = self._limits.first_byte_timeout
        return outcomes.FirstByteTimeoutError(f"{self.address} sent nothing for {seconds:g} s")

    async def aclose(self) -> None:
        """Close the connection immediately, without waiting for data in transit."""
        self._writer.transport.abort()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


async def open_streams(address: str, port: int, local_address: tuple[str, int] | None) -> Streams:
    """Open a connection from *local_address* to *address*, and return its streams."""
    streams = await asyncio.open_connection(
        address, port, limit=_READ_BUFFER, local_addr=local_address
    )
    if (fence := FENCE.get()) is not None:
        fence.enclose(streams[1].transport)
    return streams


def _lost_error(error: Exception) -> Exception:
    """Return a ConnectionLostError for the *error* of a connection."""
    return outcomes.ConnectionLostError(str(error) or type(error).__name__)


@contextlib.asynccontextmanager
async def contact_for(request: Request, limits: FetchLimits) -> AsyncIterator[PlainContact]:
    """Limit the time of the contact for *request*; store in ``request.meta`` how long it took.

    Raises DownloadTimeoutError when the time is over. The URL is added to the messages of the
    exceptions of `outcomes`.
    """
    seconds = request.meta.get("download_timeout", limits.total_timeout)
    started = now()
    until = started + _DOCUMENT_SHARE * seconds
    contact = PlainContact(request=request, started=started, until=until)
    try:
        async with asyncio.timeout(seconds):
            yield contact
    except outcomes.FetchError as e:
        e.args = (f"{request.url}: {e}",)
        raise
    except TimeoutError as e:
        raise DownloadTimeoutError(f"{request.url}: not finished within {seconds} seconds") from e
    finally:
        request.meta["download_seconds"] = now() - started
