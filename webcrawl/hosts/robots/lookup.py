"""The way to the robots.txt of an origin (scheme, host, port) and the rules found there.

Asked by the host prelude for every URL that could be fetched now. robots.txt is fetched as an
ordinary contact of its host, under its politeness, while the URLs of that host wait in their
back-end queue without holding a worker (LARM's state machine; Mercator, section 3: the robots
exclusion cache of the HTTP module). A redirect to another host becomes an errand: an entry of that
host's own queue, in that host's turn.

The rules are kept by cache.py, over a restart too; a search that was under way begins anew.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING

from webcrawl.net.outcomes import REDIRECTS
from webcrawl.urls import SCHEMES, host_of, normalize, origin_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.http import Response

    from webcrawl.hosts.retry_policy import RetryPolicy
    from webcrawl.hosts.robots.cache import RobotsCache
    from webcrawl.hosts.robots.rules import Rules

# RFC 9309, 2.3.1.2: at least five consecutive redirects should be followed.
_MAX_REDIRECTS = 5
# Schemes with a robots.txt (RFC 9309, section 2.3).
_WITH_ROBOTS = ("http://", "https://", "ftp://")
# Unreachable origins of which the reason is remembered; the others are just unreachable.
_REASONS = 65_536
# Flags of an answer that ended before its end (net/http/handler.py).
_BROKEN_OFF = frozenset({"dataloss", "time"})
# An errand that has not come back after so many seconds got lost, as with a host that is excluded
# meanwhile: the search begins anew.
_ERRAND_SECS = 3600.0


class Finding(enum.Enum):
    """What is known of a URL's robots.txt."""

    ALLOWED = "the URL may be fetched"
    DENIED = "robots.txt denies the URL"
    UNREACHABLE = "the host does not even answer for robots.txt"
    UNKNOWN = "robots.txt must be fetched first"
    ELSEWHERE = "robots.txt is being fetched in another host's turn"


@dataclasses.dataclass(slots=True)
class _Search:
    """A robots.txt that is being looked for; *until* is when an errand is taken for lost."""

    url: str
    redirects: int = 0
    failures: int = 0
    until: float = 0.0


