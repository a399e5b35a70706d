"""The filters that a link must pass before it reaches the eliminator.

Each filter is a function with a name; a ``FilterChain`` calls them in order. The name is the last
part of the stat ``urls/refused/<name>``. Filters have no state, so a link that was refused once is
always refused.

There are three kinds, by what they look at: the server of a URL, the URL, or the hosts at both ends
of the link. Servers and URLs that passed are cached, as links repeat both: almost four in five
links go to one of the last 50,000 URLs (Broder, Najork and Wiener, "Efficient URL Caching"). So
thousands of rules cost nothing for most links.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from webcrawl.urls.host import host_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_CACHED_SERVERS = 1 << 15
_CACHED_URLS = 1 << 15
_CACHED_SHAPES = 1 << 10
_LONGEST_CACHED = 300
_LONG = 128
# Before the first segment there are the scheme, an empty part and the host.
_BEFORE_PATH = 3

# Scheme, host and port of a usual normalized URL, and the port of any other.
_USUAL = re.compile(r"([a-z]+)://([a-z0-9.-]*[a-z0-9])(?::([0-9]{1,5}))?/")
_PORT = re.compile(r"[a-z][a-z0-9+.-]*://(?:\[[^\]/?#]*\]|[^:/?#]*):([0-9]{1,5})(?=[/?#]|\Z)")


class SplitUrl:
    """A normalized URL, *text*, in parts. Its length in characters is its length in bytes.

    *path* is the part before the query, and *query* is without its question mark.
    """

    def __init__(self, text: str, path: str, query: str) -> None:
        self.text = text
        self.query = query
        self._path = path

    @cached_property
    def segments(self) -> list[str]:
        """The parts of the path between slashes, in lower case.

        The last one is empty if the path ends with a slash.
        """
        return self._path.lower().split("/")[_BEFORE_PATH:] or [""]


class UrlShape(NamedTuple):
    """Properties that many URLs share.

    segments: their number in the path.
    has_query: whether there is a query.
    is_long: whether the URL has more than 128 characters.
    has_20: whether "20" is anywhere in it, as in all years of this century.
    """

    segments: int
    has_query: bool
    is_long: bool
    has_20: bool


class UrlFilter(NamedTuple):
    """A filter by URL, called for URLs of the shapes that it concerns.

    Its result must not change, as URLs that passed are cached. It may be the reason, as text.
    """

    name: str
    refuses: Callable[[SplitUrl], bool | str]
    concerns: Callable[[UrlShape], bool] = lambda _shape: True


class ServerFilter(NamedTuple):
    """A filter by scheme, host and port. Its result must not change, as servers are cached.

    The host is as in ``host_of``. The port is None for the default port of the scheme.
    """

    name: str
    refuses: Callable[[str, str, int | None], bool]


class LinkFilter(NamedTuple):
    """A filter of links to other hosts, by the link's host and that of the page."""

    name: str
    refuses: Callable[[str, str], bool]


Filter: TypeAlias = UrlFilter | ServerFilter | LinkFilter
#: The host of a URL, and the name of the filter that refuses it, None if it passes all filters.
Answer: TypeAlias = tuple[str, str | None]


def scheme_filter(schemes: frozenset[str]) -> ServerFilter:
    """Return a filter that refuses URLs without a download handler in this crawl."""
    return ServerFilter("scheme", lambda scheme, _host, _port: scheme not in schemes)


def length_filter(max_bytes: int) -> UrlFilter:
    """Return a filter that refuses URLs of more than *max_bytes*.

    Beyond 2 kB they are traps or contain session state.
    """
    return UrlFilter(
        "length",
        lambda url: len(url.text) > max_bytes,
        lambda shape: shape.is_long or max_bytes < _LONG,
    )


