"""The references in style sheets: ``url()`` and ``@import``.

Called for style sheets that were fetched, and by ``extraction`` for ``<style>`` and ``style=``.
CSS Syntax, section 4, as far as it decides where a reference begins and ends: comments and strings
are passed over, escapes are undone, a string ends at an unescaped line end. Never raises; linear in
the length of the text; ``limit`` bounds the answer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from webcrawl.urls.extraction import charset as charsets
from webcrawl.urls.extraction.reference_resolver import ReferenceResolver
from webcrawl.urls.link import Link
from webcrawl.urls.normalizer import HTTP_SCHEMES

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_REFERENCE_CHARS: Final = 8192
"""Longer ones are inline data."""

MAX_REFERENCES: Final = 20_000
"""Of one style sheet that are looked at."""

_TOKENS_AT_ONCE: Final = 1024

_OPENED: Final = r"""(?: "[^"\\\n]*+(?:\\.[^"\\\n]*+)*+ | '[^'\\\n]*+(?:\\.[^'\\\n]*+)*+ )"""
_STRING: Final = rf"""{_OPENED} ["']"""
_ESCAPED: Final = r"""\\(?:[0-9a-fA-F]{1,6}\s?|[^\n])"""
# Every character is part of a token: what begins like a reference and is none costs its length
# once more, and a pause comes among any of them.
_TOKEN: Final = re.compile(
    rf"""
    (?: [^/@"'uU]++ | [uU](?!(?i:rl\()) | /(?!\*) | @(?!(?i:import)) ){{1,256}}+
    | /\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/)?
    | (?P<at>@(?i:import)) \s*+ (?:(?P<imported>{_STRING}) | (?=(?i:url\()))
    | (?<![\w-]) (?i:url\() \s*+ (?P<url> {_STRING} | (?:[^\s"'()\\]|{_ESCAPED})*+ ) \s*+ \)
    | {_OPENED} ["']?
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|\n|(.))", re.DOTALL)


def iter_css_links(
    body: bytes,
    *,
    url: str,
    charset: str | None,
    limit: int,
    schemes: frozenset[str] = HTTP_SCHEMES,
) -> Iterator[Link | None]:
    """Links of the style sheet *body* that was fetched from *url*, one by one.

    Of the kind ``stylesheet`` for ``@import`` and ``css`` for everything else: images, fonts. None
    at least every few milliseconds when there is nothing else, for callers that must not wait: 1
    MiB takes up to 0.2 s.
    """
    if limit <= 0:
        return
    codec = charsets.detect(body, declared=charset)
    resolve = ReferenceResolver(url, codec=codec, schemes=schemes).resolve
    seen: set[str] = set()
    for found in _references(charsets.decode(body, codec)):
        target = None
        if found is not None and not found[1].startswith("#"):
            target = resolve(found[1])
        if found is None or target is None or target in seen:
            yield None
        else:
            seen.add(target)
            yield Link(target, "", found[0])
            if len(seen) >= limit:
                return


def css_references(text: str) -> Iterator[tuple[str, str]]:
    """Kind and raw reference of each ``@import`` and ``url()`` in the style sheet *text*."""
    return (found for found in _references(text) if found is not None)


def _references(text: str) -> Iterator[tuple[str, str] | None]:
    """Those of ``css_references``, and None now and then."""
    kind = "css"
    left = MAX_REFERENCES
    for number, found in enumerate(_TOKEN.finditer(text), 1):
        if number % _TOKENS_AT_ONCE == 0:
            yield None
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
