"""Reading the body of an answer, up to its bound.

The bound: bytes on the wire, bytes when decoded as far as can be told, or what a listener of
``bytes_received`` says.

Invariant: what has come is returned, whatever ended it; no more is held than the bound and one
piece of what was received last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.exceptions import StopDownload

    from webcrawl.net.http.decoding import Gauge
    from webcrawl.net.http.exchange import Exchange
    from webcrawl.net.http.large_bodies import Permit


class Body(NamedTuple):
    """The body of an answer, or what came of it.

    cut: it was enough, and the server had more or may have.
    stop: from the listener that had enough.
    end: what ended it early; TimeoutError for the time of the whole fetch. None for a whole body.
    """

    data: bytes
    cut: bool = False
    stop: StopDownload | None = None
    end: BaseException | None = None


async def read_body(
    answer: Exchange,
    *,
    limit: int,
    gauge: Gauge | None,
    listener: Callable[[bytes], StopDownload | None] | None,
    permit: Permit | None = None,
) -> Body:
    """Read up to *limit* bytes of *answer*'s body, or as many as fill *gauge*; with *permit*, as
    many as it allows. While it is waited for, the server waits, too."""
    chunks: list[bytes] = []
    size = 0
    while chunk := await answer.read():
        chunks.append(chunk)
        size += len(chunk)
        if listener is not None and (stop := listener(chunk)) is not None:
            return Body(b"".join(chunks), stop=stop)
        while size > limit or (gauge is not None and gauge.is_full(chunks, size)):
            if permit is not None and permit.max_bytes > limit and await permit.acquire():
                limit = permit.max_bytes
                gauge = None if gauge is None else gauge.widened(limit)
                continue
            if size > limit:
                chunks[-1] = chunk[: limit - size]
            return Body(b"".join(chunks), cut=True)
    return Body(b"".join(chunks), end=answer.damage)
