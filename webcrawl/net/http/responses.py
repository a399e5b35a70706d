"""Makes Scrapy responses from the answers of servers.

Used by the download handler for every page, and by the decoding middleware, which makes another
response once the body is decoded. Scrapy's constructors would parse the content type and copy the
headers each time; here neither is done twice.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache

from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes

from webcrawl.net.http.exchange import Exchange


def response_of(
    exchange: Exchange, url: str, headers: Headers, body: bytes, flags: list[str]
) -> Response:
    """Make a response for *url* from *exchange*, whose fields are in *headers*, and its *body*."""
    # An encoded body is not text yet; its class is chosen by the decoding middleware.
    is_encoded = body and dict.get(headers, b"Content-Encoding")
    cls = Response if is_encoded else class_for(headers, url, body)
    response = cls(
        url,
        status=exchange.answer.status,
        body=body,
        flags=flags,
        certificate=exchange.certificate,
        ip_address=_ip_address(exchange.peer),
        protocol=f"HTTP/{exchange.answer.version}",
    )
    response.headers = headers  # the constructor would copy them
    return response


def class_for(headers: Headers, url: str, body: bytes) -> type[Response]:
    """Return the class that Scrapy uses for a response with these parts, if *body* is decoded."""
    # The methods of Headers would normalize the name again.
    types = dict.get(headers, b"Content-Type")
    cls: type[Response] = Response
    if types and len(types[-1]) <= _MAX_CACHED_BYTES:
        cls = _class_of_type(types[-1])

    # Scrapy looks at the URL and the body, too, if the type does not determine the class.
    if cls is Response:
        names = (b"Content-Type", b"Content-Disposition")
        fields = Headers({name: headers.getlist(name) for name in names if name in headers})
        cls = responsetypes.from_args(headers=fields, url=url, body=body)
    return cls


# Longer names and types are hostile or rare, and would fill the caches.
_MAX_CACHED_BYTES = 100
_class_of_type = lru_cache(1024)(responsetypes.from_content_type)
_titled = lru_cache(4096)(bytes.title)
_ip_address = lru_cache(4096)(ipaddress.ip_address)


def headers_of(raw: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return ``Headers(raw)``, but in a third of the time that the constructor takes."""
    headers = Headers()
    for name, value in raw:
        # Names and values are already in the form of Headers.
        key = _titled(name) if len(name) <= _MAX_CACHED_BYTES else name.title()
        dict.setdefault(headers, key, []).append(value)
    return headers