class FilterChain:
    """The filters in order; the first one that refuses decides.

    Filters of servers come first, then those of URLs, then the limit *max_depth* of links from the
    seed (``depth``; 0: no limit), then those of links. The caches take typically 5 MB, and at most
    30 MB, with names of 250 characters.
    """

    def __init__(self, filters: Sequence[Filter], *, max_depth: int = 0) -> None:
        self._max_depth = max_depth
        self._server_filters = tuple(rule for rule in filters if isinstance(rule, ServerFilter))
        self._url_filters = tuple(rule for rule in filters if isinstance(rule, UrlFilter))
        self._link_filters = tuple(rule for rule in filters if isinstance(rule, LinkFilter))
        self._filters_by_shape: dict[
            tuple[int, bool, bool, bool], tuple[tuple[str, Callable[[SplitUrl], bool | str]], ...]
        ] = {}
        # Answers for servers that passed, by the beginning of their URLs: http://a.test:81/
        self._servers: dict[str, Answer] = {}
        # Answers for URLs that passed the filters of servers and URLs.
        self._urls: dict[str, Answer] = {}

    def refusal(self, url: str, depth: int, page_host: str = "") -> str | None:
        """Return the name of the filter that refuses *url* at *depth*, None if it passes all.

        *page_host* is the host of the page that links to it, empty for a seed.
        """
        return self.answers((url,), depth, page_host)[0][1]

    def answers(self, urls: Sequence[str], depth: int, page_host: str = "") -> list[Answer]:
        """Return host and ``refusal`` of each of *urls*.

        Passing all links of a page together takes half the time of single calls;
        docs/why/performance.md has figures.
        """
        known, look = self._urls, self._look
        answers = [known.get(url) or look(url) for url in urls]
        if 0 < self._max_depth < depth:
            answers = [(host, why or "depth") for host, why in answers]
        elif self._link_filters and page_host:
            answers = [
                (host, why or (self._link_refusal(host, page_host) if host != page_host else None))
                for host, why in answers
            ]
        return answers

    def reason(self, name: str, url: str) -> str:
        """Return the reason that the URL filter *name* gives for refusing *url*, or "".

        Calls the filter again, so use it for a few URLs only.
        """
        path, _, query = url.partition("?")
        found = [
            rule.refuses(SplitUrl(url, path, query))
            for rule in self._url_filters
            if rule.name == name
        ]
        return next((reason for reason in found if isinstance(reason, str)), "")

    def _look(self, url: str) -> Answer:
        """Return the answer for *url* from the filters of servers and URLs; cached if it passes."""
        # The beginning of all URLs of the server: http://a.test:81/
        start = url.find(":") + 3
        server = url[: url.find("/", start) + 1]
        passed = self._servers.get(server)
        if passed is None:
            passed = self._server_answer(url)
            if passed[1] is not None:
                return passed
            # A URL without a path is not normalized, and may have a slash in its query.
            if server and "?" not in server and len(server) <= _LONGEST_CACHED:
                if len(self._servers) >= _CACHED_SERVERS:
                    self._servers.clear()
                self._servers[server] = passed
        size, mark = len(url), url.find("?")
        segments = url.count("/", start) if mark < 0 else url.count("/", start, mark)
        shape = segments or 1, 0 <= mark < size - 1, size > _LONG, "20" in url
        filters = self._filters_by_shape.get(shape)
        if filters is None:
            if len(self._filters_by_shape) >= _CACHED_SHAPES:
                self._filters_by_shape.clear()
            filters = self._filters_by_shape[shape] = tuple(
                (rule.name, rule.refuses)
                for rule in self._url_filters
                if rule.concerns(UrlShape(*shape))
            )
        if filters:
            path, _, query = url.partition("?")
            split = SplitUrl(url, path, query)
            for name, refuses in filters:
                if refuses(split):
                    return passed[0], name
        if size <= _LONGEST_CACHED:
            if len(self._urls) >= _CACHED_URLS:
                self._urls.clear()
            self._urls[url] = passed
        return passed

    def _server_answer(self, url: str) -> Answer:
        """Return the answer of the filters for the server of *url*."""
        found = _USUAL.match(url)
        if found is not None:
            scheme, host, digits = found.groups()
        else:
            scheme, host, found = url.partition(":")[0], host_of(url), _PORT.match(url)
            digits = found and found[1]
        port = int(digits) if digits else None
        for name, refuses in self._server_filters:
            if refuses(scheme, host, port):
                return host, name
        return host, None

    def _link_refusal(self, host: str, page_host: str) -> str | None:
        for name, refuses in self._link_filters:
            if refuses(host, page_host):
                return name
        return None
