"""The filters that a link must pass before the eliminator sees it.

Each filter is a small object with a name and one question; a ``FilterChain`` asks them in order and
counts refusals by name. The names are the last part of the stats ``urls/refused/<name>``. Filters
keep no state, so a link that was refused once is refused again.

There are six kinds of question, by what they need to know: the URL and its depth, the URL alone for
a regular expression, the segments of its path, its query, the server it names, or the hosts at both
ends of the link. A path is cut into segments once for all filters, and only if one of them may
refuse so many. What let a server or a URL pass is remembered, since links repeat both: almost four
links in five are to one of the last 50,000 URLs (Broder, Najork and Wiener, "Efficient URL
Caching"). So thousands of rules cost nothing for most links.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, TypeAlias, runtime_checkable

from webcrawl.urls.host import host_of
from webcrawl.urls.normalizer import HTTP_SCHEMES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_CACHED_SERVERS: Final = 1 << 15
_CACHED_URLS: Final = 1 << 15
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


@runtime_checkable
class ExpressionFilter(Protocol):
    """One reason that is a regular expression. ``match`` is a method of the compiled expression, so
    that nothing stands between it and the chain; refused is a URL for which it finds something if
    ``refuses_found``, otherwise one for which it finds nothing. ``may_refuse`` as for a
    UrlFilter."""

    name: ClassVar[str]
    refuses_found: ClassVar[bool]

    @property
    def match(self) -> Callable[[str], re.Match[str] | None]: ...


_Expressions: TypeAlias = "list[tuple[str, Callable[[str], re.Match[str] | None], bool]]"
Filter: TypeAlias = (
    UrlFilter | PathFilter | QueryFilter | ServerFilter | LinkFilter | ExpressionFilter
)


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

    First those about the server, then those about URL, expressions, path, query and link; among
    each kind in the order given. ``refused`` counts by filter name since the chain was built. A URL
    that has passed may not be asked about again but by those filters that know the depth or both
    ends of the link. What is remembered takes 30 MB at most, with names of 250 characters, and
    typically 5.
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
        self._of_expressions = tuple(
            (getattr(one, "may_refuse", None), one.name, one.match, one.refuses_found)
            for one in filters
            if isinstance(one, ExpressionFilter)
        )
        of_paths = [one for one in filters if isinstance(one, PathFilter)]
        self._of_short_paths = tuple(
            (one.name, one.refuses_path) for one in of_paths if not one.only_above
        )
        self._of_paths = tuple((one.only_above, one.name, one.refuses_path) for one in of_paths)
        self._fewest = min((one.only_above for one in of_paths if one.only_above), default=1 << 32)
        self._of_queries = tuple(
            (one.name, one.refuses_query) for one in filters if isinstance(one, QueryFilter)
        )
        self._of_links = tuple(
            (one.name, one.refuses_link) for one in filters if isinstance(one, LinkFilter)
        )
        # Hosts of servers that passed, by what their URLs begin with: http://a.test:81/
        self._servers: dict[str, str] = {}
        # Hosts of URLs that passed all but the filters that know more than the URL.
        self._urls: dict[str, str] = {}

    def refusal(self, url: str, depth: int, page_host: str = "") -> str | None:
        """Name of the filter that refuses *url* at *depth*, None when all let it pass.

        *page_host* is the host of the page that links to it, empty for a seed.
        """
        return self.refusals((url,), depth, page_host)[0]

    def refusals(self, urls: Sequence[str], depth: int, page_host: str = "") -> list[str | None]:
        """``refusal`` of each of *urls*: the links of a page at once, for half of what a call for
        each costs. 0.8 µs a link with the filters that are on by default, 1.8 µs with a whitelist
        of a million domains, thousands of names of segments and extensions, and expressions too;
        2.3 and 3.5 µs a link to a URL that has not come lately."""
        of_urls = [
            (name, refuses)
            for may_refuse, name, refuses in self._of_urls
            if may_refuse is None or may_refuse(urls, depth)
        ]
        of_links = self._of_links if page_host else ()
        known = self._urls
        answers: list[str | None] = []
        expressions: _Expressions | None = None
        for url in urls:
            why = server = None
            host = known.get(url)
            if host is None:
                server, host, why = self._enter(url)
            if why is None:
                for name, refuses in of_urls:
                    if refuses(url, depth):
                        why = name
                        break
                else:
                    if server is not None:
                        if expressions is None:
                            expressions = self._expressions_for(urls, depth, of_urls)
                        why = self._look(url, server, host, expressions)
                    if why is None and of_links and host != page_host:
                        why = self._link_refusal(host, page_host)
            if why is not None:
                self.refused[why] += 1
            answers.append(why)
        return answers

    def _expressions_for(
        self,
        urls: Sequence[str],
        depth: int,
        of_urls: Sequence[tuple[str, Callable[[str, int], bool]]],
    ) -> _Expressions:
        """Those that may refuse one of *urls* that *of_urls* let pass: an expression whose time
        grows with the square of a length must not see what is too long."""
        if not self._of_expressions:
            return []
        for _, refuses in of_urls:
            urls = [url for url in urls if not refuses(url, depth)]
        return [
            (name, match, refuses_found)
            for may_refuse, name, match, refuses_found in self._of_expressions
            if may_refuse is None or may_refuse(urls, depth)
        ]

    def _look(self, url: str, server: str, host: str, expressions: _Expressions) -> str | None:
        """Why what can be told from the URL alone refuses *url*; remembered if nothing does."""
        for name, match, refuses_found in expressions:
            if (match(url) is not None) is refuses_found:
                return name
        if self._of_short_paths or "?" in url or url.count("/") > self._fewest + _SLASHES:
            why = self._path_refusal(url, server)
            if why is not None:
                return why
        if len(url) <= _LONGEST_CACHED:
            if len(self._urls) >= _CACHED_URLS:
                self._urls.clear()
            self._urls[url] = host
        return None

    def _enter(self, url: str) -> tuple[str, str, str | None]:
        """What all URLs of the server of *url* begin with (``http://a.test:81/``), its host, and
        why it is refused."""
        server = url[: url.find("/", url.find(":") + 3) + 1]
        host = self._servers.get(server)
        if host is not None:
            return server, host, None
        host = host_of(url)
        why = self._server_refusal(url, host)
        # Without a path it is not normalized, and may have a slash in its query.
        if why is not None or not server or "?" in server or len(server) > _LONGEST_CACHED:
            return _NO_SERVER, host, why
        if len(self._servers) >= _CACHED_SERVERS:
            self._servers.clear()
        self._servers[server] = host
        return server, host, None

    def _server_refusal(self, url: str, host: str) -> str | None:
        if self._of_servers:
            found = _PORT.match(url)
            port = None if found is None else int(found[1])
            scheme = url.partition(":")[0]
            for name, refuses_server in self._of_servers:
                if refuses_server(scheme, host, port):
                    return name
        return None

    def _path_refusal(self, url: str, server: str) -> str | None:
        if server == _NO_SERVER:
            # A normalized URL has a path, what a spider may bring need not.
            path, _, query = url.partition("?")
            segments = path.lower().split("/")[_SLASHES + 1 :] or [""]
        else:
            path, _, query = url[len(server) :].partition("?")
            segments = path.lower().split("/")
        count = len(segments)
        if count > self._fewest:
            for fewest, name, refuses_path in self._of_paths:
                if count > fewest and refuses_path(segments):
                    return name
        else:
            for name, refuses_path in self._of_short_paths:
                if refuses_path(segments):
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
