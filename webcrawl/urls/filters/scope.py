"""Scope of the crawl: filters by server, by site and by regular expression.

A crawl of the open web uses only two of them. They keep the crawler from contacting services that
are not web servers, and names that a name server makes up.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from webcrawl.urls.filters.chain import LinkFilter, ServerFilter, UrlFilter
from webcrawl.urls.registered_domain import site_of

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from webcrawl.urls.filters.chain import SplitUrl

# Fetch Standard, section "Port blocking": ports that browsers refuse to contact, because a line
# chosen by the author of a link could be a command there (mail, chat, old databases). Added are the
# ports of today's databases and of Docker.
BAD_PORTS = frozenset(
    {
        *(0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95),
        *(101, 102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179),
        *(389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601),
        *(636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000),
        *(6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080),
        *(2375, 2379, 3306, 5432, 6379, 9200, 11211, 27017),
    }
)

MAX_PATTERNS = 100
"""Each takes up to 1 µs per link. Use domains, segments or extensions for thousands of rules."""

# The repeats of a label that comes three times in a row.
_REPEATS = 2


def port_filter(allowed: frozenset[int], bad: frozenset[int] = BAD_PORTS) -> ServerFilter:
    """Return a filter by port. The default port of the scheme passes.

    It refuses the ports in *bad*, or if *allowed* is not empty, those that are not in it.
    """

    def refuses(_scheme: str, _host: str, port: int | None) -> bool:
        if port is None:
            return False
        return port not in allowed if allowed else port in bad

    return ServerFilter("port", refuses)


def host_labels_filter(most: int = 10) -> ServerFilter:
    """Return a filter of hosts with more than *most* labels, or with a label three times in a row.

    A name server that has an answer for every name creates an endless space of hosts, each with its
    own politeness: ``www.www.www.a.test``. Addresses pass.
    """

    def refuses(_scheme: str, host: str, _port: int | None) -> bool:
        labels = host.split(".")
        if len(labels) > most:
            return True
        if len(labels) - len(set(labels)) < _REPEATS or labels[-1].isdigit():
            return False
        return any(
            label == labels[at + 1] == labels[at + 2] for at, label in enumerate(labels[:-2])
        )

    return ServerFilter("host_labels", refuses)


def whitelist_filter(sites: Container[str]) -> ServerFilter:
    """Return a filter that refuses hosts whose site is not in *sites*, those of the seeds.

    *sites* may grow while the crawl runs, and are looked up only for servers that have not passed
    yet. Nielsen, "How to crawl a quarter billion webpages": the million domains that are the seeds
    are the whitelist.
    """
    return ServerFilter("whitelist", lambda _scheme, host, _port: site_of(host) not in sites)


def own_domain_filter() -> LinkFilter:
    """Return a filter that refuses links to another site than that of the page (Nielsen).

    Each site is crawled on its own, whatever else is whitelisted. Redirects count as links.
    """
    return LinkFilter("own_domain", lambda host, page_host: site_of(host) != site_of(page_host))


def restrict_filter(patterns: Sequence[re.Pattern[str]]) -> UrlFilter:
    """Return a filter that refuses URLs unless one of *patterns* matches all of it.

    This is LARM's ``-restrictto``.
    """
    return UrlFilter(
        "restrict_to", lambda url: not any(pattern.fullmatch(url.text) for pattern in patterns)
    )


def pattern_filter(patterns: Sequence[re.Pattern[str]]) -> UrlFilter:
    """Return a filter that refuses URLs in which one of *patterns* is found, as the reason."""

    def refuses(url: SplitUrl) -> str:
        return next((regex.pattern for regex in patterns if regex.search(url.text)), "")

    return UrlFilter("pattern", refuses)


def patterns_from(expressions: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    """Return *expressions*, compiled.

    ValueError, with the end of a sentence, for one that is invalid, or too many. They are Python's
    regular expressions, which may take extremely long on a long URL if they are nested
    unnecessarily: ``(a+)+``.
    """
    if len(expressions) > MAX_PATTERNS:
        raise ValueError(f"has more than {MAX_PATTERNS} regular expressions")
    patterns = []
    for expression in expressions:
        try:
            patterns.append(re.compile(expression))
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"has {expression!r}, which is not valid: {error}") from error
    return tuple(patterns)
