"""Filters that a link must pass before it reaches the eliminator.

Each filter is a function with a name; a ``FilterChain`` calls them in order. The name is the last
part of the stat ``urls/refused/<name>``. Filters have no state, so a link that was refused once is
always refused.

There are three kinds of filters, which check the server of a URL, the URL, or the hosts at both
ends of the link. Servers and URLs that passed are cached, because links repeat both: almost four in
five links lead to one of the last 50,000 URLs (Broder, Najork and Wiener, "Efficient URL Caching").
So for most links even thousands of rules take no time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from webcrawl.urls.host import host_of

_CACHED_SERVERS = 1 << 15
_CACHED_URLS = 1 << 15
_CACHED_SHAPES = 1 << 10
_LONGEST_CACHED = 300
_LONG = 128
# Number of parts of a URL before the first segment: the scheme, an empty part and the host.
_BEFORE_PATH = 3

# The port of a normalized URL.
_PORT = re.compile(r"[a-z][a-z0-9+.-]*://(?:\[[^\]/?#]*\]|[^:/?#]*):([0-9]{1,5})(?=[/?#]|\Z)")


class SplitUrl:
    """A normalized URL and its parts. It is ASCII, so its length is the same in bytes.

    *text* is the whole URL, *path* the part before the query, and *query* the query without its
    question mark.
    """

    def __init__(self, text: str, path: str, query: str) -> None:
        self.text = text
        self.query = query
        self._path = path

    @cached_property
    def segments(self) -> list[str]:
        """Parts of the path between slashes, in lower case.

        The last one is empty if the path ends with a slash.
        """
        return self._path.lower().split("/")[_BEFORE_PATH:] or [""]


class UrlShape(NamedTuple):
    """Properties that many URLs share, by which filters are selected.

    segments: the number of segments in the path.
    has_query: whether there is a query.
    is_long: whether the URL has more than 128 characters.
    has_20: whether the URL contains "20", as all years of this century do.
    """

    segments: int
    has_query: bool
    is_long: bool
    has_20: bool


class UrlFilter(NamedTuple):
    """A filter of URLs, called only for URLs of the shapes that it ``concerns``.

    ``refuses`` must always return the same result, because URLs that passed are cached. Instead
    of True it may return the reason as text.
    """

    name: str
    refuses: Callable[[SplitUrl], bool | str]
    concerns: Callable[[UrlShape], bool] = lambda _shape: True


class ServerFilter(NamedTuple):
    """A filter of servers, by scheme, host and port.

    ``refuses`` must always return the same result, because servers are cached. The host is as
    ``host_of`` returns it. The port is None for the default port of the scheme.
    """

    name: str
    refuses: Callable[[str, str, int | None], bool]


class LinkFilter(NamedTuple):
    """A filter of links to other hosts, by the host of the link and the host of the page."""

    name: str
    refuses: Callable[[str, str], bool]


Filter = UrlFilter | ServerFilter | LinkFilter
#: The host of a URL, and the name of the filter that refuses it, or None if it passes all filters.
Answer = tuple[str, str | None]


def scheme_filter(schemes: frozenset[str]) -> ServerFilter:
    """Return a filter that refuses URLs whose scheme is not in *schemes*.

    *schemes* are those for which this crawl has a download handler.
    """
    return ServerFilter("scheme", lambda scheme, _host, _port: scheme not in schemes)


def length_filter(max_bytes: int) -> UrlFilter:
    """Return a filter that refuses URLs of more than *max_bytes*.

    URLs of more than 2 kB are traps or contain session state.
    """
    return UrlFilter(
        "length",
        lambda url: len(url.text) > max_bytes,
        lambda shape: shape.is_long or max_bytes < _LONG,
    )


class FilterChain:
    """Calls filters in order; the first filter that refuses a URL decides.

    Filters of servers come first, then filters of URLs, then the limit of *max_depth* links from a
    seed (called ``depth``; 0 means no limit), then filters of links. The caches usually take 5 MB,
    and at most 30 MB, if host names have 250 characters.
    """

    def __init__(self, filters: Sequence[Filter], *, max_depth: int = 0) -> None:
        self._max_depth = max_depth
        self._server_filters = tuple(rule for rule in filters if isinstance(rule, ServerFilter))
        self._url_filters = tuple(rule for rule in filters if isinstance(rule, UrlFilter))
        self._link_filters = tuple(rule for rule in filters if isinstance(rule, LinkFilter))
        # Return the URL filters that concern a shape; see ``_select_filters``.
        self._filters_for = lru_cache(_CACHED_SHAPES)(self._select_filters)
        # Some filter concerns URLs with so many segments and nothing else of a UrlShape, but none
        # those with fewer. A URL without a path counts as one with a segment.
        usual = (
            count for count in range(1, _LONG) if self._filters_for(count, False, False, False)
        )
        fewest = next(usual, _LONG)
        self._fewest_judged = fewest if fewest > 1 else 0
        # Answers for servers that passed, by the beginning of their URLs, such as http://a.test:81
        self._servers: dict[str, Answer] = {}
        # Answers for URLs that passed the filters of servers and URLs.
        self._urls: dict[str, Answer] = {}

    def refusal(self, url: str, depth: int, page_host: str = "") -> str | None:
        """Return the name of the filter that refuses *url* at *depth*, or None if it passes all.

        *page_host* is the host of the page that links to the URL; it is empty for a seed.
        """
        return self.answers((url,), depth, page_host)[0][1]

    def answers(self, urls: Sequence[str], depth: int, page_host: str = "") -> list[Answer]:
        """Return the host and the ``refusal`` of each of *urls*.

        Passing all links of a page together takes half the time of single calls; for measurements
        see docs/why/performance.md.
        """
        known = self._urls
        check = self._check
        answers = [known.get(url) or check(url) for url in urls]
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
        results = [
            rule.refuses(SplitUrl(url, path, query))
            for rule in self._url_filters
            if rule.name == name
        ]
        return next((reason for reason in results if isinstance(reason, str)), "")

    def _check(self, url: str) -> Answer:
        """Return the answer of the filters of servers and URLs; cache it if *url* passes.

        ``answers`` calls this only for URLs that are not cached.
        """
        path, _, query = url.partition("?")
        segments = path.count("/") + 1 - _BEFORE_PATH
        # The beginning of all URLs of the server: http://a.test:81
        server = path.rsplit("/", segments)[0]
        server_answer = self._servers.get(server)
        if server_answer is None:
            server_answer = self._judge_server(url)
            if server_answer[1] is not None:
                return server_answer  # refused
            if len(server) <= _LONGEST_CACHED:
                if len(self._servers) >= _CACHED_SERVERS:
                    self._servers.clear()
                self._servers[server] = server_answer

        length = len(url)
        if query or length > _LONG or segments >= self._fewest_judged or "20" in url:
            # The arguments are the fields of a UrlShape.
            filters = self._filters_for(
                segments if segments > 0 else 1, bool(query), length > _LONG, "20" in url
            )
            split_url = SplitUrl(url, path, query)
            for name, refuses, _ in filters:
                if refuses(split_url):
                    return server_answer[0], name

        if length <= _LONGEST_CACHED:
            if len(self._urls) >= _CACHED_URLS:
                self._urls.clear()
            self._urls[url] = server_answer
        return server_answer

    def _select_filters(self, *shape: Any) -> list[UrlFilter]:
        """Return the URL filters that concern URLs of *shape*, the fields of a UrlShape."""
        return [rule for rule in self._url_filters if rule.concerns(UrlShape(*shape))]

    def _judge_server(self, url: str) -> Answer:
        """Return the answer of the filters of servers for *url*."""
        scheme, host, port = _parse_server(url)
        for name, refuses in self._server_filters:
            if refuses(scheme, host, port):
                return host, name
        return host, None

    def _link_refusal(self, host: str, page_host: str) -> str | None:
        """Return the name of the filter that refuses a link from *page_host* to *host*, or None."""
        for name, refuses in self._link_filters:
            if refuses(host, page_host):
                return name
        return None


def _parse_server(url: str) -> tuple[str, str, int | None]:
    """Return the scheme, the host and the port of *url*; None stands for the default port."""
    port = _PORT.match(url)
    return url.partition(":")[0], host_of(url), int(port[1]) if port else None
