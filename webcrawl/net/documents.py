"""Responses of protocols that have no headers, built as if they had: used for ftp and gopher.

Invariant: what came over the wire is the body, or ``request.meta["wire_body"]`` where a page of
links was made of it.
"""

from __future__ import annotations

import ipaddress
import mimetypes
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from scrapy.http import Headers

from webcrawl.net.http.answers import class_for

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

# Not the system's tables: a file's type must not depend on the machine.
_TYPES: Final = mimetypes.MimeTypes()
_BY_ENCODING: Final = {
    "gzip": b"application/gzip",
    "bzip2": b"application/x-bzip2",
    "xz": b"application/x-xz",
    "compress": b"application/x-compress",
}


@dataclass(slots=True, kw_only=True)
class Document:
    """What a server said, in the words of HTTP.

    - ``reason``: the server's own words behind the status
    - ``content_type``: of ``body``, empty if nobody knows
    - ``location``: where a 301 leads to
    - ``flags``: "truncated", "dataloss"
    - ``wire_body``: what came, if ``body`` was made of it
    """

    status: int
    reason: str = ""
    body: bytes = b""
    content_type: bytes = b""
    location: str = ""
    flags: list[str] = field(default_factory=list)
    wire_body: bytes | None = None


def type_of_name(name: str) -> bytes:
    """The content type of a file of that name, empty if the name tells none."""
    kind, encoding = _TYPES.guess_type("/" + name)
    if encoding is not None:
        return _BY_ENCODING.get(encoding, b"application/octet-stream")
    return kind.encode() if kind else b""


def response_of(document: Document, request: Request, *, address: str, protocol: str) -> Response:
    """The response to *request*, which came from *address* by *protocol*."""
    headers = Headers()
    if document.content_type:
        headers[b"Content-Type"] = document.content_type
    if document.location:
        headers[b"Location"] = document.location
    request.meta["wire_reason"] = document.reason
    if document.wire_body is not None:
        request.meta["wire_body"] = document.wire_body
    return class_for(headers, request.url, document.body)(
        request.url,
        status=document.status,
        headers=headers,
        body=document.body,
        flags=document.flags,
        ip_address=ipaddress.ip_address(address),
        protocol=protocol,
    )