class RobotsSearch:
    """The rules of the origins met so far, and those being looked for. No I/O of its own.

    *refusal* says why a redirect is not followed to a URL, None if it is; *clock* gives epoch
    seconds. Searches are held in memory: as many as hosts are between their
    first contact and the answer for robots.txt, and those whose host ran into trouble there.
    """

    def __init__(
        self,
        *,
        robots: RobotsCache,
        refusal: Callable[[str], str | None],
        obey: bool,
        retries: RetryPolicy,
        clock: Callable[[], float],
    ) -> None:
        self._robots = robots
        self._refusal = refusal
        self._obey = obey
        self._retries = retries
        self._clock = clock
        self._searches: dict[str, _Search] = {}
        self._reasons: dict[str, str] = {}
        self.settled = 0  # origins whose robots.txt is known, or known not to be had

    def look(self, url: str) -> Finding:
        """Whether *url* may be fetched now."""
        if not self._obey or not url.startswith(_WITH_ROBOTS):
            return Finding.ALLOWED
        origin = origin_of(url)
        rules = self._robots.get(origin)
        if rules is None:
            search = self._searches.get(origin)
            if search is None or not search.until:
                return Finding.UNKNOWN
            if self._clock() < search.until:
                return Finding.ELSEWHERE
            del self._searches[origin]
            return Finding.UNKNOWN
        if rules.failed:
            return Finding.UNREACHABLE
        return Finding.ALLOWED if rules.allowed(url) else Finding.DENIED

    def reason(self, url: str) -> str:
        """Why the host of *url* is UNREACHABLE: the outcome of its last robots.txt."""
        return self._reasons.get(origin_of(url), "robots_unreachable")

    def crawl_delay(self, url: str) -> float:
        """Seconds that the robots.txt of *url*'s origin asks for between two contacts, the one
        known last: while it is fetched again its host is contacted, too."""
        rules = self._rules(url)
        return (rules.crawl_delay or 0.0) if rules is not None else 0.0

    def take_sitemaps(self, url: str) -> tuple[str, ...]:
        """The sitemaps that the robots.txt for *url* names if it was read since the last call."""
        return self._robots.take_sitemaps(origin_of(url))

    def decided_by(self, url: str) -> str:
        """The line of robots.txt that decides about *url*; "" when none does, or none is known."""
        rules = self._rules(url)
        return "" if rules is None else rules.decided_by(url)

    def _rules(self, url: str) -> Rules | None:
        if not self._obey or not url.startswith(_WITH_ROBOTS):
            return None
        return self._robots.last(origin_of(url))

    def errand(self, url: str) -> str:
        """The URL of the errand that brings the rules for *url*; "" when there is none."""
        search = self._searches.get(origin_of(url))
        return search.url if search is not None and search.until else ""

    def errand_secs(self, url: str) -> float:
        """For how many seconds the errand for *url* has been under way."""
        return self._clock() + _ERRAND_SECS - self._search(origin_of(url)).until

    def robots_url(self, url: str) -> str:
        """The robots.txt to fetch for *url*: its origin's, or where that one redirected to."""
        return self._search(origin_of(url)).url

    def answered(self, url: str, outcome: str, response: Response | None) -> str | None:
        """robots.txt for *url* was tried and ended in *outcome*, with *response* if any.

        A redirect within the host and a transient failure leave it open: the next turn of the
        host goes on from there. Returns the URL of an errand, to be fetched in the turn of its own
        host and answered here with the same *url*. A middleware that put another request in its
        place counts as a failure: where that one leads is unknown here.
        """
        origin = origin_of(url)
        search = self._search(origin)
        if response is not None and _is_half(response):
            # Half a file allows too much.
            response, outcome = None, "incomplete"
        if response is not None and response.status in REDIRECTS:
            target = _redirected_to(search, response)
            if target is not None and self._refusal(target) is None:
                search.url = target
                search.redirects += 1
                return self._sent(search, origin)
        elif search.failures < self._tries_after(outcome):
            search.failures += 1
            return self._sent(search, origin)
        del self._searches[origin]
        self.settled += 1
        if response is not None:
            self._robots.put(origin, response.status, response.body)
            self._reasons.pop(origin, None)
            return None
        self._robots.put(origin, None)
        self._reasons[origin] = outcome
        if len(self._reasons) > _REASONS:
            del self._reasons[next(iter(self._reasons))]
        return None

    def _tries_after(self, outcome: str) -> int:
        return self._retries.times if outcome == "replaced" else self._retries.rule(outcome).tries

    def _search(self, origin: str) -> _Search:
        if origin not in self._searches:
            self._searches[origin] = _Search(f"{origin}/robots.txt")
        return self._searches[origin]

    def _sent(self, search: _Search, origin: str) -> str | None:
        """The errand that *search* now needs, if the next step is another host's."""
        if host_of(search.url) == host_of(origin):
            search.until = 0.0
            return None
        search.until = self._clock() + _ERRAND_SECS
        return search.url


def _is_half(response: Response) -> bool:
    """Whether *response* was broken off, on the way or in decoding what was packed."""
    if _BROKEN_OFF.intersection(response.flags):
        return True
    request = response.request
    # Where nothing could be decoded the body is what came, most often plain text.
    packed = request is not None and "wire_body" in request.meta
    return packed and "undecodable" in response.flags


def _redirected_to(search: _Search, response: Response) -> str | None:
    """Where to look next; None when that is nowhere, or too far.

    Such an origin counts as one without rules (RFC 9309, section 2.3.1.2).
    """
    location = response.headers.get(b"Location")
    if not location or search.redirects >= _MAX_REDIRECTS:
        return None
    target = normalize(location.strip(), search.url, schemes=SCHEMES)
    return target if target is not None and target.startswith(_WITH_ROBOTS) else None
