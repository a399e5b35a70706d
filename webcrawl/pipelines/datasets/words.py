"""Division of a text into words, as spaCy divides English and as datatrove's filters expect it.

words.json has spaCy's rules and datatrove's lists of characters and phrases, and is written by
tests/rigs/word_rules.py. A text is first divided at whitespace. The rules divide each chunk
further, so ``WordCache`` remembers the results: most chunks of a text are common.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from webcrawl.configuration.decoding import json_decoder

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

# Longer chunks are words as they are: dividing them could take time quadratic in their length.
_MAX_CHUNK_CHARS = 1000
# How many chunks a cache remembers, and the length of the longest one; about 10 MB.
_MAX_CACHED = 1 << 16
_MAX_CACHED_CHARS = 32


class _Rules(msgspec.Struct):
    """The content of words.json."""

    prefix: str
    suffix: str
    infix: str
    url: str
    special: list[str]
    sentence_ends: str
    punctuation: str
    terminal: str
    stop_words: list[str]
    policies: list[str]


RULES = json_decoder(_Rules)(Path(__file__).with_name("words.json").read_bytes())
_MAX_SPECIAL_PARTS = 6
_SPECIAL = {words.replace(" ", ""): words.split() for words in RULES.special}
_prefix = re.compile(RULES.prefix).search
_suffix = re.compile(RULES.suffix).search
_infixes = re.compile(RULES.infix).finditer
_is_url = re.compile(RULES.url).match


class WordCache(dict[str, T]):
    """Results of *compute* for chunks without whitespace, of which the common ones are kept."""

    def __init__(self, compute: Callable[[str], T]) -> None:
        self._compute = compute

    def __missing__(self, chunk: str) -> T:
        result = self._compute(chunk)
        if len(chunk) <= _MAX_CACHED_CHARS:
            if len(self) >= _MAX_CACHED:
                self.clear()
            self[chunk] = result
        return result


def words_of(chunk: str) -> list[str]:
    """Return the words and punctuation marks of *chunk*, a part of a text without whitespace."""
    if chunk in _SPECIAL:
        return _SPECIAL[chunk]
    if len(chunk) > _MAX_CHUNK_CHARS or (chunk.isascii() and chunk.isalpha()):
        return [chunk]

    before: list[str] = []
    after: list[str] = []
    middle = chunk
    while middle and middle not in _SPECIAL:
        match = _prefix(middle)
        start = match.end() if match is not None else 0
        match = _suffix(middle[start:])
        end = start + match.start() if match is not None else len(middle)
        if start and middle[start:] in _SPECIAL:
            end = len(middle)
        elif middle[:end] in _SPECIAL:
            start = 0
        if end - start == len(middle):
            break
        before.append(middle[:start])
        after.append(middle[end:])
        middle = middle[start:end]

    if middle in _SPECIAL:
        before += _SPECIAL[middle]
    elif _is_url(middle):
        before.append(middle)
    else:
        start = 0
        for match in _infixes(middle):
            if match.start() != start:
                before += (middle[start : match.start()], match[0])
                start = match.end()
        before.append(middle[start:])
    words = [word for word in (*before, *reversed(after)) if word]
    return _with_special_words(words) if len(words) > 1 else words


def _with_special_words(words: list[str]) -> list[str]:
    """Return *words* with the parts of special words joined, such as the two of ``):``."""
    found: list[str] = []
    start = 0
    while start < len(words):
        for end in range(min(len(words), start + _MAX_SPECIAL_PARTS), start, -1):
            word = "".join(words[start:end])
            if end == start + 1 or word in _SPECIAL:
                found += _SPECIAL[word] if end > start + 1 else [word]
                start = end
                break
    return found
