"""What must be known of a host before a page of it is asked for: its robots.txt.

The scheduler asks ``decide`` for every URL it is about to hand out. While the rules of an origin
(scheme, host, port) are unknown, robots.txt is fetched as an ordinary contact of the host, under
its politeness, and its URLs wait in their back-end queue without holding a worker (LARM's state
machine; Mercator, section 3: the robots exclusion cache of the HTTP module).

Not kept over a restart: the rules are fetched again, politely.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING

from webcrawl.net.outcomes import is_transient
from webcrawl.urls import host_of, normalize, origin_of

if TYPE_CHECKING:
    from scrapy.http import Response

    from webcrawl.robots.cache import RobotsCache

# RFC 9309, 2.3.1.2: at least five consecutive redirects should be followed.
_MAX_REDIRECTS = 5
# Only these schemes have a robots.txt; a spider's own Requests may have others.
_HTTP = ("http://", "https://")
# Unreachable origins of which the reason is remembered; the others are just unreachable.
_REASONS = 65_536


class Verdict(enum.Enum):
    """What to do with a URL that could be fetched now."""

    FETCH = "fetch"
    FETCH_ROBOTS = "fetch its robots.txt first"
    DENIED = "denied by robots.txt"
    UNREACHABLE = "the host does not even answer for robots.txt"


@dataclasses.dataclass(slots=True)
class _Pending:
    """A robots.txt that is being looked for."""

    url: str
    redirects: int = 0
    failures: int = 0


class HostPrelude:
    """The rules of the origins met so far, and those being looked for. No I/O of its own."""

    def __init__(self, *, robots: RobotsCache, obey: bool, retry_times: int) -> None:
        self._robots = robots
        self._obey = obey
        self._retry_times = retry_times
        self._pending: dict[str, _Pending] = {}
        self._reasons: dict[str, str] = {}
        self.settled = 0  # origins whose robots.txt is known, or known not to be had

    def decide(self, url: str) -> Verdict:
        """Whether *url* may be fetched now."""
        if not self._obey or not url.startswith(_HTTP):
            return Verdict.FETCH
        rules = self._robots.get(origin_of(url))
        if rules is None:
            return Verdict.FETCH_ROBOTS
        if rules.failed:
            return Verdict.UNREACHABLE
        return Verdict.FETCH if rules.allowed(url) else Verdict.DENIED

    def outcome(self, url: str) -> str:
        """Why the host of *url* is UNREACHABLE: the outcome of its last robots.txt."""
        return self._reasons.get(origin_of(url), "robots_unreachable")

    def crawl_delay(self, url: str) -> float:
        """Seconds that the robots.txt of *url*'s origin asks for between two contacts."""
        if not self._obey:
            return 0.0
        rules = self._robots.get(origin_of(url))
        return (rules.crawl_delay or 0.0) if rules is not None else 0.0

    def robots_url(self, url: str) -> str:
        """The robots.txt to fetch for *url*: its origin's, or where that one redirected to."""
        origin = origin_of(url)
        if origin not in self._pending:
            self._pending[origin] = _Pending(f"{origin}/robots.txt")
        return self._pending[origin].url

    def answered(self, url: str, outcome: str, response: Response | None) -> None:
        """robots.txt for *url* was tried and ended in *outcome*, with *response* if any.

        A redirect within the host and a transient failure leave it pending: the next turn of the
        host goes on from there. A middleware that put another request in its place counts as
        such a failure: where that one leads is unknown here.
        """
        origin = origin_of(url)
        pending = self._pending.setdefault(origin, _Pending(f"{origin}/robots.txt"))
        if response is not None and 300 <= response.status < 400:
            target = self._redirected_to(pending, response)
            if target is not None:
                pending.url = target
                pending.redirects += 1
                return
        elif (
            is_transient(outcome) or outcome == "replaced"
        ) and pending.failures < self._retry_times:
            pending.failures += 1
            return
        del self._pending[origin]
        self.settled += 1
        if response is not None:
            self._robots.put(origin, response.status, response.body)
            self._reasons.pop(origin, None)
            return
        self._robots.put(origin, None)
        self._reasons[origin] = outcome
        if len(self._reasons) > _REASONS:
            del self._reasons[next(iter(self._reasons))]

    @staticmethod
    def _redirected_to(pending: _Pending, response: Response) -> str | None:
        """Where to look next; None when the redirect leads to another host or too far.

        Another host's robots.txt would be a contact of that host, out of its turn. Such an
        origin counts as one without rules (RFC 9309 allows that for what cannot be followed);
        its pages redirect as well, and their targets answer to their own robots.txt.
        """
        location = response.headers.get(b"Location")
        if not location or pending.redirects >= _MAX_REDIRECTS:
            return None
        target = normalize(location.strip(), pending.url)
        if target is None:
            return None
        return target if host_of(target) == host_of(pending.url) else None
