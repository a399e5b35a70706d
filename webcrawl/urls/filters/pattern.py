"""Pattern of a URL: the parts that it shares with other URLs made by the same program.

Computed for every page whose content is checked for traps, and for every URL of a host with a
parked pattern; takes 2 to 4 µs. A pattern is the origin and the path, with placeholders for the
parts that vary, and the sorted names of the parameters::

    http://a.test/cal/{n}/{n}?sid&view        /cal/2026/11?view=month&sid=8f3a91c2
    http://a.test/forum/topic-{n}.html        /forum/topic-4711.html
    http://a.test/s/{x}/list                  /s/8f3a91c2e5d04b77/list
    http://a.test/{w}/                        /the-title-of-an-article/

http and https have separate patterns. If a site serves both, all pages of one are duplicates, and
the pages of the other must not be taken for a trap because of that.

``{n}`` stands for digits, ``{x}`` for random text, ``{w}`` for words that are unlikely to name more
than one page, ``{*}`` for everything that follows. A URL also has a wider pattern, its ``branch``:
the first segment of the path and everything below it, or a path with any query. It is for URL
spaces whose URLs have many different patterns.

Invariant: a pattern has at most 300 characters, all of them ASCII and none a space, and depends
only on the URL.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

MAX_PATTERN = 300

_CACHED_SEGMENTS = 1 << 14
_LONGEST_SEGMENT = 48
_MAX_SEGMENTS = 10
_MAX_PARAMETERS = 16
_LONGEST_QUERY = 1000
# A segment with at least this many separators, as-they-are-used-in-titles, is a title.
_TITLE_PARTS = 3

_ROOT_SLASHES = 3

_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,5}\Z")
_DIGITS = re.compile(r"[0-9]+")
_HEXADECIMAL = re.compile(r"(?=[^0-9]*[0-9])[0-9a-fA-F]{8,}|[0-9a-fA-F]{4,}(?:-[0-9a-fA-F]{4,})+")
# Letters and digits that alternate at least three times: 4a7Bz9q2, not page2.
_RANDOM = re.compile(r"(?=(?:[A-Za-z_-]*[0-9]+[A-Za-z_-]+){2})[A-Za-z0-9_-]{8,}=*")
_PART = re.compile(r"[-_+.,]")
_PLACEHOLDER = re.compile(r"\{[nxw*]\}(?:\.[a-z0-9]+)?")


class Patterns(NamedTuple):
    """The two patterns of a URL: ``shape`` and the wider ``branch``.

    ``branch`` is empty for a URL with one segment and no query.
    """

    shape: str
    branch: str


def patterns_of(url: str) -> Patterns:
    """Return the patterns of *url*, which is normalized. Never raises, even if it is not."""
    before_query, mark, query = url.partition("?")
    scheme, _, after_scheme = before_query.partition("://")
    server, _, path = after_scheme.partition("/")
    origin = f"{scheme}://{server}"
    segments = path.split("/", _MAX_SEGMENTS)
    parts = [_generalize(segment) for segment in segments[:_MAX_SEGMENTS]]
    if len(segments) > _MAX_SEGMENTS:
        parts.append("{*}")  # for the rest of a long path
    shape = f"{origin}/{'/'.join(parts)}"
    branch = ""
    if len(segments) > 1:
        branch = _bound(f"{origin}/{parts[0]}/{{*}}")
    elif mark:
        branch = _bound(f"{shape}?{{*}}")
    if mark:
        parameters = query[:_LONGEST_QUERY].split("&", _MAX_PARAMETERS)[:_MAX_PARAMETERS]
        names = sorted({_generalize(parameter.partition("=")[0]) for parameter in parameters})
        shape = f"{shape}?{'&'.join(names)}"
    return Patterns(_bound(shape), branch)


def is_broad(pattern: str) -> bool:
    """Return whether all pages of a site may match *pattern*.

    That is the case for a branch, and for a path that consists only of placeholders.
    """
    path = pattern.partition("://")[2].partition("/")[2]
    return "{*}" in path or not any(map(str.isalpha, _PLACEHOLDER.sub("", path)))


def is_root(pattern: str) -> bool:
    """Return whether only the home page of a server matches *pattern*."""
    return pattern.endswith("/") and pattern.count("/") == _ROOT_SLASHES


def _generalize(text: str) -> str:
    """Return *text* with placeholders for the parts that vary; short texts are cached.

    *text* is a segment or the name of a parameter.
    """
    return _replace_cached(text) if len(text) <= _LONGEST_SEGMENT else _replace_varying(text)


def _replace_varying(text: str) -> str:
    """Return *text*, a segment or the name of a parameter, with placeholders."""
    extension = _EXTENSION.search(text)
    stem, suffix = (text, "") if extension is None else (text[: extension.start()], extension[0])
    if len(stem) > _LONGEST_SEGMENT or "%" in stem:
        pattern = "{w}"
    elif not any(map(str.isalpha, stem)):
        pattern = _DIGITS.sub("{n}", stem)
    elif _HEXADECIMAL.fullmatch(stem) or _RANDOM.fullmatch(stem):
        pattern = "{x}"
    elif len(_PART.findall(stem)) >= _TITLE_PARTS:
        pattern = "{w}"
    else:
        pattern = _DIGITS.sub("{n}", stem)
    return pattern + suffix.lower()


_replace_cached = lru_cache(_CACHED_SEGMENTS)(_replace_varying)


def _bound(pattern: str) -> str:
    """Return *pattern* in ASCII, without spaces and with at most MAX_PATTERN characters."""
    pattern = pattern.replace(" ", "") if pattern.isascii() else ascii(pattern).replace(" ", "")
    return pattern if len(pattern) <= MAX_PATTERN else pattern[: MAX_PATTERN - 3] + "{*}"
