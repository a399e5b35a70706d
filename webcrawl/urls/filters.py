"""The filters that a link must pass before the eliminator sees it.

Each filter is a small object with a name and one question; a ``FilterChain`` asks them in order and
counts refusals by name. The names are the last part of the stats ``urls/refused/<name>``. Filters
keep no state, so a link that was refused once is refused again.

There are five kinds of question, by what they need to know: the URL and its depth, the segments of
its path, its query, the server it names, or the hosts at both ends of the link. A path is cut into
segments once for all filters, and only if one of them may refuse so many. A server's answer is
remembered when it is good, since links repeat their servers: so thousands of rules about hosts cost
nothing for most links.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, TypeAlias, runtime_checkable

from webcrawl.urls.host import host_of
from webcrawl.urls.normalizer import HTTP_SCHEMES

if TYPE_CHECKING:
    from collections.abc import Sequence

_CACHED_SERVERS: Final = 1 << 15
_LONGEST_CACHED: Final = 300
_NO_SERVER: Final = "\n"  # no URL begins so

# Before the first segment are the scheme, an empty part and the host.
_SLASHES: Final = 2

_PORT: Final = re.compile(r"[a-z]+://(?:\[[^\]/?#]*\]|[^:/?#]*):([0-9]{1,5})(?=[/?#]|\Z)")


@runtime_checkable
class UrlFilter(Protocol):
    """One reason to leave a URL alone. ``url`` is normalized, so its length in characters is its
    length in bytes; ``depth`` is the number of links from the seed.

    Where a look at all links of a page costs less than one at each, a filter has a method
    ``may_refuse(urls, depth)`` too, and is not asked about any of them if that is False."""

    name: ClassVar[str]

    def refuses(self, url: str, depth: int) -> bool: ...


@runtime_checkable
class PathFilter(Protocol):
    """One reason that lies in the path. ``segments`` are what stands between its slashes, in lower
    case; the last is empty if the path ends with a slash. A filter that refuses no path of
    ``only_above`` segments or less is not asked about those."""

    name: ClassVar[str]

    @property
    def only_above(self) -> int: ...

    def refuses_path(self, segments: list[str]) -> bool: ...


@runtime_checkable
class QueryFilter(Protocol):
    """One reason that lies in the query, without its question mark; URLs without one are not asked
    about. ``segments`` as for a PathFilter."""

    name: ClassVar[str]

    def refuses_query(self, segments: list[str], query: str) -> bool: ...


@runtime_checkable
class ServerFilter(Protocol):
    """One reason to leave all URLs of a server alone; ``host`` is as ``host_of`` gives it, ``port``
    None for the one that belongs to the scheme. Once it has let a server pass, it may not be asked
    about it again."""

    name: ClassVar[str]

    def refuses_server(self, scheme: str, host: str, port: int | None) -> bool: ...


@runtime_checkable
class LinkFilter(Protocol):
    """One reason to leave a link to another host alone. ``page_host`` is the host of the page with
    the link; a seed has none, and is not asked about."""

    name: ClassVar[str]

    def refuses_link(self, host: str, page_host: str) -> bool: ...


Filter: TypeAlias = UrlFilter | PathFilter | QueryFilter | ServerFilter | LinkFilter


@dataclass(slots=True, frozen=True)
class SchemeFilter:
    """Refuses URLs that no download handler of this crawl can fetch."""

    name: ClassVar[str] = "scheme"
    schemes: frozenset[str]

    def refuses_server(self, scheme: str, host: str, port: int | None) -> bool:  # noqa: ARG002  part of the protocol
        return scheme not in self.schemes


@dataclass(slots=True, frozen=True)
class LengthFilter:
    """Refuses URLs of more than ``max_bytes``: beyond 2 kB they are traps or session state."""

    name: ClassVar[str] = "length"
    max_bytes: int

    def refuses(self, url: str, depth: int) -> bool:  # noqa: ARG002  part of the protocol
        return len(url) > self.max_bytes

    def may_refuse(self, urls: Sequence[str], depth: int) -> bool:  # noqa: ARG002  part of the protocol
        return max(map(len, urls), default=0) > self.max_bytes


@dataclass(slots=True, frozen=True)
class DepthFilter:
    """Refuses URLs more than ``max_depth`` links from the seed."""

    name: ClassVar[str] = "depth"
    max_depth: int

    def refuses(self, url: str, depth: int) -> bool:  # noqa: ARG002  part of the protocol
        return depth > self.max_depth

    def may_refuse(self, urls: Sequence[str], depth: int) -> bool:  # noqa: ARG002  part of the protocol
        return depth > self.max_depth


class FilterChain:
    """Asks its filters in order; the first that refuses decides.

    First those about the server, then those about URL, link, path and query; among each kind in the
    order given. ``refused`` counts by filter name since the chain was built.
    """

    def __init__(self, filters: Sequence[Filter]) -> None:
        self.refused: Counter[str] = Counter()
        self._of_servers = tuple(
            (one.name, one.refuses_server) for one in filters if isinstance(one, ServerFilter)
        )
        self._of_urls = tuple(
            (getattr(one, "may_refuse", None), one.name, one.refuses)
            for one in filters
            if isinstance(one, UrlFilter)
        )
        self._of_paths = tuple(
            (one.only_above, one.name, one.refuses_path)
            for one in filters
            if isinstance(one, PathFilter)
        )
        self._of_queries = tuple(
            (one.name, one.refuses_query) for one in filters if isinstance(one, QueryFilter)
        )
        fewest = min((fewest for fewest, _, _ in self._of_paths), default=1 << 32)
        self._fewest_slashes = fewest + _SLASHES
        self._of_links = tuple(
            (one.name, one.refuses_link) for one in filters if isinstance(one, LinkFilter)
        )
        # Hosts of servers that passed, by what their URLs begin with: http://a.test:81/
        self._passed: dict[str, str] = {}

    def refusal(self, url: str, depth: int, page_host: str = "") -> str | None:
        """Name of the filter that refuses *url* at *depth*, None when all let it pass.

        *page_host* is the host of the page that links to it, empty for a seed.
        """
        return self.refusals((url,), depth, page_host)[0]

    def refusals(self, urls: Sequence[str], depth: int, page_host: str = "") -> list[str | None]:
        """``refusal`` of each of *urls*: the links of a page at once, for two thirds of what a call
        for each costs. 1.3 µs a link with the filters that are on by default, 1.9 µs with a
        whitelist of a million domains and thousands of names of segments and extensions too; each
        setting of regular expressions adds 0.5 µs."""
        passed = self._passed
        of_urls = [
            (name, refuses)
            for may_refuse, name, refuses in self._of_urls
            if may_refuse is None or may_refuse(urls, depth)
        ]
        fewest_slashes = self._fewest_slashes
        always = fewest_slashes <= _SLASHES
        of_links = self._of_links if page_host else ()
        answers: list[str | None] = []
        server, host = _NO_SERVER, ""
        for url in urls:
            why = None
            # Most links of a page are to one server.
            if not url.startswith(server):
                server = url[: url.find("/", 8) + 1] or _NO_SERVER
                known = passed.get(server)
                if known is None:
                    host = host_of(url)
                    why = self._server_refusal(url, host, server)
                    if why is not None:
                        server = _NO_SERVER
                else:
                    host = known
            if why is None:
                for name, refuses in of_urls:
                    if refuses(url, depth):
                        why = name
                        break
                else:
                    if of_links and host != page_host:
                        why = self._link_refusal(host, page_host)
                    if why is None and (always or "?" in url or url.count("/") > fewest_slashes):
                        why = self._path_refusal(url)
            if why is not None:
                self.refused[why] += 1
            answers.append(why)
        return answers

    def _server_refusal(self, url: str, host: str, server: str) -> str | None:
        if self._of_servers:
            found = _PORT.match(url)
            port = None if found is None else int(found[1])
            scheme = url.partition(":")[0]
            for name, refuses_server in self._of_servers:
                if refuses_server(scheme, host, port):
                    return name
        if server != _NO_SERVER and len(server) <= _LONGEST_CACHED:
            if len(self._passed) >= _CACHED_SERVERS:
                self._passed.clear()
            self._passed[server] = host
        return None

    def _path_refusal(self, url: str) -> str | None:
        query = ""
        if "?" in url:
            url, _, query = url.partition("?")
        # A normalized URL has a path, what a spider may bring need not.
        segments = url.lower().split("/")[_SLASHES + 1 :] or [""]
        count = len(segments)
        for fewest, name, refuses_path in self._of_paths:
            if count > fewest and refuses_path(segments):
                return name
        if query:
            for name, refuses_query in self._of_queries:
                if refuses_query(segments, query):
                    return name
        return None

    def _link_refusal(self, host: str, page_host: str) -> str | None:
        for name, refuses_link in self._of_links:
            if refuses_link(host, page_host):
                return name
        return None


def standard_filters(
    *, max_bytes: int, max_depth: int, schemes: frozenset[str] = HTTP_SCHEMES
) -> FilterChain:
    """The chain that URL_MAX_LENGTH_BYTES and URL_MAX_DEPTH describe; 0 means no limit."""
    filters: list[Filter] = [SchemeFilter(schemes)]
    if max_bytes > 0:
        filters.append(LengthFilter(max_bytes))
    if max_depth > 0:
        filters.append(DepthFilter(max_depth))
    return FilterChain(filters)
