"""The filters that a link must pass before the eliminator sees it.

Each filter is a function with a name; a ``FilterChain`` calls them in order. The names are the last
part of the stats ``urls/refused/<name>``. Filters keep no state, so a link that was refused once is
refused again.

There are three kinds, by what they need to know: the server that a URL names, the URL, or the hosts
at both ends of the link. What let a server or a URL pass is remembered, since links repeat both:
almost four links in five are to one of the last 50,000 URLs (Broder, Najork and Wiener, "Efficient
URL Caching"). So thousands of rules cost nothing for most links.
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
# Before the first segment are the scheme, an empty part and the host.
_BEFORE_PATH = 3

# Scheme, host and port of the usual normalized URL; the port of any other.
_USUAL = re.compile(r"([a-z]+)://([a-z0-9.-]*[a-z0-9])(?::([0-9]{1,5}))?/")
_PORT = re.compile(r"[a-z][a-z0-9+.-]*://(?:\[[^\]/?#]*\]|[^:/?#]*):([0-9]{1,5})(?=[/?#]|\Z)")


class SplitUrl:
    """A normalized URL, *text*, in parts. Its length in characters is its length in bytes.

    *path* is what stands before the query, and *query* is without its question mark.
    """

    def __init__(self, text: str, path: str, query: str) -> None:
        self.text = text
        self.query = query
        self._path = path

    @cached_property
    def segments(self) -> list[str]:
        """The parts between the slashes of the path, in lower case; the last is empty if the path
        ends with a slash."""
        return self._path.lower().split("/")[_BEFORE_PATH:] or [""]


class UrlShape(NamedTuple):
    """Properties that many URLs share.

    segments: their number in the path.
    has_query: whether there is a query.
    is_long: whether the URL has more than 128 characters.
    has_20: whether "20" stands anywhere in it, as in all years of this century.
    """

    segments: int
    has_query: bool
    is_long: bool
    has_20: bool


class UrlFilter(NamedTuple):
    """A filter by URL, which is called for URLs of the shapes that it concerns.

    Its answer must not change: URLs that passed are remembered. It may be the reason, a text.
    """

    name: str
    refuses: Callable[[SplitUrl], bool | str]
    concerns: Callable[[UrlShape], bool] = lambda _shape: True


class ServerFilter(NamedTuple):
    """A filter by scheme, host and port. Its answer must not change: servers are remembered.

    The host is as ``host_of`` gives it, the port None for the one that belongs to the scheme.
    """

    name: str
    refuses: Callable[[str, str, int | None], bool]


class LinkFilter(NamedTuple):
    """A filter of links to other hosts, by the link's host and that of the page."""

    name: str
    refuses: Callable[[str, str], bool]


Filter: TypeAlias = UrlFilter | ServerFilter | LinkFilter
#: The host of a URL, and the name of the filter that refuses it, None when all let it pass.
Answer: TypeAlias = tuple[str, str | None]


def scheme_filter(schemes: frozenset[str]) -> ServerFilter:
    """Refuses URLs that no download handler of this crawl can fetch."""
    return ServerFilter("scheme", lambda scheme, _host, _port: scheme not in schemes)


def length_filter(max_bytes: int) -> UrlFilter:
    """Refuses URLs of more than *max_bytes*: beyond 2 kB they are traps or session state."""
    return UrlFilter(
        "length",
        lambda url: len(url.text) > max_bytes,
        lambda shape: shape.is_long or max_bytes < _LONG,
    )


class FilterChain:
    """The filters in order; the first that refuses decides.

    First those about the server, then those about the URL; then URLs more than *max_depth* links
    from the seed are refused (``depth``; 0: none); then those about the link. What is remembered
    takes 30 MB at most, with names of 250 characters, and typically 5.
    """

    def __init__(self, filters: Sequence[Filter], *, max_depth: int = 0) -> None:
        self._max_depth = max_depth
        self._of_servers = tuple(one for one in filters if isinstance(one, ServerFilter))
        self._of_urls = tuple(one for one in filters if isinstance(one, UrlFilter))
        self._of_links = tuple(one for one in filters if isinstance(one, LinkFilter))
        self._of_shapes: dict[
            tuple[int, bool, bool, bool], tuple[tuple[str, Callable[[SplitUrl], bool | str]], ...]
        ] = {}
        # Answers for servers that passed, by what their URLs begin with: http://a.test:81/
        self._servers: dict[str, Answer] = {}
        # Answers for URLs that passed the filters of servers and URLs.
        self._urls: dict[str, Answer] = {}

    def refusal(self, url: str, depth: int, page_host: str = "") -> str | None:
        """Name of the filter that refuses *url* at *depth*, None when all let it pass.

        *page_host* is the host of the page that links to it, empty for a seed.
        """
        return self.answers((url,), depth, page_host)[0][1]

    def answers(self, urls: Sequence[str], depth: int, page_host: str = "") -> list[Answer]:
        """Host and ``refusal`` of each of *urls*: the links of a page at once, for half of what a
        call for each costs. docs/performance.md has figures."""
        known, look = self._urls, self._look
        answers = [known.get(url) or look(url) for url in urls]
        if 0 < self._max_depth < depth:
            answers = [(host, why or "depth") for host, why in answers]
        elif self._of_links and page_host:
            answers = [
                (host, why or (self._link_refusal(host, page_host) if host != page_host else None))
                for host, why in answers
            ]
        return answers

    def reason(self, name: str, url: str) -> str:
        """The reason that the filter by URL *name* gives for refusing *url*; "" if it gives none.
        For a few: it is called once more."""
        path, _, query = url.partition("?")
        found = [
            one.refuses(SplitUrl(url, path, query)) for one in self._of_urls if one.name == name
        ]
        return next((one for one in found if isinstance(one, str)), "")

    def _look(self, url: str) -> Answer:
        """The answer for *url* by itself; remembered if nothing refuses it."""
        # What all URLs of the server begin with: http://a.test:81/
        start = url.find(":") + 3
        server = url[: url.find("/", start) + 1]
        passed = self._servers.get(server)
        if passed is None:
            passed = self._of_server(url)
            if passed[1] is not None:
                return passed
            # Without a path it is not normalized, and may have a slash in its query.
            if server and "?" not in server and len(server) <= _LONGEST_CACHED:
                if len(self._servers) >= _CACHED_SERVERS:
                    self._servers.clear()
                self._servers[server] = passed
        size, mark = len(url), url.find("?")
        segments = url.count("/", start) if mark < 0 else url.count("/", start, mark)
        shape = segments or 1, 0 <= mark < size - 1, size > _LONG, "20" in url
        filters = self._of_shapes.get(shape)
        if filters is None:
            if len(self._of_shapes) >= _CACHED_SHAPES:
                self._of_shapes.clear()
            filters = self._of_shapes[shape] = tuple(
                (one.name, one.refuses) for one in self._of_urls if one.concerns(UrlShape(*shape))
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

    def _of_server(self, url: str) -> Answer:
        """The answer of the filters about the server of *url*."""
        found = _USUAL.match(url)
        if found is not None:
            scheme, host, digits = found.groups()
        else:
            scheme, host, found = url.partition(":")[0], host_of(url), _PORT.match(url)
            digits = found and found[1]
        port = int(digits) if digits else None
        for name, refuses in self._of_servers:
            if refuses(scheme, host, port):
                return host, name
        return host, None

    def _link_refusal(self, host: str, page_host: str) -> str | None:
        for name, refuses in self._of_links:
            if refuses(host, page_host):
                return name
        return None
