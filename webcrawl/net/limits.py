"""The bounds of one fetch, read from the settings and checked.

Called when the handlers are built. Scrapy logs what a handler raises and goes on without it, so
whoever starts a crawl reads the limits first, for a bad value to end the crawl with a sentence.

Invariant: a `FetchLimits` that exists can work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from webcrawl.setting_values import positive, whole

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# Defaults of the settings of the same names.
PAGE_MAX_BYTES = 5 * 2**20  # as Common Crawl cuts them since 2025
NET_CONNECT_TIMEOUT_SECS = 10.0
NET_KEEPALIVE_SECS = 10.0  # Apache hangs up after 5, nginx after 75
NET_KEEPALIVE_CONNECTIONS = 512
NET_MAX_HEADER_BYTES = 32 * 1024  # of one field: there are content security policies of 10 kB


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What one fetch may take, and what is kept after it. Times in seconds.

    max_bytes: of a body on the wire; the rest is cut off.
    total_timeout: for the whole fetch, unless the request says otherwise.
    connect_timeout: for each address that is tried, TLS handshake included.
    keepalive: how long an idle connection waits for another request to its host.
    idle_connections: at most so many at once.
    header_bytes: of one field of the header, and of the status line.
    """

    max_bytes: int
    total_timeout: float
    connect_timeout: float
    keepalive: float
    idle_connections: int
    header_bytes: int

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Read PAGE_MAX_BYTES, DOWNLOAD_TIMEOUT and NET_*.

        Raises FatalError with one sentence for a value that cannot work.
        """
        return cls(
            max_bytes=page_max_bytes(settings),
            total_timeout=positive(settings, "DOWNLOAD_TIMEOUT", 60.0),
            connect_timeout=positive(
                settings, "NET_CONNECT_TIMEOUT_SECS", NET_CONNECT_TIMEOUT_SECS
            ),
            keepalive=positive(settings, "NET_KEEPALIVE_SECS", NET_KEEPALIVE_SECS),
            idle_connections=whole(
                settings, "NET_KEEPALIVE_CONNECTIONS", NET_KEEPALIVE_CONNECTIONS, at_least=0
            ),
            # Less than this would refuse the headers of ordinary servers.
            header_bytes=whole(
                settings, "NET_MAX_HEADER_BYTES", NET_MAX_HEADER_BYTES, at_least=1024
            ),
        )


def page_max_bytes(settings: BaseSettings) -> int:
    """Return PAGE_MAX_BYTES, which bounds a body on the wire, and once more when decoded."""
    return whole(settings, "PAGE_MAX_BYTES", PAGE_MAX_BYTES, at_least=1)
