"""The answer for a robots.txt that was asked for past Scrapy, as its processing modules need it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from scrapy import Request
from scrapy.http import Response

from webcrawl.net.http.answers import headers_of
from webcrawl.net.http.decoding import codings_of, decode

if TYPE_CHECKING:
    from webcrawl.net.http.exchange import Exchange


class RobotsResponse(Response):
    """A Response with what was on the wire, which is in the meta of Scrapy's other Responses.

    *body* is as received, of at most *max_bytes*, which bound the decoded one, too. It has a
    Request if its body was decoded.
    """

    def __new__(cls, *_: Any, **__: Any) -> Self:
        return object.__new__(cls)  # past trackref, which finds the leaks of users

    def __init__(
        self, url: str, exchange: Exchange, body: bytes, flags: list[str], *, max_bytes: int
    ) -> None:
        headers = headers_of(exchange.headers)
        self.wire_body = body
        if body and dict.get(headers, b"Content-Encoding"):
            decoded = decode(
                body, codings_of(headers.getlist(b"Content-Encoding")), limit=max_bytes
            )
            body, flags = decoded.body, decoded.flags(flags)
        super().__init__(url, status=exchange.status, body=body, flags=flags)
        self.headers = headers  # the constructor would copy them
        if body is not self.wire_body:
            self.request = Request(url, meta={"wire_body": self.wire_body})
        self.wire_request = exchange.request
        self.wire_headers = exchange.headers
        self.wire_head = exchange.head
        self.wire_reason = exchange.reason
        self.wire_protocol = f"HTTP/{exchange.version}"
        self.peer = exchange.peer
        self.tls = exchange.tls
