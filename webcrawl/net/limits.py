"""The bounds of one fetch, read from the settings and checked.

Read when the handlers are built. Scrapy logs what a handler raises and goes on without it, so the
limits are read once more when a crawl starts, for a bad value to end it with a sentence.

Invariant: a `FetchLimits` that exists can work.
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

PLAIN_TO_TLS = 4  # one by http takes a thirtieth of the memory; the files open at once are bounded
#: Bytes of an answer's header, as Chromium: some sites send security policies of 10 kB.
MAX_HEADER_BYTES = 256 * 1024
#: Seconds for which a connection waits for another request to its host.
KEEPALIVE_SECS = 10.0
# Fields of one answer's header. As curl.
MAX_HEADER_FIELDS = 5_000
# As Common Crawl; and by profile, "a truncation threshold of 200 kilobytes".
_PAGE_BYTES = 5 << 20
_PAGE_BYTES_OF = {"nielsen": 200_000}
# Of open files, all that is neither a worker's nor idle. Most are 64 questions to name servers
# by TCP; after hours of crawling there were 40 besides (tests/extensions/test_process_limits.py
# counts the parts).
FIXED = 256


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Bounds of one fetch, and of the connections kept after it. Times in seconds.

    max_bytes: of a body, on the wire and decoded; the rest is cut off.
    total_timeout: for the whole fetch, unless the request says otherwise.
    connect_timeout: for each address that is tried, TLS handshake included.
    first_byte_timeout: from the request to the end of the answer's header.
    min_rate: bytes a second of a body, on the average of every window; 0 for any.
    rate_window: length of a window; the first begins when the header is there.
    keepalive: how long an idle connection waits for another request to its host.
    idle_connections: at most so many at once by https, and ``PLAIN_TO_TLS`` times as many by http.
    header_bytes: of a whole header, those of interim answers included.
    wanted, refused: the content types to receive, all if none is wanted, and those not to: media
        types, and beginnings of media types that end in a slash, in lower case.
    fail_on_dataloss: whether a fetch fails whose body ended early, if the request does not say.
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
        """How many connections may wait."""
        return {"https": self.idle_connections, "http": PLAIN_TO_TLS * self.idle_connections}

    def check_type(self, content_type: bytes, request: Request) -> None:
        """Raise UnwantedTypeError for a document of a type that is not wanted; a robots.txt may be
        of any. *content_type*: the header fields, joined by commas.

        One without a type, or with what is none, is wanted: most often that is HTML.
        """
        if not (self.wanted or self.refused) or is_for_robots(request):
            return
        kind, _ = content_type_of((content_type,))
        either = {kind, kind.partition("/")[0] + "/"}
        wanted = not self.wanted or not self.wanted.isdisjoint(either)
        if kind and not (wanted and self.refused.isdisjoint(either)):
            shown = content_type[:100].decode("latin-1")
            raise UnwantedTypeError(f"{shown} is not wanted")

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Read PAGE_MAX_BYTES, PAGE_*CONTENT_TYPES, DOWNLOAD_TIMEOUT, DOWNLOAD_FAIL_ON_DATALOSS and
        NET_*.

        Raises FatalError with one sentence for a value that cannot work.
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
                f"{setting} must name media types (text/html) or all of one kind "
                f"(text/), {name!r} is neither."
            )
    return frozenset(names)


def is_for_robots(request: Request) -> bool:
    """Whether *request* is for a robots.txt, half of which may permit what the other half forbids.

    By the crawl's own record of the fetch (webcrawl/crawl/lease/fetch.py), if it is the crawl's.
    """
    return bool(getattr(request.meta.get("fetch"), "robots_url", ""))


def is_last_of_host(request: Request) -> bool:
    """Whether no other request to the host of *request* waits; by the same record."""
    return bool(getattr(request.meta.get("fetch"), "is_last", False))


def page_max_bytes(settings: BaseSettings) -> int:
    """Return PAGE_MAX_BYTES, or that of the profile, which bounds a body on the wire, and once more
    when decoded."""
    if settings.get("PAGE_MAX_BYTES") is None:
        return _PAGE_BYTES_OF.get(settings.get("POLITENESS_PROFILE"), _PAGE_BYTES)
    return whole(settings, "PAGE_MAX_BYTES", at_least=1)


def most_open_files(settings: BaseSettings) -> int:
    """The most descriptors that a crawl with *settings* has open at once."""
    workers = whole(settings, "CONCURRENT_REQUESTS", at_least=1)
    idle = sum(FetchLimits.from_settings(settings).idle_by_scheme.values())
    return 2 * workers + idle + FIXED
