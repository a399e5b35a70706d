"""robots.txt lookup: finds the rules of an origin (scheme, host, port), fetching them if needed.

A robots.txt is fetched as an ordinary contact of its host, with the usual pauses, while the URLs of
that host wait in their back-end queue without holding a worker. A redirect to another host becomes
an entry in that host's queue. After a restart, a search that was under way starts over.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
from scrapy.http import Response
from scrapy.utils.datatypes import LocalCache

from webcrawl.clock import TimeSource
from webcrawl.hosts.retry_policy import RetryPolicy
from webcrawl.hosts.robots.grammar import MAX_BYTES
from webcrawl.hosts.robots.rules import is_file
from webcrawl.hosts.robots.rules_cache import RobotsCache
from webcrawl.net.http.decoding import BROKEN, decode
from webcrawl.net.outcomes import REDIRECTS
from webcrawl.rights.statements import Statement
from webcrawl.urls import SCHEMES, host_of, normalize, origin_of

# RFC 9309, 2.3.1.2: at least five consecutive redirects should be followed.
_MAX_REDIRECTS = 5
#: Beginnings of URLs whose origins have a robots.txt (RFC 9309, section 2.3).
WITH_ROBOTS = ("http://", "https://", "ftp://")
# Number of origins of which the last request is remembered, and of those of which the reason is
# remembered why they are unreachable. For others the reason is just that.
_REMEMBERED_ORIGINS = 65_536
#: Reason why a redirect is not followed: another process is responsible for its target.
ON_REMOTE_HOST = "elsewhere"
_UNREACHABLE = "robots_unreachable"
# Flags of an answer that is incomplete (net/http/handler.py).
_INCOMPLETE_FLAGS = frozenset({"dataloss", "time"})
_GZIP_MAGIC = b"\x1f\x8b\x08"
# Minimum number of seconds between two requests for an origin's robots.txt, unless the last answer
# was a redirect or a temporary failure. It keeps a lost answer from causing a storm of requests.
_FLOOR_SECS = 60.0
# A redirect of robots.txt to another host that has no answer after this many seconds counts as
# lost, for example because that host was excluded in the meantime. The search then starts over.
_REDIRECT_SECS = 3600.0


class RobotsStatus(enum.Enum):
    """The verdict of robots.txt on a URL, or the reason why there is no verdict yet."""

    ALLOWED = "the URL may be fetched"
    DENIED = "robots.txt denies the URL"
    UNREACHABLE = "the host does not even answer for robots.txt"
    UNKNOWN = "robots.txt must be fetched first"
    ON_REMOTE_HOST = "robots.txt is being fetched in another host's turn"
    TOO_SOON = "robots.txt was asked for a moment ago"


class RobotsFinding(msgspec.Struct, frozen=True, gc=False):
    """The verdict on a URL, and the line of robots.txt that decides it; "" if no line does.

    *statements* are those about the use of the URL; only crawls with a purpose have any.
    """

    status: RobotsStatus
    line: str = ""
    statements: Sequence[Statement] = ()


class _Search(msgspec.Struct, gc=False):
    """A robots.txt that is being fetched from *url*, after some *redirects* and *failures*.

    *until* is when a redirect to another host counts as lost; 0.0 if it is on the same host.
    """

    url: str
    redirects: int = 0
    failures: int = 0
    until: float = 0.0


@dataclass(kw_only=True, eq=False)
class RobotsSearch:
    """The rules of all known origins, and the searches under way. It does no I/O itself.

    *refusal* is called with the target of a redirect, and returns why it is not followed, or None
    if it is. If the reason is ON_REMOTE_HOST, the target may forbid anything, so the origin counts
    as unreachable; with any other reason it counts as having no rules. If *obey* is false,
    robots.txt is ignored. *owner_allows* returns whether the owner of a URL's host has agreed to
    ignore its Crawl-delay. *path* is that of the file: robots.txt, or one fetched in the same way.
    Searches are held in memory: one for each host between its first contact
    and the answer for robots.txt, and those that met with redirects or failures.
    """

    cache: RobotsCache
    refusal: Callable[[str], str | None]
    obey: bool
    retries: RetryPolicy
    clock: TimeSource
    owner_allows: Callable[[str], bool] = lambda _: False
    path: str = "/robots.txt"
    # The searches under way, by origin.
    _searches: dict[str, _Search] = field(default_factory=dict, init=False)
    # Outcomes of the last requests to origins that are unreachable.
    _reasons: LocalCache[str, str] = field(
        default_factory=lambda: LocalCache(_REMEMBERED_ORIGINS), init=False
    )
    # When robots.txt was last requested from an origin, by *clock*.
    _asked: LocalCache[str, float] = field(
        default_factory=lambda: LocalCache(_REMEMBERED_ORIGINS), init=False
    )

    def verdict_on(self, url: str) -> RobotsFinding:
        """Return whether robots.txt allows *url*, or why that is not known yet."""
        if not self.obey or not url.startswith(WITH_ROBOTS):
            return RobotsFinding(RobotsStatus.ALLOWED)
        origin = origin_of(url)
        rules = self.cache.get(origin)
        if rules is None:
            search = self._searches.get(origin)
            if search is not None and search.until:
                if self.clock() < search.until:
                    return RobotsFinding(RobotsStatus.ON_REMOTE_HOST)
                del self._searches[origin]  # the redirect counts as lost: start over
            is_too_soon = self.floor_secs(url) > 0
            return RobotsFinding(RobotsStatus.TOO_SOON if is_too_soon else RobotsStatus.UNKNOWN)
        if rules.failed:
            return RobotsFinding(RobotsStatus.UNREACHABLE)
        allow, line = rules.decide(url)
        status = RobotsStatus.ALLOWED if allow else RobotsStatus.DENIED
        return RobotsFinding(status, line, self.cache.statements(url, line))

    def reason(self, url: str) -> str:
        """Return the outcome of the last request for the robots.txt of *url*, now UNREACHABLE."""
        return self._reasons.get(origin_of(url), _UNREACHABLE)

    def crawl_delay(self, url: str) -> float:
        """Return the last known Crawl-delay for *url*, in seconds; 0.0 if there is none.

        It also applies while robots.txt is fetched again.
        """
        if not self.obey or not url.startswith(WITH_ROBOTS):
            return 0.0
        if self.owner_allows(url):
            return 0.0
        rules = self.cache.last_rules(origin_of(url))
        return (rules.crawl_delay or 0.0) if rules is not None else 0.0

    def forgive(self, url: str) -> None:
        """Let an unreachable robots.txt of the origin of *url* be fetched again immediately."""
        self.cache.forgive(origin_of(url))

    def take_sitemaps(self, url: str) -> tuple[str, ...]:
        """Return the sitemaps in the robots.txt for *url*, if it was read since the last call."""
        return self.cache.take_sitemaps(origin_of(url))

    def robots_redirect(self, url: str) -> str:
        """Return the URL on another host where the rules for *url* are being fetched, or ""."""
        search = self._searches.get(origin_of(url))
        return search.url if search is not None and search.until else ""

    def robots_redirect_secs(self, url: str) -> float:
        """Return for how many seconds the rules for *url* have been fetched from another host."""
        # *until* was set to _REDIRECT_SECS after the redirect.
        return self.clock() + _REDIRECT_SECS - self._search(origin_of(url)).until

    def note_request(self, url: str) -> None:
        """Record that robots.txt for *url* was requested just now."""
        origin = origin_of(url)
        self._asked[origin] = self.clock()
        self._asked.move_to_end(origin)

    def floor_secs(self, url: str) -> float:
        """Return in how many seconds robots.txt for *url* may be requested again, 0.0 for now."""
        origin = origin_of(url)
        search = self._searches.get(origin)
        if search is not None and (search.redirects or search.failures):
            return 0.0  # the last answer requires another step
        floor = min(_FLOOR_SECS, self.cache.shortest_secs)
        return max(0.0, self._asked.get(origin, -math.inf) + floor - self.clock())

    def robots_url(self, url: str) -> str:
        """Return the robots.txt to fetch next for *url*: its origin's, or a redirect's target."""
        return self._search(origin_of(url)).url

    def note_answer(
        self, url: str, outcome: str, response: Response | None, *, is_final: bool = False
    ) -> str | None:
        """Record that fetching robots.txt for *url* ended in *outcome*, with *response* if any.

        After a redirect within the host, or a temporary failure, the search continues with the next
        contact of the host; with *is_final* a failure ends it. Returns None, or the URL of a
        redirect to another host: it must be fetched from that host's queue, and its answer is
        recorded here for the same *url*. If a middleware replaced the request, that counts as a
        failure, as its target is unknown here.
        """
        origin = origin_of(url)
        search = self._search(origin)
        body = b""
        if response is not None and is_file(response.status):
            body, is_complete = _file_in(response)
            if not is_complete:  # an incomplete file allows too much
                response = None
                outcome = "incomplete"

        if response is not None and response.status in REDIRECTS:
            target = _redirect_target(search, response)
            # None if the redirect is followed, "" if it leads nowhere.
            refusal = "" if target is None else self.refusal(target)
            if target is not None and refusal is None:
                search.url = target
                search.redirects += 1
                return self._remote_url(search, origin)
            if refusal == ON_REMOTE_HOST:
                response = None
                outcome = _UNREACHABLE
        elif not is_final and search.failures < self._tries_after(outcome):
            search.failures += 1
            return self._remote_url(search, origin)

        # The search is over.
        del self._searches[origin]
        if response is not None:
            # A redirect that was not followed counts as an answer without a file.
            self.cache.put(origin, response.status, body)
            self._reasons.pop(origin, None)
            return None

        self.cache.put(origin, None)
        self._reasons[origin] = outcome
        return None

    def _tries_after(self, outcome: str) -> int:
        """Return how often robots.txt is fetched again after failures with this *outcome*."""
        return self.retries.times if outcome == "replaced" else self.retries.rule(outcome).tries

    def _search(self, origin: str) -> _Search:
        """Return the search for the robots.txt of *origin*; begin one if there is none."""
        if origin not in self._searches:
            self._searches[origin] = _Search(f"{origin}{self.path}")
        return self._searches[origin]

    def _remote_url(self, search: _Search, origin: str) -> str | None:
        """Return the next URL of *search* if it is on another host than *origin*, else None.

        Also sets until when an answer of the other host is awaited.
        """
        if host_of(search.url) == host_of(origin):
            search.until = 0.0
            return None
        search.until = self.clock() + _REDIRECT_SECS
        return search.url


def _file_in(response: Response) -> tuple[bytes, bool]:
    """Return the file in *response*, and whether it is complete, in transfer and in decoding.

    It is decompressed even if the header does not say that it is compressed.
    """
    body = response.body
    is_broken = BROKEN in response.flags
    if body.startswith(_GZIP_MAGIC):
        body, _, damage = decode(body, [b"gzip"], limit=MAX_BYTES + 1)
        is_broken = bool(damage)
    return body, not is_broken and _INCOMPLETE_FLAGS.isdisjoint(response.flags)


def _redirect_target(search: _Search, response: Response) -> str | None:
    """Return the URL to which *response* redirects *search*; None if it leads nowhere.

    That is also the case after too many redirects. The origin then counts as having no rules (RFC
    9309, section 2.3.1.2).
    """
    location = response.headers.get(b"Location")
    if not location or search.redirects >= _MAX_REDIRECTS:
        return None
    target = normalize(location.strip(), search.url, schemes=SCHEMES)
    return target if target is not None and target.startswith(WITH_ROBOTS) else None
