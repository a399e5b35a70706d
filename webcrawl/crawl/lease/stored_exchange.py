"""Exchange of a page that waits to be rendered: everything that ``page_of`` needs later."""

from __future__ import annotations

from typing import Any

import msgspec
from scrapy import Request
from scrapy.http import Headers, HtmlResponse, Response

from webcrawl.configuration.decoding import msgpack_decoder
from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.net.guard import place_of
from webcrawl.rights.statements import Statement  # msgspec reads it

# Attributes of the response, of the fetch and of its page.
_RESPONSE = ("status", "body", "flags", "protocol")
_FETCH = ("sent_wall", "took", "robots_line")
_PAGE = ("flags", "score")
# Keys of a Request's meta, see net/http/handler.py. ``wire_body`` is among them only if the body
# was encoded.
_META = (
    *("wire_address", "wire_headers", "wire_reason", "wire_request_headers", "wire_head"),
    *("wire_request", "wire_body", "tls"),
)


class StoredExchange(msgspec.Struct, frozen=True):
    """A response with the facts of its fetch, as ``exchange_of`` encodes them."""

    response: dict[str, Any]
    headers: list[tuple[bytes, list[bytes]]]
    meta: dict[str, Any]
    fetch: dict[str, Any]
    page: dict[str, Any]
    statements: list[Statement]


#: Decodes the result of ``exchange_of``. Raises UndecodableError for other bytes.
decode_exchange = msgpack_decoder(StoredExchange)


def exchange_of(response: Response, fetch: Fetch) -> bytes:
    """Return the exchange of *response*, encoded."""
    return msgspec.msgpack.encode(
        StoredExchange(
            {name: getattr(response, name) for name in _RESPONSE},
            [*response.headers.items()],
            {name: response.meta[name] for name in _META if name in response.meta},
            {name: getattr(fetch, name) for name in _FETCH},
            {name: getattr(fetch.page, name) for name in _PAGE},
            [*fetch.statements],
        )
    )


def restore(exchange: bytes, request: Request, fetch: Fetch) -> Response:
    """Return the response in *exchange* for *request*, and set the facts of *fetch*.

    Raises UndecodableError.
    """
    stored = decode_exchange(exchange)
    request.meta.update(stored.meta)
    fetch.statements = stored.statements
    for name, value in stored.fetch.items():
        setattr(fetch, name, value)
    # The flags and score are those of the page as it was received. Once rendered, it has others:
    # before that, many pages of a host are the same script and look like error pages.
    if fetch.stored is None or not fetch.stored.html:
        for name, value in stored.page.items():
            setattr(fetch.page, name, value)
    headers = Headers(dict(stored.headers))
    return HtmlResponse(request.url, headers=headers, request=request, **stored.response)


def place_in(meta: dict[str, Any]) -> str:
    """Return the place from which a response with *meta* came, see ``place_of``."""
    return place_of(meta.get("wire_address", ""), meta.get("wire_proxy", ""))
