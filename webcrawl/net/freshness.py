"""How long, and for which pages, stored answers may be used (RFC 9111, and RFC 9110, 15.1)."""

from __future__ import annotations

from typing import NamedTuple

from webcrawl.net.outcomes import http_date

# Statuses of answers that may be used without explicit freshness (RFC 9110, section 15.1), and for
# how many seconds; maximum of all answers.
_HEURISTIC = frozenset({200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501})
_HEURISTIC_SECS = 3600.0
_MAX_SECS = 30 * 86_400.0
# The same for preflights, as in Chromium (Fetch Standard, CORS-preflight cache).
_PREFLIGHT_SECS = 5.0
_MAX_PREFLIGHT_SECS = 7200.0


class Freshness(NamedTuple):
    """Use of an answer.

    until: when it gets stale, epoch seconds; 0 if it is from the beginning.
    is_shared: whether it may serve another page than the one for which it was requested.
    is_for_all: whether pages of all origins get the same.
    """

    until: float
    is_shared: bool
    is_for_all: bool


def fields_of(headers: list[tuple[str, str]]) -> dict[str, str]:
    """Return *headers* by lower-case name; repeated fields are joined."""
    fields: dict[str, str] = {}
    for spelling, value in headers:
        name = spelling.lower()
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return fields


def freshness_of(
    status: int, headers: list[tuple[str, str]], now: float, *, is_preflight: bool
) -> Freshness:
    """Return how an answer with *status* and *headers*, which came at *now*, may be used."""
    fields = fields_of(headers)
    control = {
        name.strip().lower(): value.strip('" ')
        for name, _, value in (
            part.partition("=") for part in fields.get("cache-control", "").split(",")
        )
    }
    varies = {name.strip().lower() for name in fields.get("vary", "").split(",")}
    # A server may name the asking origin and forget Vary.
    is_for_all = fields.get("access-control-allow-origin") == "*" and "origin" not in varies
    is_shared = "*" not in varies and not control.keys() & {"no-store", "private"}
    if is_preflight:
        # HTTP caches do not store answers to OPTIONS, so Cache-Control and Vary do not apply.
        # Browsers store them for the time in a field of its own (Fetch Standard).
        is_shared = True
        max_age = _number(fields.get("access-control-max-age", ""))
        secs = _PREFLIGHT_SECS if max_age is None else min(max_age, _MAX_PREFLIGHT_SECS)
    elif is_shared and "no-cache" not in control:
        secs = min(_lifetime(status, control, fields, now), _MAX_SECS)
    else:
        secs = 0.0
    return Freshness(now + secs if secs > 0 else 0.0, is_shared, is_for_all)


def _lifetime(status: int, control: dict[str, str], fields: dict[str, str], now: float) -> float:
    """Return for how many more seconds an answer is fresh (RFC 9111, section 4.2)."""
    date = http_date(fields.get("date", "")) or now
    # The seconds that it was in caches on its way, if the clocks agree: section 4.2.3.
    age = max(_number(fields.get("age", "")) or 0.0, now - date)
    for name in ("s-maxage", "max-age"):
        if name in control:
            return (_number(control[name]) or 0.0) - age
    if "expires" in fields:
        return (http_date(fields["expires"]) or 0.0) - date - age
    return _HEURISTIC_SECS if status in _HEURISTIC or "public" in control else 0.0


def _number(text: str) -> float | None:
    return float(text) if text.isdecimal() and len(text) < 12 else None
