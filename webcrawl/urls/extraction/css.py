"""References in style sheets: ``url()`` and ``@import``.

Used for fetched style sheets, and by ``html`` for ``<style>`` and ``style=``. Follows CSS Syntax,
section 4, as far as it determines where a reference begins and ends: comments and strings are
skipped, escapes are decoded, a string ends at an unescaped line end. Never raises; takes time
linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from webcrawl.urls.extraction import charset as charsets
from webcrawl.urls.extraction.document import MarkupDocument
from webcrawl.urls.extraction.reference_resolver import in_encoding
from webcrawl.urls.extraction.references import character
from webcrawl.urls.link import Link

_TOKENS_AT_ONCE = 1024

_OPENED = r"""(?: "[^"\\\n]*+(?:\\.[^"\\\n]*+)*+ | '[^'\\\n]*+(?:\\.[^'\\\n]*+)*+ )"""
_STRING = rf"""{_OPENED} ["']"""
_ESCAPED = r"""\\(?:[0-9a-fA-F]{1,6}\s?|[^\n])"""
# Every character is part of a token, so there are pauses in any text. Text that only begins like a
# reference is read twice.
_TOKEN = re.compile(
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
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|\n|(.))", re.DOTALL)


def iter_css_links(sheet: MarkupDocument) -> Iterator[Link | None]:
    """Extract links from *sheet*: kind ``stylesheet`` for ``@import``, ``css`` for all others.

    Yields None for pauses. 1 MiB takes up to 0.2 s.
    """
    codec = charsets.detect(sheet.body, declared=sheet.charset)
    for link in css_references(charsets.decode(sheet.body, codec)):
        if link is not None:
            link.url = in_encoding(link.url, codec)
        yield link


def css_references(text: str) -> Iterator[Link | None]:
    """Yield each ``@import`` and ``url()`` in the style sheet *text*, and None for pauses."""
    kind = "css"
    for number, token in enumerate(_TOKEN.finditer(text), 1):
        if number % _TOKENS_AT_ONCE == 0:
            yield None
        reference = token["imported"] or token["url"]
        if token["at"]:  # the reference is in this token, or is the url() in the next one
            kind = "stylesheet"
        if reference is not None:
            yield Link(_value_of(reference), "", kind)
            kind = "css"


def _value_of(token: str) -> str:
    """Return the value of *token*, a string or an unquoted URL."""
    if token[:1] in ('"', "'"):
        token = token[1:-1]
    if "\\" in token:
        token = _ESCAPE.sub(_unescape, token)
    return token


def _unescape(escape: re.Match[str]) -> str:
    """Return the character that a match of ``_ESCAPE`` stands for."""
    if not escape[1]:
        return escape[2] or ""
    return character(int(escape[1], 16))
