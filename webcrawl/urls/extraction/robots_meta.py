"""Directives of pages for robots: ``<meta name=robots>`` and ``X-Robots-Tag``.

Called with what ``extraction.extract`` and the response headers hold. Both have the
same grammar: directives separated by commas, in the header with a crawler's name and a colon before
those that are meant for it. What is said to all and what is said to this crawler add up, so the
most restrictive counts. Unknown directives are ignored; nothing is raised.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from webcrawl.urls.link import Link

ALL_ROBOTS: Final = "robots"
"""The name of the ``<meta>`` element that speaks to every crawler."""

MAX_DIRECTIVES: Final = 200
"""Of one header or element that are read."""

_MAX_VALUE_CHARS: Final = 4096
_NAMED: Final = re.compile(r"\s*([\w.*-]{1,64}?)\s*:(.*)", re.DOTALL)
# Directives that have a value behind a colon, and so are no crawler's name.
_VALUED: Final = frozenset(
    {"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"}
)


class RobotsDirectives(msgspec.Struct, frozen=True):
    """The directives of a page for crawlers."""

    noindex: bool = False
    nofollow: bool = False
    noarchive: bool = False


NO_DIRECTIVES: Final = RobotsDirectives()
"""What most pages ask: nothing."""


def robots_directives(
    *,
    agent: str,
    headers: Iterable[bytes] = (),
    metas: Iterable[tuple[str, str]] = (),
) -> RobotsDirectives:
    """Directives of the ``X-Robots-Tag`` *headers* and ``<meta>`` elements *metas* for *agent*.

    *agent* is the crawler's product token; *metas* are pairs of lower-case name and content.
    """
    agent = agent.partition("/")[0].strip().lower()
    values = [header.decode("latin-1") for header in headers]
    values += [content for name, content in metas if name in (ALL_ROBOTS, agent)]
    said = {
        directive
        for value in values
        for name, directive in _directives(value[:_MAX_VALUE_CHARS])
        if name in ("*", ALL_ROBOTS, agent)
    }
    return RobotsDirectives(
        noindex=not said.isdisjoint(("noindex", "none")),
        nofollow=not said.isdisjoint(("nofollow", "none")),
        noarchive=not said.isdisjoint(("noarchive", "nocache")),
    )


def followed(links: Iterable[Link]) -> list[Link]:
    """Those of *links* that the page does not ask to leave alone by ``rel=nofollow``."""
    return [link for link in links if not link.rel or "nofollow" not in link.rel.split()]


def _directives(value: str) -> Iterator[tuple[str, str]]:
    """To whom, and what, for each directive of *value*."""
    name = "*"
    for part in value.split(",")[:MAX_DIRECTIVES]:
        directive = part
        found = _NAMED.fullmatch(part)
        if found is not None and found[1].lower() not in _VALUED:
            name, directive = found[1].lower(), found[2]
        yield name, directive.strip().lower()
