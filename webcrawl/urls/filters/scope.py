"""Scope of the crawl: filters by server, by site and by regular expression.

A crawl of the open web uses only two of these filters. They keep the crawler from contacting
services that are not web servers, and from following endless host names that a name server makes
up.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

from webcrawl.urls.filters.chain import LinkFilter, ServerFilter, SplitUrl, UrlFilter
from webcrawl.urls.registered_domain import site_of

# Ports that browsers refuse to contact (Fetch Standard, section "Port blocking"), because a line
# chosen by the author of a link could be a command to the server (mail, chat, old databases). The
# ports of today's databases and of Docker were added.
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

#: Limit of regular expressions, each of which takes up to 1 µs per link. For thousands of rules,
#: use domains, segments or extensions instead.
MAX_PATTERNS = 100

# Number of repeats if a label occurs three times in a row.
_REPEATS = 2


def port_filter(allowed: frozenset[int], bad: frozenset[int] = BAD_PORTS) -> ServerFilter:
    """Return a filter that refuses URLs by their port.

    If *allowed* is empty, it refuses the ports in *bad*; otherwise it refuses all ports that are
    not in *allowed*. The default port of the scheme always passes.
    """

    def is_refused(_scheme: str, _host: str, port: int | None) -> bool:
        if port is None:
            return False
        return port not in allowed if allowed else port in bad

    return ServerFilter("port", is_refused)


def host_labels_filter(limit: int = 10) -> ServerFilter:
    """Return a filter that refuses hosts with too many or repeated labels.

    It refuses hosts with more than *limit* labels, or with the same label three times in a row. A
    name server that has an answer for every name creates an endless space of hosts, such as
    ``www.www.www.a.test``, and politeness would apply to each separately. Addresses pass.
    """

    def is_refused(_scheme: str, host: str, _port: int | None) -> bool:
        labels = host.split(".")
        if len(labels) > limit:
            return True
        # The usual case: too few repeats. An address may have equal numbers.
        if len(labels) - len(set(labels)) < _REPEATS or labels[-1].isdigit():
            return False
        return any(
            label == labels[index + 1] == labels[index + 2]
            for index, label in enumerate(labels[:-2])
        )

    return ServerFilter("host_labels", is_refused)


def whitelist_filter(sites: Container[str]) -> ServerFilter:
    """Return a filter that refuses hosts whose site is not in *sites*, the sites of the seeds.

    *sites* may grow while the crawl runs. A server that has passed once is not looked up again. The
    idea is from Nielsen, "How to crawl a quarter billion webpages", where the whitelist is the
    million domains of the seeds.
    """
    return ServerFilter("whitelist", lambda _scheme, host, _port: site_of(host) not in sites)


def own_domain_filter() -> LinkFilter:
    """Return a filter that refuses links to sites other than that of the page (Nielsen).

    So each site is crawled on its own, even if other sites are whitelisted. Redirects count as
    links.
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
    """Return a filter that refuses URLs in which one of *patterns* is found.

    That pattern is the reason.
    """

    def refusal(url: SplitUrl) -> str:
        return next((regex.pattern for regex in patterns if regex.search(url.text)), "")

    return UrlFilter("pattern", refusal)


def patterns_from(expressions: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    """Compile *expressions*, regular expressions in Python's syntax.

    Raises ValueError, whose message completes a sentence, if one is invalid or there are too many.
    Expressions that are nested unnecessarily, such as ``(a+)+``, may take extremely long for a long
    URL.
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
