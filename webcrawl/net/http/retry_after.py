"""The Retry-After field: how long a server wants no requests (RFC 9110, section 10.2.3).

Called after every contact (crawl/lease/host_release.py). The invariant: whatever the field says,
the answer is a finite number of seconds, not below 0; the caller bounds it.
"""

from __future__ import annotations

import datetime as dt
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy.http import Response

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
