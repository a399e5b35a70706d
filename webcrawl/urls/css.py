"""The references in style sheets: ``url()`` and ``@import``.

Called for style sheets that were fetched, and by ``extraction`` for ``<style>`` and ``style=``.
CSS Syntax, section 4, as far as it decides where a reference begins and ends: comments and strings
are passed over, escapes are undone, a string ends at an unescaped line end. Never raises; linear in
the length of the text; ``limit`` bounds the answer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from webcrawl.urls import charset as charsets
from webcrawl.urls.link import Link
from webcrawl.urls.normalizer import HTTP_SCHEMES
from webcrawl.urls.resolver import Resolver

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_REFERENCE_CHARS: Final = 8192
"""Longer ones are inline data."""

MAX_REFERENCES: Final = 20_000
"""Of one style sheet that are looked at."""

_STRING: Final = r""" "(?:[^"\\\n]|\\.)*+" | '(?:[^'\\\n]|\\.)*+' """
_ESCAPED: Final = r"""\\(?:[0-9a-f]{1,6}\s?|[^\n])"""
_TOKEN: Final = re.compile(
    rf"""
    /\*.*?(?:\*/|\Z)
    | (?P<at>@import) \s*+ (?:(?P<imported>{_STRING}) | (?=[uU][rR][lL]\())
    | (?<![\w-]) [uU][rR][lL]\( \s*+ (?P<url> {_STRING} | (?:[^\s"'()\\]|{_ESCAPED})*+ ) \s*+ \)
    | {_STRING}
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_ESCAPE: Final = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|\n|(.))", re.DOTALL)


def extract_css_links(
    body: bytes,
    *,
    url: str,
    charset: str | None,
    limit: int,
    schemes: frozenset[str] = HTTP_SCHEMES,
) -> list[Link]:
    """Links of the style sheet *body* that was fetched from *url*.

    Of the kind ``stylesheet`` for ``@import`` and ``css`` for everything else: images, fonts.
    """
    if limit <= 0:
        return []
    codec = charsets.detect(body, declared=charset)
    resolve = Resolver(url, codec=codec, schemes=schemes).resolve
    links: dict[str, Link] = {}
    for kind, reference in css_references(charsets.decode(body, codec)):
        target = None if reference.startswith("#") else resolve(reference)
        if target is not None and target not in links:
            links[target] = Link(target, "", kind)
            if len(links) >= limit:
                break
    return list(links.values())


def css_references(text: str) -> Iterator[tuple[str, str]]:
    """Kind and raw reference of each ``@import`` and ``url()`` in the style sheet *text*."""
    kind = "css"
    left = MAX_REFERENCES
    for found in _TOKEN.finditer(text):
        reference = found["imported"] or found["url"]
        if found["at"]:
            kind = "stylesheet"
        if reference is None:
            continue
        reference = _value(reference)
        if reference and len(reference) <= MAX_REFERENCE_CHARS:
            yield kind, reference
            left -= 1
            if left <= 0:
                return
        kind = "css"


def _value(written: str) -> str:
    if written[:1] in ('"', "'"):
        written = written[1:-1]
    if "\\" in written:
        written = _ESCAPE.sub(_unescaped, written)
    return written


def _unescaped(escape: re.Match[str]) -> str:
    if not escape[1]:
        return escape[2] or ""
    number = int(escape[1], 16)
    usable = 0 < number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF
    return chr(number) if usable else "\ufffd"
