"""The download handler for ftp: files, and directories as pages of links.

Called by Scrapy's downloader; set in DOWNLOAD_HANDLERS. A URL is read as RFC 1738 has it (section
3.2): its path, relative to where the login leads, with ``%2F`` for the root, ``;type=`` behind it;
a question mark has no meaning. A URL that ends in a slash is a directory. One that does not and is
a directory all the same is answered as HTTP servers do, with 301 and the slash, because the names
in a listing are relative to it, and a directory should not be stored under two URLs; that
costs a second contact, for links that were written without the slash only.

User and password: those of the URL or of ``request.meta`` (``ftp_user``, ``ftp_password``), else
FTP_USER and FTP_PASSWORD: "anonymous" and, by custom, whom to write to, CRAWLER_CONTACT.

What a server replies becomes a status of HTTP, so that robots rules and retries need to know no
other: 404 for 550 and 553, 401 for those who are not let in, 503 for all that may pass (4xx), 400
for the rest. In ``request.meta``: ``download_latency``, ``download_seconds`` as for HTTP,
``wire_reason`` the text of the reply, ``wire_body`` a listing as it came. The header fields of the
response are made up here: Content-Type (by the name of the file) and Location. Flags as for HTTP.

Invariant: one call opens one control connection, and at most one data connection, to one and the
same address (see session.py); both are closed when it returns or raises.
"""

from __future__ import annotations

import re
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, unquote_to_bytes

from scrapy.core.downloader.handlers.base import BaseDownloadHandler

from webcrawl.items import is_success
from webcrawl.net import outcomes
from webcrawl.net.contact import Connection, PlainContact, contact_for, opened
from webcrawl.net.dialer import Dialer
from webcrawl.net.documents import (
    CONTENT_TYPE,
    Document,
    make_page,
    parts_of,
    response_of,
    type_of_name,
)
from webcrawl.net.ftp.listing import entries, row_of
from webcrawl.net.ftp.session import FtpReply, Session
from webcrawl.net.http.large_bodies import free_bytes
from webcrawl.net.limits import FetchLimits

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

# Defaults of the settings of the same names.
FTP_USER = "anonymous"
FTP_PASSWORD = "guest"  # noqa: S105  # where nobody is to be written to (RFC 1635)

_PORT = 21
_TYPE = re.compile(r";type=([aid])\Z", re.IGNORECASE)
_CROWDED = re.compile(rb"too many|maximum|limit|later|busy|full", re.IGNORECASE)


class FtpTarget(NamedTuple):
    """The target of an FTP URL. *path* is decoded; *name* is its last segment as in the URL."""

    host: str
    port: int
    user: str | None
    password: str | None
    path: bytes
    name: str
    is_listing: bool


@dataclass(kw_only=True, eq=False, repr=False)
class FtpDownloadHandler(BaseDownloadHandler):
    """Scrapy's `DownloadHandlerProtocol`. Raises the exceptions of `outcomes`."""

    lazy = True

    crawler: Crawler
    limits: FetchLimits
    dialer: Dialer
    user: str
    password: str

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> FtpDownloadHandler:
        """Build by the settings of `FetchLimits` and `Dialer`, FTP_USER, FTP_PASSWORD and
        CRAWLER_CONTACT.

        Raises FatalError with one sentence for a wrong value.
        """
        settings = crawler.settings
        limits = FetchLimits.from_settings(settings)
        return cls(
            crawler=crawler,
            limits=limits,
            dialer=Dialer.from_crawler(crawler, limits),
            user=settings.get("FTP_USER") or FTP_USER,
            password=settings.get("FTP_PASSWORD")
            or settings.get("CRAWLER_CONTACT")
            or FTP_PASSWORD,
        )

    async def download_request(self, request: Request) -> Response:
        """Fetch *request* once; see the module for the response, `outcomes` for the failures."""
        target = target_of(request.url)
        meta = request.meta
        user = meta.get("ftp_user") or target.user or self.user
        password = meta.get("ftp_password") or target.password or self.password
        content_type = CONTENT_TYPE if target.is_listing else type_of_name(unquote(target.name))
        async with contact_for(request, self.limits) as contact:
            self.limits.check_type(content_type, request)
            streams = await self.dialer.dial(target.host, target.port, opened)
            async with aclosing(Connection(streams, self.limits)) as control:
                visit = _FtpVisit(
                    session=Session(control, self.dialer, self.limits),
                    target=target,
                    user=user.encode("utf-8", "replace"),
                    password=password.encode("utf-8", "replace"),
                    limit=free_bytes(request, self.limits.max_bytes),
                    contact=contact,
                )
                document = await visit.document()
                if is_success(document.status):
                    document.content_type = content_type
        contact.check_loss(document, self.limits)
        return response_of(document, request, address=control.address, protocol="FTP")


