"""Explains outcomes of URLs in words: what happened, and whose fault it is."""

from __future__ import annotations

from http import HTTPStatus

from webcrawl.doctor.history import kind_of
from webcrawl.net.outcomes import FetchError

#: Outcomes of URLs that were not requested, because of other failures.
NOT_SENT = ("host_failing", "robots_unreachable")
_MEANINGS = {
    **{error.outcome: error.__doc__ or "" for error in FetchError.__subclasses__()},
    "timeout": "The download took longer than DOWNLOAD_TIMEOUT.",
    "incomplete": "The connection ended within the body.",
    "unreadable": "The body could not be decoded.",
    "host_failing": "Not sent, because the host failed too often in a row.",
    "robots_unreachable": "Not sent, because robots.txt could not be fetched.",
    "excluded": "A command or a setting excludes it from this crawl.",
    "robots_denied": "robots.txt denies it to the crawler.",
    "challenged": "The server sent a challenge for browsers.",
    "walled": "The server sent a login or consent page.",
    "soft_error": "The server sent an error page with status 200.",
}
_WHOSE = {
    "name servers": "the host's name servers, or yours (DNS_SERVERS) if most hosts fail",
    "connections": "the server, or your network if most hosts fail",
    "server errors": "the server",
    "refused": "the server, which refuses this crawler",
}


def meaning_of(outcome: str) -> str:
    """Return a sentence about *outcome*; "" if there is none.

    >>> meaning_of("http_503"), meaning_of("dns_failed")
    ('Service Unavailable.', 'The name servers returned no usable answer.')
    """
    code = outcome.removeprefix("http_")
    if code.isdecimal() and int(code) in [*HTTPStatus]:
        return f"{HTTPStatus(int(code)).phrase}."
    return _MEANINGS.get(outcome, "").partition("\n")[0]


def whose_fault(outcome: str) -> str:
    """Return whose fault *outcome* is; "" if the URL did not fail."""
    return _WHOSE.get(kind_of(outcome), "")
