"""Outcomes of fetches: their names, the exceptions of the download handlers, and Retry-After.

Fetches are counted and tried again (hosts/retry_policy.py) by these names. The exceptions refine
those of Scrapy, so that Scrapy's retry middleware and any errback treat them as usual.

Invariant: `outcome_of` returns a name of OUTCOMES or ``http_`` and three digits, whatever it is
given; an unforeseen failure is "other".
"""

from __future__ import annotations

import datetime as dt
import ssl
from email.utils import parsedate_to_datetime
from typing import ClassVar

from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    NotSupported,
    ResponseDataLossError,
    StopDownload,
    UnsupportedURLSchemeError,
)
from scrapy.http import Response
from twisted.python.failure import Failure

from webcrawl.net.walls import WALLS


class FetchError(Exception):
    """Base of the exceptions of this module."""

    outcome: ClassVar[str]


class HostNotFoundError(FetchError, CannotResolveHostError):
    """The name does not exist or has no address."""

    outcome = "dns_not_found"


class HostLookupError(FetchError, CannotResolveHostError):
    """The name servers gave no usable answer."""

    outcome = "dns_failed"


class ConnectRefusedError(FetchError, DownloadConnectionRefusedError):
    """The address refuses connections to that port."""

    outcome = "connect_refused"


class ConnectFailedError(FetchError, DownloadConnectionRefusedError):
    """No way to that address: unreachable, forbidden, or no descriptor left here."""

    outcome = "connect_failed"


class ConnectTimeoutError(FetchError, DownloadTimeoutError):
    """The connection, or its TLS handshake, was not there in time."""

    outcome = "connect_timeout"


class FirstByteTimeoutError(FetchError, DownloadTimeoutError):
    """The header of the answer was not there in time after the request."""

    outcome = "first_byte_timeout"
    #: Whether the connection was kept from an earlier request, and says nothing of the network now.
    is_reused = False


class TooSlowError(FetchError, DownloadTimeoutError):
    """The body came at less than the lowest rate that is borne, and nothing of it was there."""

    outcome = "too_slow"


class TlsFailedError(FetchError, DownloadFailedError):
    """The TLS handshake failed, or a certificate that was to be verified is not valid."""

    outcome = "tls_failed"


class ConnectionLostError(FetchError, DownloadFailedError):
    """The server hung up before a whole header."""

    outcome = "connection_lost"
    #: Whether nothing of an answer came over a connection kept from an earlier request, which the
    #: server may have closed before it got this one: the request may be sent again (RFC 9110,
    #: section 9.2.2).
    is_stale = False


class BadAnswerError(FetchError, DownloadFailedError):
    """The answer is not HTTP."""

    outcome = "bad_answer"


class HeaderTooLargeError(FetchError, DownloadFailedError):
    """The header has more bytes or fields than the bounds allow."""

    outcome = "header_too_large"


class UnwantedTypeError(FetchError, DownloadCancelledError):
    """The answer is of a content type that is not wanted; its body was not received. Final."""

    outcome = "unwanted_type"


class ForbiddenAddressError(FetchError, DownloadCancelledError):
    """The host has only addresses that are not of the public internet: see `guard`. Final."""

    outcome = "address_forbidden"


class BadUrlError(FetchError, UnsupportedURLSchemeError):
    """No request can be made of this URL."""

    outcome = "bad_url"


#: Statuses whose Location is followed (Fetch Standard, "redirect status"); 300 may have one, too.
REDIRECTS = frozenset({301, 302, 303, 307, 308})
#: Moved for good (RFC 9110, section 15.4); all others may lead elsewhere tomorrow.
PERMANENT = frozenset({301, 308})


# Exceptions of Scrapy itself, the first that fits. Subclasses stand before their bases.
_BY_CLASS: tuple[tuple[type[BaseException], str], ...] = (
    (DownloadTimeoutError, "timeout"),
    (CannotResolveHostError, "dns_failed"),
    (DownloadConnectionRefusedError, "connect_refused"),
    (ResponseDataLossError, "incomplete"),
    (DownloadCancelledError, "too_large"),
    (DownloadFailedError, "connection_lost"),
    (UnsupportedURLSchemeError, "bad_url"),
    (NotSupported, "bad_url"),
    (StopDownload, "stopped"),
    (IgnoreRequest, "ignored"),
    (TimeoutError, "timeout"),
)

