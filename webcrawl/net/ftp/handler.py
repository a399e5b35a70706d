"""The download handler for ftp, which fetches files, and directories as pages of links.

Called by Scrapy's downloader; set in DOWNLOAD_HANDLERS. A URL is parsed as in RFC 1738, section
3.2. Its path is relative to the login directory, with ``%2F`` for the root, and may end in
``;type=``. A question mark has no special meaning. A URL that ends in a slash is a directory. If a
URL without the slash is a directory, the response is a 301 to the URL with the slash, as HTTP
servers do it: the names in a listing are relative to that URL, and a directory should not be stored
under two URLs. The second contact is needed only for links written without the slash.

User and password come from the URL or from ``request.meta`` (``ftp_user``, ``ftp_password``), else
from FTP_USER and FTP_PASSWORD. Their defaults are "anonymous" and, as is the custom, the contact
address, CRAWLER_CONTACT.

Replies of the server are mapped to HTTP statuses, so that robots rules and retries need no others:
404 for 550 and 553, 401 if the login is refused, 503 for anything temporary (4xx), 400 for all
others. ``request.meta`` gets ``download_latency`` and ``download_seconds`` as for HTTP,
``wire_reason``, the text of the reply, and ``wire_body``, a listing as received. The header fields
of the response are made here: Content-Type (by the name of the file) and Location. Flags are as for
HTTP.

Invariant: one call opens one control connection and at most one data connection, to the same
address (see session.py). Both are closed when it returns or raises.
"""

from __future__ import annotations

import re
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote, unquote_to_bytes

from scrapy import Request
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.crawler import Crawler
from scrapy.http import Response

from webcrawl.items import is_success
from webcrawl.net import outcomes
from webcrawl.net.contact import Connection, PlainContact, contact_for, open_streams
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
from webcrawl.net.http.large_bodies import limit_without_permit
from webcrawl.net.limits import FetchLimits

# Defaults of the settings of the same names.
FTP_USER = "anonymous"
FTP_PASSWORD = "guest"  # noqa: S105  # used without a contact address (RFC 1635)

_PORT = 21
_TYPE = re.compile(r";type=([aid])\Z", re.IGNORECASE)
_TOO_MANY_USERS = re.compile(rb"too many|maximum|limit|later|busy|full", re.IGNORECASE)


class FtpTarget(NamedTuple):
    """The parts of an FTP URL.

    *user* and *password* are None if the URL has none. *path* is decoded; *name* is its last
    segment, as written in the URL. *is_listing* tells whether the URL is a directory.
    """

    host: str
    port: int
    user: str | None
    password: str | None
    path: bytes
    name: str
    is_listing: bool


class FtpDownloadHandler(BaseDownloadHandler):
    """Scrapy's `DownloadHandlerProtocol` for ftp. Raises the exceptions of `outcomes`."""

    lazy = True

    def __init__(self, crawler: Crawler) -> None:
        """Create the handler from the settings of *crawler*.

        They are those of `FetchLimits` and `Dialer`, FTP_USER, FTP_PASSWORD and CRAWLER_CONTACT.
        Raises FatalError with one sentence for an invalid value.
        """
        super().__init__(crawler)
        settings = crawler.settings
        self.limits = FetchLimits.from_settings(settings)
        self.dialer = Dialer.from_crawler(crawler, self.limits)
        self.user = settings.get("FTP_USER") or FTP_USER
        self.password = (
            settings.get("FTP_PASSWORD") or settings.get("CRAWLER_CONTACT") or FTP_PASSWORD
        )

    async def download_request(self, request: Request) -> Response:
        """Fetch *request* once, and return the response that the module's docstring describes.

        Raises the exceptions of `outcomes`.
        """
        target = target_of(request.url)
        meta = request.meta
        user = meta.get("ftp_user") or target.user or self.user
        password = meta.get("ftp_password") or target.password or self.password
        content_type = CONTENT_TYPE if target.is_listing else type_of_name(unquote(target.name))

        async with contact_for(request, self.limits) as contact:
            self.limits.check_type(content_type, request)
            streams = await self.dialer.dial(target.host, target.port, open_streams)
            async with aclosing(Connection(streams, self.limits)) as control:
                ftp_fetch = _FtpFetch(
                    session=Session(control, self.dialer, self.limits),
                    target=target,
                    user=user.encode("utf-8", "replace"),
                    password=password.encode("utf-8", "replace"),
                    limit=limit_without_permit(request, self.limits.max_bytes),
                    contact=contact,
                )
                document = await ftp_fetch.fetch()
                if is_success(document.status):
                    document.content_type = content_type

        contact.check_loss(document, self.limits)
        return response_of(document, request, address=control.address, protocol="FTP")


