"""Directives of pages for robots: ``<meta name=robots>`` and ``X-Robots-Tag``.

Called with the results of ``extraction.extract`` and the response headers. Google separates
directives by commas, Nutch finds them anywhere in the value; here, too, any separator is accepted.
In the header, a crawler's name and a colon may come before the directives for it, up to the next
name. The content of an element is for the crawler that the element names. Directives for all
crawlers and for this one add up, so the most restrictive counts. The value of a directive that has
one, such as ``max-image-preview:none``, is not a directive. Nothing is raised.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from webcrawl.urls.link import Link

ALL_ROBOTS = "robots"
"""The name of the ``<meta>`` element for all crawlers."""

_MAX_VALUE_CHARS = 4096
_WITH_VALUE = re.compile(r"(?:unavailable_after|max-[a-z-]{1,20})\s*[:=]\s*[^\s,;]*", re.ASCII)
# The name of a crawler, which is not a time of day or a directive.
_NAME = re.compile(
    r"(?<![\w*-])(?![\d-]+\s*:|no(?:index|follow|ne|archive|cache)\s*:)([\w*-]{1,64})\s*:",
    re.ASCII,
)


class RobotsDirectives(msgspec.Struct, frozen=True):
    """The directives of a page for crawlers."""

    noindex: bool = False
    nofollow: bool = False
    noarchive: bool = False


NO_DIRECTIVES = RobotsDirectives()
"""The directives of most pages."""


def robots_directives(
    *,
    agent: str,
    headers: Iterable[bytes] = (),
    metas: Iterable[tuple[str, str]] = (),
) -> RobotsDirectives:
    """Return the directives in the ``X-Robots-Tag`` *headers* and ``<meta>`` elements for *agent*.

    *agent* is the crawler's product token; *metas* are pairs of lower-case name and content.
    """
    everyone = ("*", ALL_ROBOTS, agent.partition("/")[0].strip().lower())
    directives = [
        text
        for header in headers
        for name, text in _addressed(header[:_MAX_VALUE_CHARS].decode("latin-1"))
        if name in everyone
    ]
    directives += [_directives(content) for name, content in metas if name in everyone]
    words = " ".join(directives)
    none = "none" in words
    return RobotsDirectives(
        noindex=none or "noindex" in words,
        nofollow=none or "nofollow" in words,
        noarchive="noarchive" in words or "nocache" in words,
    )


def followed(links: Iterable[Link]) -> list[Link]:
    """Return the *links* without those that the page excludes with ``rel=nofollow``."""
    return [link for link in links if not link.rel or "nofollow" not in link.rel.split()]


def _directives(value: str) -> str:
    """Return *value* in lower case, without directives that have values."""
    return _WITH_VALUE.sub(" ", value[:_MAX_VALUE_CHARS].lower())


def _addressed(header: str) -> Iterator[tuple[str, str]]:
    """Yield for each part of *header* the crawler that it is for, and its text."""
    first, *parts = _NAME.split(_directives(header))
    yield "*", first
    yield from zip(parts[::2], parts[1::2], strict=True)
