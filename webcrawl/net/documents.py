"""URLs and responses of ftp and gopher, which have no headers; turns lists into pages of links.

Invariants: the body is the data as received. If a page of links was made from it, the received data
is in ``request.meta["wire_body"]``. Names and titles become text in the page, never markup, and a
page is never longer than its limit.
"""

from __future__ import annotations

import ipaddress
import mimetypes
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from scrapy import Request
from scrapy.http import Headers, Response

from webcrawl.net.http.responses import class_for
from webcrawl.net.outcomes import BadUrlError

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
    - ``content_type``: the type of ``body``, empty if unknown
    - ``location``: the target of a 301
    - ``flags``: the flags of the response, such as "truncated" and "dataloss"
    - ``wire_body``: the data as received, if ``body`` was made from it
    """

    status: int
    reason: str = ""
    body: bytes = b""
    content_type: bytes = b""
    location: str = ""
    flags: list[str] = field(default_factory=list)
    wire_body: bytes | None = None


def type_of_name(name: str) -> bytes:
    """Return the content type of a file called *name*; empty if the name does not tell."""
    kind, encoding = _TYPES.guess_type("/" + name)
    if encoding is not None:
        return _BY_ENCODING.get(encoding, b"application/octet-stream")
    return kind.encode() if kind else b""


def response_of(document: Document, request: Request, *, address: str, protocol: str) -> Response:
    """Make a response to *request* from *document*, which came from *address* over *protocol*."""
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
    """A line of a page of links: *text*, linked to the URL *href* unless that is empty.

    *href* contains only ASCII characters.
    """

    href: str
    text: str


def make_page(document: Document, title: str, rows: Iterable[Row], *, limit: int) -> None:
    """Replace the body of *document*, a listing or menu, by a page with the links in *rows*.

    The page has at most *limit* bytes; further rows are left out. The body as received is kept as
    the ``wire_body``.
    """
    heading = escape(title)
    parts = [
        f'<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>{heading}</title></head>\n'
        f"<body><h1>{heading}</h1>\n<ul>\n".encode()
    ]
    end = b"</ul>\n</body></html>\n"
    size = len(parts[0]) + len(end)

    for href, text in rows:
        markup = escape(text, quote=False)
        if href:
            markup = f'<a href="{escape(href)}">{markup}</a>'
        # "replace" is for lone surrogates, though no name decoded here has any.
        line = f"<li>{markup}</li>\n".encode("utf-8", "replace")
        size += len(line)
        if size > limit:
            # "body_cut" tells that the page was cut here. Flags that are set already tell that the
            # list itself is incomplete.
            document.flags = document.flags or ["truncated", "body_cut"]
            break
        parts.append(line)

    document.wire_body = document.body
    document.body = b"".join([*parts, end])


def parts_of(url: str, default_port: int) -> tuple[SplitResult, int, str]:
    """Return the parts of *url*, its port or *default_port*, and its path.

    A question mark is an ordinary character of the path, in which it is percent-encoded. Raises
    BadUrlError if *url* has no host.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or default_port
    except ValueError as e:
        raise BadUrlError(f"{url}: {e}") from e
    if not parts.hostname:
        raise BadUrlError(f"{url} has no host")
    path = parts.path + ("%3F" + parts.query if "?" in url else "")
    return parts, port, path
