"""What belongs to the crawl: filters by server, by site and by regular expression.

The open web has none of these but the two that keep the crawler from talking to services that are
no web servers, and from names that a name server makes up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from webcrawl.urls.registered_domain import site_of

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from webcrawl.urls.filters.chain import SplitUrl

# Fetch Standard, section "Port blocking": what browsers refuse to contact, because a line that the
# author of a link chooses means something there (mail, chat, databases of old).
BAD_PORTS: Final = frozenset(
    {
        *(0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95),
        *(101, 102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179),
        *(389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601),
        *(636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000),
        *(6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080),
    }
)

MAX_PATTERNS: Final = 100
"""Each costs up to 1 µs a link: thousands are better given as domains, segments or extensions."""

# A label three times in a row comes so often again.
_AGAIN: Final = 2


@dataclass(slots=True, frozen=True)
class PortFilter:
    """Filter by port. The port that belongs to the scheme passes.

    It refuses ports of ``refused`` and those that browsers refuse, or, if ``allowed`` is not empty,
    those that are not in it.
    """

    name: ClassVar[str] = "port"
    allowed: frozenset[int]
    refused: frozenset[int] = frozenset()

    def refuses_server(self, scheme: str, host: str, port: int | None) -> bool:  # noqa: ARG002  part of the protocol
        if port is None:
            return False
        if port in self.refused:
            return True
        return port not in self.allowed if self.allowed else port in BAD_PORTS


@dataclass(slots=True, frozen=True)
class HostLabelsFilter:
    """Refuses hosts of more than ``most`` labels, and those with a label three times in a row.

    A name server that has an answer for every name makes an endless space of hosts, each with its
    own politeness: ``www.www.www.a.test``. Addresses pass.
    """

    name: ClassVar[str] = "host_labels"
    most: int = 10

    def refuses_server(self, scheme: str, host: str, port: int | None) -> bool:  # noqa: ARG002  part of the protocol
        labels = host.split(".")
        if len(labels) > self.most:
            return True
        if len(labels) - len(set(labels)) < _AGAIN or labels[-1].isdigit():
            return False
        return any(
            label == labels[at + 1] == labels[at + 2] for at, label in enumerate(labels[:-2])
        )


@dataclass(slots=True, frozen=True)
class WhitelistFilter:
    """Refuses hosts whose site is not one of ``sites``: those of the seeds.

    ``sites`` may grow while the crawl runs, and is asked only for servers it has not let pass
    yet. Nielsen, "How to crawl a quarter billion webpages": the million domains that are the seeds
    are the whitelist.
    """

    name: ClassVar[str] = "whitelist"
    sites: Container[str]

    def refuses_server(self, scheme: str, host: str, port: int | None) -> bool:  # noqa: ARG002  part of the protocol
        return site_of(host) not in self.sites


@dataclass(slots=True, frozen=True)
class OwnDomainFilter:
    """Filter of links to another site than that of the page (Nielsen).

    Each site is a crawl of its own, whatever else is whitelisted. Redirects are links.
    """

    name: ClassVar[str] = "own_domain"

    def refuses_link(self, host: str, page_host: str) -> bool:
        return site_of(host) != site_of(page_host)


@dataclass(slots=True, frozen=True)
class RestrictFilter:
    """Refuses URLs that match none of the expressions as a whole: LARM's ``-restrictto``."""

    name: ClassVar[str] = "restrict_to"
    patterns: tuple[re.Pattern[str], ...]

    def refuses(self, url: SplitUrl) -> bool:
        return not any(pattern.fullmatch(url.text) for pattern in self.patterns)


@dataclass(slots=True, frozen=True)
class PatternFilter:
    """Refuses URLs in which one of the expressions is found."""

    name: ClassVar[str] = "pattern"
    patterns: tuple[re.Pattern[str], ...]

    def refuses(self, url: SplitUrl) -> bool:
        return any(pattern.search(url.text) for pattern in self.patterns)


def patterns_from(expressions: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    """*expressions*, ready to be looked for.

    ValueError with a sentence's end for what is no regular expression, or too many of them. They
    are Python's, which can take for ever on a long URL if they are nested without need: ``(a+)+``.
    """
    if len(expressions) > MAX_PATTERNS:
        raise ValueError(f"has more than {MAX_PATTERNS} regular expressions")
    patterns = []
    for expression in expressions:
        try:
            patterns.append(re.compile(expression))
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"has {expression!r}, no regular expression: {error}") from error
    return tuple(patterns)
