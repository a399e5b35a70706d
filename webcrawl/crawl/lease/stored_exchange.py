"""Exchange of a page that waits to be rendered: everything that ``page_of`` needs later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from scrapy.http import Headers, HtmlResponse

from webcrawl.configuration.decoding import Epoch, Seconds, msgpack_decoder
from webcrawl.render.engine import Answer

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

    from webcrawl.crawl.lease.fetch import Fetch

# Keys of a Request's meta, see net/http/handler.py. ``wire_body`` is among them only if the body
# was encoded.
_META = (
    *("wire_address", "wire_headers", "wire_reason", "wire_request_headers", "wire_head"),
    *("wire_request", "wire_body", "tls"),
)


class StoredExchange(msgspec.Struct, frozen=True):
    """A response with the facts of its fetch, as ``exchange_of`` encodes them."""

    status: int
    headers: list[tuple[bytes, list[bytes]]]
    body: bytes
    flags: list[str]
    protocol: str | None
    ip: str
    meta: dict[str, Any]
    sent_wall: Epoch
    took: Seconds
    robots_line: str
    page_flags: str
    score: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgpack_decoder(StoredExchange)


def exchange_of(response: Response, fetch: Fetch) -> bytes:
    """Return the exchange of *response*, encoded."""
    return _encode(
        StoredExchange(
            status=response.status,
            headers=[*response.headers.items()],
            body=response.body,
            flags=response.flags,
            protocol=response.protocol,
            ip=str(response.ip_address or ""),
            meta={name: response.meta[name] for name in _META if name in response.meta},
            sent_wall=fetch.sent_wall,
            took=fetch.took,
            robots_line=fetch.robots_line,
            page_flags=fetch.page.flags,
            score=fetch.page.score,
        )
    )


def restore(exchange: bytes, request: Request, fetch: Fetch) -> Response:
    """Return the response in *exchange* for *request*, and set the facts of *fetch*.

    Raises UndecodableError.
    """
    stored = _decode(exchange)
    request.meta.update(stored.meta)
    fetch.sent_wall, fetch.took, fetch.robots_line = (
        stored.sent_wall, stored.took, stored.robots_line
    )  # fmt: skip
    if fetch.rendered is None or not fetch.rendered.html:
        # Otherwise they would be those of the shell, which resembles others of its host.
        fetch.page.flags, fetch.page.score = stored.page_flags, stored.score
    return HtmlResponse(
        request.url,
        status=stored.status,
        headers=Headers(dict(stored.headers)),
        body=stored.body,
        flags=stored.flags,
        request=request,
        protocol=stored.protocol,
        ip_address=stored.ip or None,
    )


def stored_answer(exchange: bytes) -> Answer:
    """Return the response in *exchange* for an engine. Raises UndecodableError."""
    stored = _decode(exchange)
    return Answer(stored.status, header_pairs(stored.headers), stored.body)


def answer_of(response: Response) -> Answer:
    """Return *response* for an engine."""
    return Answer(response.status, header_pairs(response.headers.items()), response.body)


def header_pairs(headers: Any) -> list[tuple[str, str]]:
    """Return Scrapy's *headers*, by name, as pairs of text."""
    return [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, values in headers
        for value in values
    ]
