"""The limits of one fetch, read from the settings and checked.

They are read when the download handlers are built. If a handler raises an error then, Scrapy logs
it and continues without the handler. So the limits are read once more when a crawl starts, and an
invalid value ends the crawl with a message.

Invariant: a `FetchLimits` that exists is valid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from scrapy import Request
from scrapy.settings import BaseSettings

from webcrawl.configuration.memory_budget import size_of
from webcrawl.configuration.values import flag, number, positive_number, whole_number, words
from webcrawl.errors import FatalError
from webcrawl.net.content_type import content_type_of
from webcrawl.net.outcomes import UnwantedTypeError

#: Number of idle http connections per idle https connection. An http connection takes a thirtieth
#: of the memory, but just as well an open file.
HTTP_PER_HTTPS = 4
# The default limit of a page, as in Common Crawl, and the limits of politeness profiles: "a
# truncation threshold of 200 kilobytes" (Nielsen).
_PAGE_BYTES = 5 << 20
_PROFILE_PAGE_BYTES = {"nielsen": 200_000}
# Number of open files in addition to those of workers and idle connections. Up to 64 are for DNS
# over TCP. About 40 others were open after hours of crawling
# (tests/extensions/test_process_limits.py counts them).
FIXED = 256


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits of one fetch, and of the connections kept after it. Times are in seconds.

    max_bytes: limit of a body, both on the wire and decoded; longer bodies are cut.
    total_timeout: limit for the whole fetch, unless the request has its own.
    connect_timeout: limit for each address that is tried, including the TLS handshake.
    first_byte_timeout: limit from sending the request to the end of the answer's header.
    min_rate: the minimum bytes per second of a body, averaged over each window; 0 for no minimum.
    rate_window: length of a window; the first one begins when the header has been received.
    idle_connections: maximum number of idle https connections; ``HTTP_PER_HTTPS`` times as many for
        http.
    wanted, refused: the content types to receive (empty: all), and those not to receive. They are
        media types, or the part of a media type up to its slash, in lower case.
    fail_on_dataloss: whether a fetch fails if its body ended early, unless the request has a value
        of its own.
    """

    max_bytes: int
    total_timeout: float
    connect_timeout: float
    first_byte_timeout: float
    min_rate: float
    rate_window: float
    idle_connections: int
    wanted: frozenset[str]
    refused: frozenset[str]
    fail_on_dataloss: bool

    @property
    def idle_by_scheme(self) -> dict[str, int]:
        """Maximum number of idle connections, by scheme."""
        return {"https": self.idle_connections, "http": HTTP_PER_HTTPS * self.idle_connections}

    def check_type(self, content_type: bytes, request: Request) -> None:
        """Raise UnwantedTypeError for a document of an unwanted type, unless it is a robots.txt.

        *content_type* contains the Content-Type header fields, joined by commas. A document without
        a valid type is wanted: usually it is HTML.
        """
        if not (self.wanted or self.refused) or is_for_robots(request):
            return

        media_type, _ = content_type_of((content_type,))
        matching = {media_type, media_type.partition("/")[0] + "/"}
        is_wanted = not self.wanted or not self.wanted.isdisjoint(matching)
        if media_type and not (is_wanted and self.refused.isdisjoint(matching)):
            shown = content_type[:100].decode("latin-1")
            raise UnwantedTypeError(f"the content type {shown} is not wanted")

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Read the limits from *settings*; raise FatalError with one sentence for an invalid value.

        The settings are PAGE_MAX_BYTES, PAGE_*CONTENT_TYPES, DOWNLOAD_TIMEOUT,
        DOWNLOAD_FAIL_ON_DATALOSS and NET_*.
        """
        return cls(
            max_bytes=page_max_bytes(settings),
            total_timeout=positive_number(settings, "DOWNLOAD_TIMEOUT"),
            connect_timeout=positive_number(settings, "NET_CONNECT_TIMEOUT_SECS"),
            first_byte_timeout=positive_number(settings, "NET_FIRST_BYTE_TIMEOUT_SECS"),
            min_rate=number(settings, "NET_MIN_BYTES_PER_SEC", at_least=0),
            rate_window=positive_number(settings, "NET_MIN_RATE_SECS"),
            idle_connections=size_of(settings, "NET_KEEPALIVE_CONNECTIONS"),
            wanted=_types(settings, "PAGE_CONTENT_TYPES"),
            refused=_types(settings, "PAGE_REFUSED_CONTENT_TYPES"),
            fail_on_dataloss=flag(settings, "DOWNLOAD_FAIL_ON_DATALOSS"),
        )


def _types(settings: BaseSettings, setting: str) -> frozenset[str]:
    """Return the content types in *setting*; raise FatalError if one of them is not valid."""
    names = [word.lower().removesuffix("*") for word in words(settings, setting)]
    for name in names:
        main_type, slash, subtype = name.partition("/")
        if not main_type or not slash or "/" in subtype or "*" in name:
            raise FatalError(
                f"{setting} must contain media types (text/html) or beginnings of them (text/), "
                f"not {name!r}."
            )
    return frozenset(names)


def is_for_robots(request: Request) -> bool:
    """Return whether *request* is for a robots.txt.

    Such a file must be complete, as a part of it may permit what the rest forbids. The answer is
    taken from the crawl's record of the fetch (webcrawl/crawl/lease/fetch.py), if there is one.
    """
    return bool(getattr(request.meta.get("fetch"), "robots_url", ""))


def is_last_of_host(request: Request) -> bool:
    """Return whether no other URL of the host of *request* waits, according to the same record."""
    return bool(getattr(request.meta.get("fetch"), "is_last", False))


def page_max_bytes(settings: BaseSettings) -> int:
    """Return PAGE_MAX_BYTES, or the default of the politeness profile.

    It limits a body both on the wire and decoded.
    """
    if settings.get("PAGE_MAX_BYTES") is None:
        return _PROFILE_PAGE_BYTES.get(settings.get("POLITENESS_PROFILE"), _PAGE_BYTES)
    return whole_number(settings, "PAGE_MAX_BYTES", at_least=1)


def most_open_files(settings: BaseSettings) -> int:
    """Return the maximum number of files that a crawl with *settings* has open at a time."""
    workers = whole_number(settings, "CONCURRENT_REQUESTS", at_least=1)
    idle = sum(FetchLimits.from_settings(settings).idle_by_scheme.values())
    # Two per worker: an FTP fetch has a control connection and a data connection.
    return 2 * workers + idle + FIXED
