"""Outcomes of fetches: their names, the exceptions of the download handlers, and Retry-After.

Fetches are counted and retried (hosts/retry_policy.py) by these names. The exceptions are
subclasses of Scrapy's, so Scrapy's retry middleware and all errbacks handle them as usual.

Invariant: `outcome_of` always returns a name in OUTCOMES, or ``http_`` and three digits. The
outcome of an unknown failure is "other".
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
    """Base class of the exceptions of this module."""

    outcome: ClassVar[str]


class HostNotFoundError(FetchError, CannotResolveHostError):
    """The host name does not exist or has no address."""

    outcome = "dns_not_found"


class HostLookupError(FetchError, CannotResolveHostError):
    """The name servers returned no usable answer."""

    outcome = "dns_failed"


class ConnectRefusedError(FetchError, DownloadConnectionRefusedError):
    """The address refuses connections to that port."""

    outcome = "connect_refused"


class ConnectFailedError(FetchError, DownloadConnectionRefusedError):
    """The address cannot be reached: no route, not permitted, or too many files are open here."""

    outcome = "connect_failed"


class ConnectTimeoutError(FetchError, DownloadTimeoutError):
    """The connection was not established in time, or its TLS handshake was not completed."""

    outcome = "connect_timeout"


class FirstByteTimeoutError(FetchError, DownloadTimeoutError):
    """The header of the answer was not received in time after the request."""

    outcome = "first_byte_timeout"
    #: Whether the connection was kept from an earlier request. In that case this failure does not
    #: show whether the network works now.
    is_reused = False


class TooSlowError(FetchError, DownloadTimeoutError):
    """The body was received too slowly, and no part of it could be used."""

    outcome = "too_slow"


class TlsFailedError(FetchError, DownloadFailedError):
    """The TLS handshake failed, or a certificate that had to be verified is not valid."""

    outcome = "tls_failed"


class ConnectionLostError(FetchError, DownloadFailedError):
    """The server closed the connection before it had sent a complete header."""

    outcome = "connection_lost"
    #: Whether this was a connection kept from an earlier request, and no part of an answer was
    #: received. The server may have closed it before the request arrived, so the request may be
    #: sent again (RFC 9110, section 9.2.2).
    is_stale = False


class BadAnswerError(FetchError, DownloadFailedError):
    """The answer is not HTTP."""

    outcome = "bad_answer"


class HeaderTooLargeError(FetchError, DownloadFailedError):
    """The header has more bytes or fields than the limits allow."""

    outcome = "header_too_large"


class UnwantedTypeError(FetchError, DownloadCancelledError):
    """The answer has an unwanted content type; its body was not received. This is final."""

    outcome = "unwanted_type"


class ForbiddenAddressError(FetchError, DownloadCancelledError):
    """All addresses of the host are outside the public internet; see `guard`. This is final."""

    outcome = "address_forbidden"


class UnverifiedError(FetchError, DownloadCancelledError):
    """Credentials in a host policy were not sent, because the server or proxy is not verified.

    That is, the connection has no TLS, or the certificate is not valid.
    """

    outcome = "unverified"


class BadUrlError(FetchError, UnsupportedURLSchemeError):
    """No request can be made from the URL."""

    outcome = "bad_url"


#: Statuses whose Location is followed (Fetch Standard, "redirect status"). 300 may have one, too.
REDIRECTS = frozenset({301, 302, 303, 307, 308})
#: Statuses of permanent redirects (RFC 9110, section 15.4).
PERMANENT = frozenset({301, 308})


# Exceptions of Scrapy itself. The first match counts, so subclasses come before their bases.
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

#: Every outcome except ``http_NNN``, for documentation and tests.
OUTCOMES = frozenset(
    {"poison", "unreadable", "other", *WALLS}
    | {cls.outcome for cls in FetchError.__subclasses__()}
    | {outcome for _, outcome in _BY_CLASS}
)

# Failures to get a host's robots.txt after which no other request is sent to the host.
_HOST_FAILURES: dict[str, type[Exception]] = {
    "timeout": DownloadTimeoutError,
    "incomplete": ResponseDataLossError,
    "host_failing": DownloadFailedError,
    **{
        cls.outcome: cls
        for cls in FetchError.__subclasses__()
        if cls not in (UnwantedTypeError, BadUrlError)
    },
}

# The exceptions for system errors of connections. The first match counts.
_CONNECTION_FAILURES: tuple[tuple[type[OSError], type[Exception]], ...] = (
    (ConnectionRefusedError, ConnectRefusedError),
    (TimeoutError, ConnectTimeoutError),
    (ssl.SSLError, TlsFailedError),
    (ConnectionError, ConnectionLostError),  # reset or aborted: a server was there
    (OSError, ConnectFailedError),
)


def failure_of(error: OSError) -> type[Exception]:
    """Return the exception class of this module for *error*, which a connection raised."""
    return next(meaning for cls, meaning in _CONNECTION_FAILURES if isinstance(error, cls))


def errback_error(outcome: str) -> type[Exception]:
    """Return the exception class for the errback of a request not sent because of *outcome*.

    It is the failure that the request would have met, or IgnoreRequest if it was not allowed.
    """
    return _HOST_FAILURES.get(outcome, IgnoreRequest)


def outcome_of(result: Response | Failure | BaseException) -> str:
    """Return the outcome of a fetch that ended with *result*, such as ``http_200``."""
    if isinstance(result, Response):
        return f"http_{result.status}" if 100 <= result.status <= 999 else "bad_answer"
    error = result.value if isinstance(result, Failure) else result
    name = getattr(error, "outcome", None)
    if isinstance(name, str) and name in OUTCOMES:
        return name
    return next((name for cls, name in _BY_CLASS if isinstance(error, cls)), "other")


def is_document(outcome: str) -> bool:
    """Return whether *outcome* is a successful answer, whose body is a document."""
    return outcome.startswith("http_2")


def is_stale(result: object) -> bool:
    """Return whether *result* is the failure of a request on a kept, already closed connection."""
    return isinstance(result, ConnectionLostError) and result.is_stale


# Statuses of answers that may ask the crawler to wait.
_STATUSES = frozenset({429, 503})
# Number of digits that are read of a time in seconds; more would be longer than a lifetime.
_MAX_DIGITS = 12
# A longer value is not a date.
_MAX_LENGTH = 64


def retry_after(response: Response | None, *, now: float) -> float:
    """Return how many seconds *response*, a 429 or 503, asks to wait; 0.0 if it does not ask.

    *now* is in epoch seconds. If Retry-After is a date, it is compared with the Date of the answer
    if there is one, as the server's clock may be hours off.
    """
    if response is None or response.status not in _STATUSES:
        return 0.0

    value = (response.headers.get(b"Retry-After") or b"").strip()
    if value.isdigit():
        return float(value[:_MAX_DIGITS])
    until = http_date(value.decode("latin-1"))
    if until is None:
        return 0.0
    sent = http_date((response.headers.get(b"Date") or b"").decode("latin-1"))
    return max(0.0, until - (now if sent is None else sent))


def http_date(text: str) -> float | None:
    """Return the HTTP date *text*, in any of its forms, as epoch seconds; None if invalid."""
    if not text or len(text) > _MAX_LENGTH:
        return None
    try:
        date = parsedate_to_datetime(text)
        if date.tzinfo is None:
            date = date.replace(tzinfo=dt.UTC)
        return date.timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