@dataclass(slots=True, kw_only=True)
class _FtpFetch:
    """Fetches one document of at most *limit* bytes from *target*, over one control connection."""

    session: Session
    target: FtpTarget
    user: bytes
    password: bytes
    limit: int
    contact: PlainContact

    async def fetch(self) -> Document:
        """Log in, fetch the document, and return it; or return the server's refusal."""
        reply = await self.session.read_reply()
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
        """Fetch the target as a file; return a 301 if it is a directory."""
        target = self.target
        session = self.session
        await session.ask(b"TYPE", b"I")
        data = await session.data_connection()
        if isinstance(data, FtpReply):
            return _refusal(data)

        async with aclosing(data):
            reply = await session.ask(b"RETR", target.path)
            if reply.is_preliminary or reply.is_good:
                return await self._receive(data, reply)

        # 550: there is no such file, so it may be a directory.
        if reply.code == 550 and (await session.ask(b"CWD", target.path)).is_good:
            # With "./" in front, no part of the name is taken for a scheme or a host.
            return Document(status=301, reason=_text(reply), location=f"./{target.name}/")
        return _refusal(reply)

    async def _list(self) -> Document:
        """Fetch the listing of the directory, and return it as a page of links."""
        path = self.target.path
        session = self.session
        if path:
            # As an argument of the listing command, a name like -R would be an option.
            reply = await session.ask(b"CWD", path)
            if not reply.is_good:
                return _refusal(reply)

        data = await session.data_connection()
        if isinstance(data, FtpReply):
            return _refusal(data)

        async with aclosing(data):
            reply = await session.ask(b"MLSD")
            is_mlsd = not reply.is_unknown_command
            if not is_mlsd:
                reply = await session.ask(b"LIST")
            if not (reply.is_preliminary or reply.is_good):
                return _refusal(reply)
            document = await self._receive(data, reply)

        # The title names the host, as equal listings of two hosts are different pages: their links
        # differ.
        shown = path.decode("utf-8", "replace").strip("/")
        title = f"Index of /{shown} on {self.target.host}, port {self.target.port}"
        rows = map(row_of, entries(document.body, is_mlsd=is_mlsd))
        make_page(document, title, rows, limit=self.limit)
        return document

    async def _receive(self, data: Connection, reply: FtpReply) -> Document:
        """Receive a document over *data*, flagged if incomplete; *reply* is the last reply."""
        body, flags = await data.read_to_end(self.limit, self.contact)
        await data.aclose()
        # After a preliminary reply, another one tells whether the server has sent the whole file.
        # It is not needed for a body that was cut here, as that is flagged already.
        if reply.is_preliminary and not flags:
            try:
                reply = await self.session.read_reply()
            except outcomes.ConnectionLostError:
                reply = FtpReply(426, b"hung up before confirming the end of the file")
            if not reply.is_good:
                flags = ["dataloss"]
        return Document(status=200, reason=_text(reply), body=body, flags=flags)


def target_of(url: str) -> FtpTarget:
    """Parse the FTP URL *url*; raise BadUrlError if it cannot be requested."""
    parts, port, path = parts_of(url, _PORT)
    match = _TYPE.search(path)
    if match is not None:
        path = path[: match.start()]
    decoded = unquote_to_bytes(path[1:])
    if re.search(rb"[\r\n\0]", decoded):
        raise outcomes.BadUrlError(f"{url} has a line break in its path")
    is_listing = decoded[-1:] in (b"", b"/") or (match is not None and match[1] in "dD")
    return FtpTarget(
        host=parts.hostname or "",
        port=port,
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
        # A directory is named without its final slashes, but the root is named by one slash.
        path=(decoded.rstrip(b"/") or decoded[:1]) if is_listing else decoded,
        name=path.rpartition("/")[2],
        is_listing=is_listing,
    )


def _refusal(reply: FtpReply) -> Document:
    """Return the refusal *reply* as a document with an HTTP status."""
    return Document(status=_status_of(reply), reason=_text(reply))


def _status_of(reply: FtpReply) -> int:
    """Return the HTTP status for the refusal *reply*."""
    if reply.code in (530, 532):
        # Servers also use these codes for too many users, though there is 421 for that.
        return 503 if _TOO_MANY_USERS.search(reply.text) else 401
    if reply.code in (550, 553):
        return 404
    if reply.code in (331, 332):  # the server needs a password or an account
        return 401
    # Codes below 500 are temporary; 120 means that the server will be ready later.
    return 400 if reply.code >= 500 else 503


def _text(reply: FtpReply) -> str:
    """Return code and text of *reply*."""
    return f"{reply.code} {reply.text[:200].decode('utf-8', 'replace')}".strip()
