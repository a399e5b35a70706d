"""The answer for a robots.txt that was asked for past Scrapy, as its processing modules need it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from scrapy.http import Response

from webcrawl.net.http.answers import headers_of
from webcrawl.net.http.decoding import codings_of, decode

if TYPE_CHECKING:
    from webcrawl.net.http.exchange import Exchange


class RobotsResponse(Response):
    """A Response without a Request, whose ``meta`` is what the handler leaves in that of others.

    *body* is as received, of at most *max_bytes*, which bound the decoded one, too.
    """

    def __new__(cls, *_: Any, **__: Any) -> Self:
        return object.__new__(cls)  # past trackref, which finds the leaks of users

    def __init__(
        self, url: str, exchange: Exchange, body: bytes, flags: list[str], *, max_bytes: int
    ) -> None:
        sent, headers = exchange.request, headers_of(exchange.headers)
        self._meta = {
            "wire_address": exchange.peer,
            "wire_headers": exchange.headers,
            "wire_reason": exchange.reason,
            "wire_request_headers": sent.headers,
            "wire_head": exchange.head,
            "wire_request": sent.data,
            "tls": exchange.tls,
        }
        received = body
        if body and dict.get(headers, b"Content-Encoding"):
            codings = codings_of(headers.getlist(b"Content-Encoding"))
            decoded = decode(body, codings, limit=max_bytes)
            body, flags = decoded.body, decoded.flags(flags)
        if body is not received:
            self._meta["wire_body"] = received
        super().__init__(
            url,
            status=exchange.status,
            body=body,
            flags=flags,
            protocol=f"HTTP/{exchange.version}",
        )
        self.headers = headers  # the constructor would copy them

    @property
    def meta(self) -> dict[str, Any]:
        """What was on the wire, see handler.py."""
        return self._meta