#: Every outcome but ``http_NNN``, for documentation and tests.
OUTCOMES = frozenset(
    {"poison", "unreadable", "other", *WALLS}
    | {cls.outcome for cls in FetchError.__subclasses__()}
    | {outcome for _, outcome in _BY_CLASS}
)

# Failures for which a request may not even be sent, as its host's robots.txt has met them.
_OF_HOSTS: dict[str, type[Exception]] = {
    "timeout": DownloadTimeoutError,
    "incomplete": ResponseDataLossError,
    "host_failing": DownloadFailedError,
    **{
        cls.outcome: cls
        for cls in FetchError.__subclasses__()
        if cls not in (UnwantedTypeError, BadUrlError)
    },
}

# What the system says of connections, the first that fits.
_OF_CONNECTIONS: tuple[tuple[type[OSError], type[Exception]], ...] = (
    (ConnectionRefusedError, ConnectRefusedError),
    (TimeoutError, ConnectTimeoutError),
    (ssl.SSLError, TlsFailedError),
    (ConnectionError, ConnectionLostError),  # reset or aborted: a server was there
    (OSError, ConnectFailedError),
)


def failure_of(error: OSError) -> type[Exception]:
    """Return the exception of this module for an *error* of a connection."""
    return next(meaning for cls, meaning in _OF_CONNECTIONS if isinstance(error, cls))


def error_of(outcome: str) -> type[Exception]:
    """Return what an errback is to get for a request that was not sent because of *outcome*: the
    failure that sending it would have met, IgnoreRequest if it was not allowed."""
    return _OF_HOSTS.get(outcome, IgnoreRequest)


def outcome_of(result: Response | Failure | BaseException) -> str:
    """Return the name of how a fetch ended, ``http_200`` and the like for any response."""
    if isinstance(result, Response):
        return f"http_{result.status}" if 100 <= result.status <= 999 else "bad_answer"
    error = result.value if isinstance(result, Failure) else result
    name = getattr(error, "outcome", None)
    if isinstance(name, str) and name in OUTCOMES:
        return name
    return next((name for cls, name in _BY_CLASS if isinstance(error, cls)), "other")


def is_document(outcome: str) -> bool:
    """Return whether *outcome* is that of a document: an answer of success, as ``is_success``."""
    return outcome.startswith("http_2")


def is_stale(result: object) -> bool:
    """Return whether a request failed because the server had closed a kept connection."""
    return isinstance(result, ConnectionLostError) and result.is_stale


# Answers that come with a wish to be left alone.
_STATUSES = frozenset({429, 503})
# More digits of seconds than anybody lives to see.
_MAX_DIGITS = 12
# Longer values are no dates.
_MAX_LENGTH = 64


def retry_after(response: Response | None, *, now: float) -> float:
    """Seconds from *now*, epoch seconds, that a 429 or 503 asks for; 0 without such a wish.

    A date is taken relative to the answer's own Date where it has one: the server's clock may be
    hours off, and what counts is what it meant.
    """
    if response is None or response.status not in _STATUSES:
        return 0.0
    value = (response.headers.get(b"Retry-After") or b"").strip()
    if value.isdigit():
        return float(value[:_MAX_DIGITS])
    until = _epoch(value)
    if until is None:
        return 0.0
    sent = _epoch(response.headers.get(b"Date") or b"")
    return max(0.0, until - (now if sent is None else sent))


def _epoch(value: bytes) -> float | None:
    """An HTTP date in any of its three forms as epoch seconds; None if it is none."""
    if not value or len(value) > _MAX_LENGTH:
        return None
    try:
        date = parsedate_to_datetime(value.decode("ascii"))
        if date.tzinfo is None:
            date = date.replace(tzinfo=dt.UTC)
        return date.timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
