"""Robots directives in pages: ``<meta name=robots>`` and ``X-Robots-Tag``.

Used with the results of ``html.extract`` and with response headers. Google separates directives by
commas; Nutch finds them anywhere in the value. Here, too, any separator is accepted. In the header,
a crawler's name and a colon may come before the directives for that crawler, which end at the next
name. The content of a ``<meta>`` element is for the crawler that the element names. Directives for
all crawlers and for this one are combined, so the most restrictive counts. Some directives have a
value, such as ``max-image-preview:none``; the value is not read as a directive. No exception is
raised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from webcrawl.urls.link import Link

#: Name of the ``<meta>`` element for all crawlers.
ALL_ROBOTS = "robots"

_MAX_VALUE_CHARS = 4096
_WITH_VALUE = re.compile(r"(?:unavailable_after|max-[a-z-]{1,20})\s*[:=]\s*[^\s,;]*", re.ASCII)
# The name of a crawler before a colon; it must not be a time of day or a directive.
_NAME = re.compile(
    r"(?<![\w*-])(?![\d-]+\s*:|no(?:index|follow|ne|archive|cache)\s*:)([\w*-]{1,64})\s*:",
    re.ASCII,
)


class RobotsDirectives(msgspec.Struct, frozen=True):
    """Directives of a page for crawlers."""

    noindex: bool = False
    nofollow: bool = False
    noarchive: bool = False


#: Directives of most pages, which have none.
NO_DIRECTIVES = RobotsDirectives()


def robots_directives(
    *,
    tokens: tuple[str, ...],
    headers: Iterable[bytes] = (),
    metas: Iterable[tuple[str, str]] = (),
) -> RobotsDirectives:
    """Return the directives for *tokens* in the ``X-Robots-Tag`` *headers* and ``<meta>`` elements.

    The arguments are those of ``directive_texts``.
    """
    words = " ".join(directive_texts(tokens=tokens, headers=headers, metas=metas))
    has_none = "none" in words
    return RobotsDirectives(
        noindex=has_none or "noindex" in words,
        nofollow=has_none or "nofollow" in words,
        noarchive="noarchive" in words or "nocache" in words,
    )


def directive_texts(
    *,
    tokens: tuple[str, ...],
    headers: Iterable[bytes] = (),
    metas: Iterable[tuple[str, str]] = (),
) -> list[str]:
    """Return the texts for *tokens* in the ``X-Robots-Tag`` *headers* and ``<meta>`` elements.

    *tokens* are the crawler's product tokens in lower case. *metas* are the lower-case name and the
    content of each ``<meta>`` element. The texts are in lower case, without directives that have
    values.
    """
    own_names = ("*", ALL_ROBOTS, *tokens)
    texts = [
        text
        for header in headers
        for name, text in _parts_by_crawler(header[:_MAX_VALUE_CHARS].decode("latin-1"))
        if name in own_names
    ]
    return texts + [_without_values(content) for name, content in metas if name in own_names]


def without_nofollow(links: Iterable[Link]) -> list[Link]:
    """Return *links* without those that have ``rel=nofollow``."""
    return [link for link in links if not link.rel or "nofollow" not in link.rel.split()]


def _without_values(value: str) -> str:
    """Return *value* in lower case, without directives that have values."""
    return _WITH_VALUE.sub(" ", value[:_MAX_VALUE_CHARS].lower())


def _parts_by_crawler(header: str) -> Iterator[tuple[str, str]]:
    """Yield the crawler's name and the directives of each part of *header*."""
    first, *parts = _NAME.split(_without_values(header))
    yield "*", first
    yield from zip(parts[::2], parts[1::2], strict=True)