@dataclass(slots=True, kw_only=True)
class _FtpVisit:
    """One visit on a control connection."""

    session: Session
    target: FtpTarget
    user: bytes
    password: bytes
    limit: int
    contact: PlainContact

    async def document(self) -> Document:
        """Return what the server has, or says instead."""
        reply = await self.session.reply()
        if reply.is_good:
            reply = await self.session.log_in(self.user, self.password)
        if not reply.is_good:
            document = _refusal(reply)
        elif self.target.is_listing:
            document = await self._list()
        else:
            document = await self._retrieve()
        await self.session.end()
        return document

    async def _retrieve(self) -> Document:
        """Return the file; 301 if it is a directory."""
        target, session = self.target, self.session
        await session.ask(b"TYPE", b"I")
        data = await session.data_connection()
        if isinstance(data, FtpReply):
            return _refusal(data)
        async with aclosing(data):
            reply = await session.ask(b"RETR", target.path)
            if reply.is_preliminary or reply.is_good:
                return await self._receive(data, reply)
        if reply.code == 550 and (await session.ask(b"CWD", target.path)).is_good:
            # With the dot nothing in the name is read as a scheme or a host.
            return Document(status=301, reason=_text(reply), location=f"./{target.name}/")
        return _refusal(reply)

    async def _list(self) -> Document:
        """Return the directory as a page of links."""
        path, session = self.target.path, self.session
        if path:
            # Not as an argument of the listing, where a name like -R would be an option.
            reply = await session.ask(b"CWD", path)
            if not reply.is_good:
                return _refusal(reply)
        data = await session.data_connection()
        if isinstance(data, FtpReply):
            return _refusal(data)
        async with aclosing(data):
            reply = await session.ask(b"MLSD")
            machine = not reply.is_unknown_command
            if not machine:
                reply = await session.ask(b"LIST")
            if not (reply.is_preliminary or reply.is_good):
                return _refusal(reply)
            document = await self._receive(data, reply)
        # With the host: directories of the same names are not the same page, as their links differ.
        shown = path.decode("utf-8", "replace").strip("/")
        title = f"Index of /{shown} on {self.target.host}, port {self.target.port}"
        rows = map(row_of, entries(document.body, machine=machine))
        make_page(document, title, rows, limit=self.limit)
        return document

    async def _receive(self, data: Connection, reply: FtpReply) -> Document:
        """Return what comes over the data connection, with a flag if that is not all."""
        body, flags = await data.rest(self.limit, self.contact)
        await data.aclose()
        if reply.is_preliminary and not flags:
            try:
                reply = await self.session.reply()
            except outcomes.ConnectionLostError:
                reply = FtpReply(426, b"hung up before saying that this was all")
            if not reply.is_good:
                flags = ["dataloss"]
        return Document(status=200, reason=_text(reply), body=body, flags=flags)


def target_of(url: str) -> FtpTarget:
    """Read *url*; BadUrlError if nothing can be asked for by it."""
    parts, port, path = parts_of(url, _PORT)
    found = _TYPE.search(path)
    if found is not None:
        path = path[: found.start()]
    decoded = unquote_to_bytes(path[1:])
    if re.search(rb"[\r\n\0]", decoded):
        raise outcomes.BadUrlError(f"{url} has a line break in its path")
    is_listing = decoded[-1:] in (b"", b"/") or (found is not None and found[1] in "dD")
    return FtpTarget(
        host=parts.hostname or "",
        port=port,
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
        # The root itself is nothing but its slash.
        path=(decoded.rstrip(b"/") or decoded[:1]) if is_listing else decoded,
        name=path.rpartition("/")[2],
        is_listing=is_listing,
    )


def _refusal(reply: FtpReply) -> Document:
    """A reply that refuses, as a response of HTTP."""
    return Document(status=_status_of(reply), reason=_text(reply))


def _status_of(reply: FtpReply) -> int:
    if reply.code in (530, 532):
        # Of a server that takes no more guests just now, too, though there is 421 for that.
        return 503 if _CROWDED.search(reply.text) else 401
    if reply.code in (550, 553):
        return 404
    # 120 and 3xx: ready only later, or after something that a crawler does not have.
    return 400 if reply.code >= 500 else 401 if reply.code in (331, 332) else 503


def _text(reply: FtpReply) -> str:
    return f"{reply.code} {reply.text[:200].decode('utf-8', 'replace')}".strip()
