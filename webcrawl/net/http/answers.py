"""Scrapy's responses, made of the answers of servers.

Used by the download handler for every page and by the decoding middleware, which builds the
response again once the body is text. Both constructors of Scrapy would parse the content type
anew and copy the headers; here neither is done twice.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING

from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webcrawl.net.http.exchange import Exchange


def response_of(
    answer: Exchange, url: str, headers: Headers, body: bytes, flags: list[str]
) -> Response:
    """The response to a request for *url* that *answer* is, with *headers* made of its fields."""
    # A coded body is not text yet; the decoding middleware decides.
    coded = body and dict.get(headers, b"Content-Encoding")
    cls = Response if coded else class_for(headers, url, body)
    response = cls(
        url,
        status=answer.status,
        body=body,
        flags=flags,
        certificate=answer.certificate,
        ip_address=_ip_address(answer.peer),
        protocol=f"HTTP/{answer.version}",
    )
    response.headers = headers  # the constructor would copy them
    return response


def class_for(headers: Headers, url: str, body: bytes) -> type[Response]:
    """Return the class that Scrapy has for such a response when its body is not coded."""
    # Not by the methods of Headers, which would bring the name into its form again.
    types = dict.get(headers, b"Content-Type")
    cls: type[Response] = Response
    if types and len(types[-1]) <= _REMEMBERED:
        cls = _class_of_type(types[-1])
    if cls is Response:
        names = (b"Content-Type", b"Content-Disposition")
        plain = Headers({name: headers.getlist(name) for name in names if name in headers})
        cls = responsetypes.from_args(headers=plain, url=url, body=body)
    return cls


# Longer names and types are hostile or rare, and would fill the memory of what is remembered.
_REMEMBERED = 100
_class_of_type = lru_cache(1024)(responsetypes.from_content_type)
_titled = lru_cache(4096)(bytes.title)
_ip_address = lru_cache(4096)(ipaddress.ip_address)


def headers_of(raw: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return ``Headers(raw)`` at a third of the price."""
    headers = Headers()
    for name, value in raw:
        # Names and values are in the form that Headers would bring them into.
        key = _titled(name) if len(name) <= _REMEMBERED else name.title()
        dict.setdefault(headers, key, []).append(value)
    return headers
