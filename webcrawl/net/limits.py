"""The limits of one fetch, read from the settings and checked.

They are read when the handlers are built. Scrapy logs what a handler raises and continues without
it. So the limits are read once more when a crawl starts, and an invalid value ends it with a
message.

Invariant: a `FetchLimits` that exists is valid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from webcrawl.configuration.memory_budget import size_of
from webcrawl.configuration.values import flag, number, positive, whole
from webcrawl.errors import FatalError
from webcrawl.net.content_type import content_type_of
from webcrawl.net.outcomes import UnwantedTypeError

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.settings import BaseSettings

HTTP_PER_HTTPS = 4  # an http connection takes a thirtieth of the memory, but also an open file
#: Bytes of an answer's header, as in Chromium: some sites send security policies of 10 kB.
MAX_HEADER_BYTES = 256 * 1024
#: Seconds for which an idle connection is kept for another request to its host.
KEEPALIVE_SECS = 10.0
# Fields of one answer's header, as in curl.
MAX_HEADER_FIELDS = 5_000
# As in Common Crawl; and per profile, "a truncation threshold of 200 kilobytes".
_PAGE_BYTES = 5 << 20
_PROFILE_PAGE_BYTES = {"nielsen": 200_000}
# Open files other than those of workers and idle connections. Up to 64 are for DNS over TCP; about
# 40 others were seen after hours of crawling (tests/extensions/test_process_limits.py counts them).
FIXED = 256


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits of one fetch, and of the connections kept after it. Times are in seconds.

    max_bytes: of a body, on the wire and decoded; the rest is cut off.
    total_timeout: for the whole fetch, unless the request has its own.
    connect_timeout: for each address that is tried, including the TLS handshake.
    first_byte_timeout: from the request to the end of the answer's header.
    min_rate: the minimum bytes per second of a body, averaged over each window; 0 for any.
    rate_window: length of a window; the first begins when the header is there.
    keepalive: how long an idle connection is kept for another request to its host.
    idle_connections: the most idle https connections; ``HTTP_PER_HTTPS`` times as many for http.
    header_bytes: of a whole header, including those of interim answers.
    wanted, refused: the content types to receive (empty: all), and those not to receive. They are
        media types, and beginnings of media types that end in a slash, in lower case.
    fail_on_dataloss: whether a fetch fails if its body ended early and the request does not say.
    """

    max_bytes: int
    total_timeout: float
    connect_timeout: float
    first_byte_timeout: float
    min_rate: float
    rate_window: float
    keepalive: float
    idle_connections: int
    header_bytes: int
    wanted: frozenset[str]
    refused: frozenset[str]
    fail_on_dataloss: bool

    @property
    def idle_by_scheme(self) -> dict[str, int]:
        """The most idle connections of each scheme."""
        return {"https": self.idle_connections, "http": HTTP_PER_HTTPS * self.idle_connections}

    def check_type(self, content_type: bytes, request: Request) -> None:
        """Raise UnwantedTypeError for a document of an unwanted type, unless it is a robots.txt.

        *content_type* has the header fields, joined by commas. A document without a valid type is
        wanted: usually it is HTML.
        """
        if not (self.wanted or self.refused) or is_for_robots(request):
            return
        kind, _ = content_type_of((content_type,))
        either = {kind, kind.partition("/")[0] + "/"}
        wanted = not self.wanted or not self.wanted.isdisjoint(either)
        if kind and not (wanted and self.refused.isdisjoint(either)):
            shown = content_type[:100].decode("latin-1")
            raise UnwantedTypeError(f"the content type {shown} is not wanted")

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Build from the settings; raise FatalError with one sentence for an invalid value.

        They are PAGE_MAX_BYTES, PAGE_*CONTENT_TYPES, DOWNLOAD_TIMEOUT, DOWNLOAD_FAIL_ON_DATALOSS
        and NET_*.
        """
        return cls(
            max_bytes=page_max_bytes(settings),
            total_timeout=positive(settings, "DOWNLOAD_TIMEOUT"),
            connect_timeout=positive(settings, "NET_CONNECT_TIMEOUT_SECS"),
            first_byte_timeout=positive(settings, "NET_FIRST_BYTE_TIMEOUT_SECS"),
            min_rate=number(settings, "NET_MIN_BYTES_PER_SEC", at_least=0),
            rate_window=positive(settings, "NET_MIN_RATE_SECS"),
            keepalive=KEEPALIVE_SECS,
            idle_connections=size_of(settings, "NET_KEEPALIVE_CONNECTIONS"),
            header_bytes=MAX_HEADER_BYTES,
            wanted=_types(settings, "PAGE_CONTENT_TYPES"),
            refused=_types(settings, "PAGE_REFUSED_CONTENT_TYPES"),
            fail_on_dataloss=flag(settings, "DOWNLOAD_FAIL_ON_DATALOSS"),
        )


def _types(settings: BaseSettings, setting: str) -> frozenset[str]:
    names = [str(name).strip().lower().removesuffix("*") for name in settings.getlist(setting)]
    for name in names:
        kind, slash, rest = name.partition("/")
        if not kind or not slash or "/" in rest or "*" in name:
            raise FatalError(
                f"{setting} must have media types (text/html) or all of one kind (text/), "
                f"not {name!r}."
            )
    return frozenset(names)


def is_for_robots(request: Request) -> bool:
    """Return whether *request* is for a robots.txt.

    It must be complete, as a part may permit what the rest forbids. The crawl's record of the fetch
    (webcrawl/crawl/lease/fetch.py) says so, if there is one.
    """
    return bool(getattr(request.meta.get("fetch"), "robots_url", ""))


def is_last_of_host(request: Request) -> bool:
    """Return whether no other request to the host of *request* waits, by the same record."""
    return bool(getattr(request.meta.get("fetch"), "is_last", False))


def page_max_bytes(settings: BaseSettings) -> int:
    """Return PAGE_MAX_BYTES, or the profile's default.

    It limits a body on the wire, and once more when decoded.
    """
    if settings.get("PAGE_MAX_BYTES") is None:
        return _PROFILE_PAGE_BYTES.get(settings.get("POLITENESS_PROFILE"), _PAGE_BYTES)
    return whole(settings, "PAGE_MAX_BYTES", at_least=1)


def most_open_files(settings: BaseSettings) -> int:
    """Return the most file descriptors that a crawl with *settings* opens at a time."""
    workers = whole(settings, "CONCURRENT_REQUESTS", at_least=1)
    idle = sum(FetchLimits.from_settings(settings).idle_by_scheme.values())
    return 2 * workers + idle + FIXED
