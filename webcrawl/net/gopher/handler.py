"""The download handler for gopher, which fetches texts, files, and menus as pages of links.

Called by Scrapy's downloader; set in DOWNLOAD_HANDLERS. The protocol is that of RFC 1436, and URLs
are those of RFC 4266: ``gopher://host:port/<type><selector>``, a menu if the type is left out.
Searches (type 7) and sessions are not fetched, and the Gopher+ part of a URL is not supported.

Gopher has no statuses. An answer that is an error item becomes a 404, everything else a 200. The
content type is determined by the item type. Texts and menus end with a line of a single dot, which
is removed from a text. ``request.meta`` is as for ftp: ``download_latency``, ``download_seconds``,
and ``wire_body`` if the body is not the data as received. Flags are as for HTTP.

GOPHER_PORTS lists the ports that may be contacted. A selector can be any line, and it is the first
data sent over the connection. So without this limit, a link could make the crawler send a line of
its author's choice to a mail server or a database. Browsers that supported Gopher allowed only port
70.

Invariant: one call opens one connection, sends one line, and closes the connection.
"""

from __future__ import annotations

import re
from contextlib import aclosing
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from scrapy import Request
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.crawler import Crawler
from scrapy.http import Response

from webcrawl.configuration.values import port_numbers
from webcrawl.net import outcomes
from webcrawl.net.contact import Connection, Received, contact_for, open_streams
from webcrawl.net.dialer import Dialer
from webcrawl.net.documents import Document, make_page, parts_of, response_of
from webcrawl.net.gopher.menu import (
    MENU,
    TEXT,
    content_type_of,
    is_document,
    is_error,
    items,
    row_of,
)
from webcrawl.net.http.large_bodies import limit_without_permit
from webcrawl.net.limits import FetchLimits

_PORT = 70
# Tabs separate the parts of a request, and line breaks separate requests.
_FORBIDDEN = re.compile(rb"[\t\r\n\0]")


class GopherTarget(NamedTuple):
    """The parts of a Gopher URL. *kind* is the item type, and *selector* is decoded."""

    host: str
    port: int
    kind: str
    selector: bytes


class GopherDownloadHandler(BaseDownloadHandler):
    """Scrapy's `DownloadHandlerProtocol` for gopher. Raises the exceptions of `outcomes`."""

    lazy = True

    def __init__(self, crawler: Crawler) -> None:
        """Create the handler from the settings of *crawler*.

        They are those of `FetchLimits` and `Dialer`, and GOPHER_PORTS. Raises FatalError with one
        sentence for an invalid value.
        """
        super().__init__(crawler)
        self.limits = FetchLimits.from_settings(crawler.settings)
        self.dialer = Dialer.from_crawler(crawler, self.limits)
        self.ports = port_numbers(crawler.settings, "GOPHER_PORTS")

    async def download_request(self, request: Request) -> Response:
        """Fetch *request* once, and return the response that the module's docstring describes.

        Raises the exceptions of `outcomes`.
        """
        target = target_of(request.url)
        if target.port not in self.ports:
            raise outcomes.BadUrlError(f"{request.url}: port {target.port} is not in GOPHER_PORTS")

        limit = limit_without_permit(request, self.limits.max_bytes)
        content_type = content_type_of(target.kind, target.selector)
        async with contact_for(request, self.limits) as contact:
            self.limits.check_type(content_type, request)
            streams = await self.dialer.dial(target.host, target.port, open_streams)
            async with aclosing(Connection(streams, self.limits)) as connection:
                connection.send(target.selector + b"\r\n")
                received = await connection.read_to_end(limit, contact)
            if not received.data and target.kind == MENU:
                raise outcomes.ConnectionLostError("the server sent an empty menu")
            if received.data.startswith(b"HTTP/1."):
                raise outcomes.BadAnswerError("the server speaks HTTP, not Gopher")

        document = _document(target, received, content_type, limit)
        contact.check_loss(document, self.limits)
        return response_of(document, request, address=connection.address, protocol="GOPHER")


def target_of(url: str) -> GopherTarget:
    """Parse the Gopher URL *url*; raise BadUrlError if it cannot be requested."""
    parts, port, quoted = parts_of(url, _PORT)
    path = unquote_to_bytes(quoted[1:])
    kind = path[:1].decode("latin-1") or MENU
    if not is_document(kind):
        raise outcomes.BadUrlError(f"{url}: items of type {kind!r} are not documents")
    if _FORBIDDEN.search(path):
        raise outcomes.BadUrlError(f"{url} has a tab or a line break in its selector")
    return GopherTarget(host=parts.hostname or "", port=port, kind=kind, selector=path[1:])


def _document(
    target: GopherTarget, received: Received, content_type: bytes, limit: int
) -> Document:
    """Make a document from *received*: an error, a menu as a page of links, or a file or text."""
    data = received.data
    if is_error(data):
        reason = next(items(data)).text
        return Document(status=404, reason=reason[:200], wire_body=data)

    document = Document(status=200, body=data, content_type=content_type, flags=received.flags)
    if target.kind == MENU:
        rows = filter(None, map(row_of, items(data)))
        title = f"{target.host} {target.selector.decode('utf-8', 'replace')}".rstrip()
        make_page(document, title, rows, limit=limit)
    elif target.kind == TEXT:
        document.body = _without_end(data)
        if document.body is not data:
            document.wire_body = data
    return document


def _without_end(text: bytes) -> bytes:
    """Return *text* without its last line if that is a single dot."""
    body = text.removesuffix(b"\n").removesuffix(b"\r")
    if body == b"." or body.endswith(b"\n."):
        return body[:-1]
    return text
