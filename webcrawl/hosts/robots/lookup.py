"""robots.txt lookup: the rules of an origin (scheme, host, port), fetched if need be.

robots.txt is fetched as an ordinary contact of its host, under its politeness, while the URLs of
that host wait in their back-end queue without holding a worker. A redirect to another host becomes
an entry of that host's own queue. After a restart a search that was under way begins anew.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections import OrderedDict
from typing import TYPE_CHECKING

import msgspec

from webcrawl.hosts.robots.rules import is_file
from webcrawl.net.http.decoding import BROKEN
from webcrawl.net.outcomes import REDIRECTS
from webcrawl.urls import SCHEMES, host_of, normalize, origin_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.http import Response

    from webcrawl.clock import TimeSource
    from webcrawl.hosts.retry_policy import RetryPolicy
    from webcrawl.hosts.robots.rules_cache import RobotsCache

# RFC 9309, 2.3.1.2: at least five consecutive redirects should be followed.
_MAX_REDIRECTS = 5
# Schemes with a robots.txt (RFC 9309, section 2.3).
_WITH_ROBOTS = ("http://", "https://", "ftp://")
# Unreachable origins of which the reason is remembered; the others are just unreachable.
_REASONS = 65_536
#: The reason for which a redirect is not followed whose rules are not looked up here.
ON_REMOTE_HOST = "elsewhere"
_UNREACHABLE = "robots_unreachable"
# Flags of an answer that ended before its end (net/http/handler.py).
_BROKEN_OFF = frozenset({"dataloss", "time"})
# An origin is asked for its robots.txt again no sooner, whatever is known of it, unless its last
# answer was a redirect or a failure that may pass: rules that get lost must not become a storm.
_FLOOR_SECS = 60.0
# A robots redirect that has not come back after so many seconds is lost, as when its host is
# excluded meanwhile: the search begins anew.
_REDIRECT_SECS = 3600.0


class RobotsStatus(enum.Enum):
    """Verdict of robots.txt on a URL, or the reason why there is none."""

    ALLOWED = "the URL may be fetched"
    DENIED = "robots.txt denies the URL"
    UNREACHABLE = "the host does not even answer for robots.txt"
    UNKNOWN = "robots.txt must be fetched first"
    ON_REMOTE_HOST = "robots.txt is being fetched in another host's turn"
    TOO_SOON = "robots.txt was asked for a moment ago"


class RobotsFinding(msgspec.Struct, frozen=True, gc=False):
    """Verdict on a URL, and the line of its robots.txt that says so; "" if none does."""

    status: RobotsStatus
    line: str = ""


class _Search(msgspec.Struct, gc=False):
    """A robots.txt that is being fetched; *until* is when a redirect's entry counts as lost."""

    url: str
    redirects: int = 0
    failures: int = 0
    until: float = 0.0


