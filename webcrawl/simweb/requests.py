"""HTTP request reader: the requests of one connection, from bytes in any pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import httptools

if TYPE_CHECKING:
    from collections.abc import Callable


class Request(NamedTuple):
    """One complete request."""

    start: float
    method: str
    target: str
    version: str
    host: str
    agent: str
    referer: str
    gzip: bool
    keep_alive: bool

    @property
    def is_bad(self) -> bool:
        """Whether it cannot be answered: not HTTP, or HTTP/1.1 without a Host."""
        return self.method == "-" or (not self.host and self.version != "1.0")


class RequestReader:
    """Parser of one connection's requests; *received* gets each with the time when it was complete.

    After something that is not HTTP it passes one request that `is_bad`; after that, or after a
    request that ends the connection, it ignores the rest.
    """

    def __init__(
        self, *, clock: Callable[[], float], received: Callable[[Request], object]
    ) -> None:
        self._clock = clock
        self._received = received
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._ended = False

    def feed(self, data: bytes) -> None:
        """Take *data* as the next bytes of the connection."""
        if self._ended:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._ended = True  # answered as if it had not been asked for
        except httptools.HttpParserError:
            if not self._ended:
                self._ended = True
                bad = Request(
                    self._clock(), "-", "-", "-", "-", "", "", gzip=False, keep_alive=False
                )
                self._received(bad)

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers = {}

    def on_url(self, url: bytes) -> None:
        """Take a part of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_message_complete(self) -> None:
        if self._ended:
            return
        headers = self._headers
        parser = self._parser
        target = self._url.decode("latin-1")
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if not target.startswith("/"):
            target, host = _absolute_form(target, host)
        keep_alive = parser.should_keep_alive() and not parser.should_upgrade()
        self._ended = not keep_alive
        self._received(
            Request(
                self._clock(),
                parser.get_method().decode("ascii"),
                target,
                parser.get_http_version(),
                host,
                headers.get(b"user-agent", b"").decode("latin-1"),
                headers.get(b"referer", b"").decode("latin-1"),
                b"gzip" in headers.get(b"accept-encoding", b""),
                keep_alive,
            )
        )


def _absolute_form(target: str, host: str) -> tuple[str, str]:
    """Path and host of a request in absolute form (RFC 9112, section 3.2.2)."""
    try:
        parts = urlsplit(target)
    except ValueError:
        return target, ""
    if not parts.netloc:
        return target, host
    path = parts.path or "/"
    return f"{path}?{parts.query}" if parts.query else path, parts.netloc.lower()
