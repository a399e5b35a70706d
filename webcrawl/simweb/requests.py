"""HTTP request reader: the requests of one connection, from bytes in any pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import httptools

if TYPE_CHECKING:
    from collections.abc import Callable


class Request(NamedTuple):
    """One complete request. What is not HTTP is one with the method "-"."""

    start: float
    method: str = "-"
    target: str = "-"
    version: str = "-"
    host: str = "-"
    agent: str = ""
    referer: str = ""
    gzip: bool = False
    keep_alive: bool = False

    @property
    def is_bad(self) -> bool:
        """Whether it cannot be answered: not HTTP, without a path, or without a Host."""
        return not (self.host and self.target.startswith("/"))


class RequestReader:
    """Parser of one connection's requests, with the times when they were complete.

    After something that is not HTTP there is one request that `is_bad`; after that, or after a
    request that ends the connection, the rest is ignored.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._parser = httptools.HttpRequestParser(self)
        self._found: list[Request] = []
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._ended = False

    def feed(self, data: bytes) -> list[Request]:
        """The requests that *data*, the next bytes of the connection, completes."""
        self._found = []
        if not self._ended:
            try:
                self._parser.feed_data(data)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade):
                if not self._ended:
                    self._ended = True
                    self._found.append(Request(self._clock()))
        return self._found

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
        keep_alive = parser.should_keep_alive() and not parser.should_upgrade()
        self._ended = not keep_alive
        self._found.append(
            Request(
                self._clock(),
                parser.get_method().decode("ascii"),
                self._url.decode("latin-1"),
                parser.get_http_version(),
                headers.get(b"host", b"").decode("latin-1").lower(),
                headers.get(b"user-agent", b"").decode("latin-1"),
                headers.get(b"referer", b"").decode("latin-1"),
                b"gzip" in headers.get(b"accept-encoding", b""),
                keep_alive,
            )
        )