@dataclasses.dataclass(kw_only=True, eq=False)
class RobotsSearch:
    """The rules of the origins met so far, and the searches under way. No I/O of its own.

    *refusal* gives the reason for which a redirect to a URL is not followed, None if it is. What is
    ELSEWHERE may forbid anything, so its origin counts as unreachable; any other, as none.
    The Crawl-delay is none for a URL whose host's *owner_allows* more.
    Searches are held in memory: one for each host between its first contact and the answer for
    robots.txt, and those whose host ran into trouble there.
    """

    robots: RobotsCache
    refusal: Callable[[str], str | None]
    obey: bool
    retries: RetryPolicy
    clock: TimeSource
    owner_allows: Callable[[str], bool] = lambda _: False
    #: Origins whose robots.txt is known, or known not to be had.
    settled: int = dataclasses.field(default=0, init=False)
    _searches: dict[str, _Search] = dataclasses.field(default_factory=dict, init=False)
    _reasons: OrderedDict[str, str] = dataclasses.field(default_factory=OrderedDict, init=False)
    # When origins were last asked for their robots.txt, by *clock*.
    _asked: OrderedDict[str, float] = dataclasses.field(default_factory=OrderedDict, init=False)

    def look(self, url: str) -> RobotsFinding:
        """Whether *url* may be fetched now."""
        if not self.obey or not url.startswith(_WITH_ROBOTS):
            return RobotsFinding(RobotsStatus.ALLOWED)
        origin = origin_of(url)
        rules = self.robots.get(origin)
        if rules is None:
            search = self._searches.get(origin)
            if search is not None and search.until:
                if self.clock() < search.until:
                    return RobotsFinding(RobotsStatus.ON_REMOTE_HOST)
                del self._searches[origin]
            is_too_soon = self.floor_secs(url) > 0
            return RobotsFinding(RobotsStatus.TOO_SOON if is_too_soon else RobotsStatus.UNKNOWN)
        if rules.failed:
            return RobotsFinding(RobotsStatus.UNREACHABLE)
        allow, line = rules.decide(url)
        return RobotsFinding(RobotsStatus.ALLOWED if allow else RobotsStatus.DENIED, line)

    def reason(self, url: str) -> str:
        """The outcome of the last robots.txt for the host of *url*, which is UNREACHABLE."""
        return self._reasons.get(origin_of(url), _UNREACHABLE)

    def crawl_delay(self, url: str) -> float:
        """The Crawl-delay in seconds for *url*'s origin, the last one known: while robots.txt is
        fetched again its host is contacted, too."""
        if not self.obey or not url.startswith(_WITH_ROBOTS):
            return 0.0
        if self.owner_allows(url):
            return 0.0
        rules = self.robots.last(origin_of(url))
        return (rules.crawl_delay or 0.0) if rules is not None else 0.0

    def forgive(self, url: str) -> None:
        """As ``RobotsCache.forgive``, for the origin of *url*."""
        self.robots.forgive(origin_of(url))

    def take_sitemaps(self, url: str) -> tuple[str, ...]:
        """The sitemaps that the robots.txt for *url* names if it was read since the last call."""
        return self.robots.take_sitemaps(origin_of(url))

    def robots_redirect(self, url: str) -> str:
        """The URL on another host at which the rules for *url* are being fetched; "" if there is
        none."""
        search = self._searches.get(origin_of(url))
        return search.url if search is not None and search.until else ""

    def robots_redirect_secs(self, url: str) -> float:
        """The seconds for which the robots redirect of *url* has been under way."""
        return self.clock() + _REDIRECT_SECS - self._search(origin_of(url)).until

    def asked(self, url: str) -> None:
        """robots.txt for *url* was asked for just now."""
        origin = origin_of(url)
        self._asked[origin] = self.clock()
        self._asked.move_to_end(origin)
        if len(self._asked) > _REASONS:
            self._asked.popitem(last=False)

    def floor_secs(self, url: str) -> float:
        """The seconds until robots.txt for *url*, which is not known, may be asked for again."""
        origin = origin_of(url)
        search = self._searches.get(origin)
        if search is not None and (search.redirects or search.failures):
            return 0.0  # its answer asks for another step
        floor = min(_FLOOR_SECS, self.robots.shortest_secs)
        return max(0.0, self._asked.get(origin, -math.inf) + floor - self.clock())

    def robots_url(self, url: str) -> str:
        """The robots.txt to fetch for *url*: its origin's, or where that one redirected to."""
        return self._search(origin_of(url)).url

    def answered(
        self, url: str, outcome: str, response: Response | None, *, is_final: bool = False
    ) -> str | None:
        """Take in that robots.txt for *url* ended in *outcome*, with *response* if any.

        After a redirect within the host and a transient failure that is not *is_final* the search
        goes on with the next contact of the host. Returns the URL of a robots redirect, to be
        fetched from its own host's queue and answered here with the same *url*. A request that a
        middleware put in its place counts as a failure, as its target is unknown here.
        """
        origin = origin_of(url)
        search = self._search(origin)
        if response is not None and is_file(response.status) and _is_half(response):
            # Half a file allows too much.
            response, outcome = None, "incomplete"
        if response is not None and response.status in REDIRECTS:
            target = _redirected_to(search, response)
            refusal = "" if target is None else self.refusal(target)
            if target is not None and refusal is None:
                search.url = target
                search.redirects += 1
                return self._sent(search, origin)
            if refusal == ON_REMOTE_HOST:
                response, outcome = None, _UNREACHABLE
        elif not is_final and search.failures < self._tries_after(outcome):
            search.failures += 1
            return self._sent(search, origin)
        del self._searches[origin]
        self.settled += self.robots.facts(origin) is None
        if response is not None:
            self.robots.put(origin, response.status, response.body)
            self._reasons.pop(origin, None)
            return None
        self.robots.put(origin, None)
        self._reasons[origin] = outcome
        if len(self._reasons) > _REASONS:
            self._reasons.popitem(last=False)
        return None

    def _tries_after(self, outcome: str) -> int:
        return self.retries.times if outcome == "replaced" else self.retries.rule(outcome).tries

    def _search(self, origin: str) -> _Search:
        if origin not in self._searches:
            self._searches[origin] = _Search(f"{origin}/robots.txt")
        return self._searches[origin]

    def _sent(self, search: _Search, origin: str) -> str | None:
        """The entry that *search* now needs, if the next step is another host's."""
        if host_of(search.url) == host_of(origin):
            search.until = 0.0
            return None
        search.until = self.clock() + _REDIRECT_SECS
        return search.url


def _is_half(response: Response) -> bool:
    """Whether *response* was broken off, in transfer or in decoding."""
    flags = response.flags
    if not flags:
        return False
    if _BROKEN_OFF.intersection(flags):
        return True
    return BROKEN in flags


def _redirected_to(search: _Search, response: Response) -> str | None:
    """The URL of the next step; None if that is nowhere, or too far.

    Such an origin counts as one without rules (RFC 9309, section 2.3.1.2).
    """
    location = response.headers.get(b"Location")
    if not location or search.redirects >= _MAX_REDIRECTS:
        return None
    target = normalize(location.strip(), search.url, schemes=SCHEMES)
    return target if target is not None and target.startswith(_WITH_ROBOTS) else None
