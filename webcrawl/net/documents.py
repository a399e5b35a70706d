"""URLs and responses of ftp and gopher, protocols without headers; their lists as pages of links.

Invariants: the body is what came over the wire. If a page of links was made from it, that is in
``request.meta["wire_body"]``. Names and titles become text in the page, never markup, and a page is
never longer than its limit.
"""

from __future__ import annotations

import ipaddress
import mimetypes
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, urlsplit

from scrapy.http import Headers

from webcrawl.net.http.answers import class_for
from webcrawl.net.outcomes import BadUrlError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request
    from scrapy.http import Response

CONTENT_TYPE = b"text/html; charset=utf-8"
# Not the system's tables: a file's type must not depend on the machine.
_TYPES = mimetypes.MimeTypes()
_BY_ENCODING = {
    "gzip": b"application/gzip",
    "bzip2": b"application/x-bzip2",
    "xz": b"application/x-xz",
    "compress": b"application/x-compress",
}


@dataclass(slots=True, kw_only=True)
class Document:
    """A server's answer, in the terms of HTTP.

    - ``reason``: the server's own text after the status
    - ``content_type``: of ``body``, empty if unknown
    - ``location``: the target of a 301
    - ``flags``: "truncated", "dataloss"
    - ``wire_body``: what came, if ``body`` was made from it
    """

    status: int
    reason: str = ""
    body: bytes = b""
    content_type: bytes = b""
    location: str = ""
    flags: list[str] = field(default_factory=list)
    wire_body: bytes | None = None


def type_of_name(name: str) -> bytes:
    """Return the content type of a file with this name, empty if the name does not tell."""
    kind, encoding = _TYPES.guess_type("/" + name)
    if encoding is not None:
        return _BY_ENCODING.get(encoding, b"application/octet-stream")
    return kind.encode() if kind else b""


def response_of(document: Document, request: Request, *, address: str, protocol: str) -> Response:
    """Return the response to *request*, which came from *address* by *protocol*."""
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


class Row(NamedTuple):
    """A line of the page; *href* is a URL of ASCII characters, empty for plain text."""

    href: str
    text: str


def make_page(document: Document, title: str, rows: Iterable[Row], *, limit: int) -> None:
    """Replace *document*'s body, which is a list, by a page of links of at most *limit* bytes."""
    head = escape(title)
    parts = [
        f'<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>{head}</title></head>\n'
        f"<body><h1>{head}</h1>\n<ul>\n".encode()
    ]
    end = b"</ul>\n</body></html>\n"
    size = len(parts[0]) + len(end)
    for href, text in rows:
        words = escape(text, quote=False)
        if href:
            words = f'<a href="{escape(href)}">{words}</a>'
        # "replace" is for lone surrogates, though no name decoded here has any.
        part = f"<li>{words}</li>\n".encode("utf-8", "replace")
        size += len(part)
        if size > limit:
            document.flags = document.flags or ["truncated", "body_cut"]
            break
        parts.append(part)
    document.wire_body = document.body
    document.body = b"".join([*parts, end])


def parts_of(url: str, default_port: int) -> tuple[SplitResult, int, str]:
    """Return the parts of *url*, its port, and its path, in which question marks are not special.

    Raises BadUrlError if it has no host.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or default_port
    except ValueError as e:
        raise BadUrlError(f"{url}: {e}") from e
    if not parts.hostname:
        raise BadUrlError(f"{url} has no host")
    return parts, port, parts.path + ("%3F" + parts.query if "?" in url else "")
