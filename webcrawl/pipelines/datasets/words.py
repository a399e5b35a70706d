"""Division of a text into words, as spaCy divides English and as datatrove's filters expect it.

words.json has spaCy's rules and datatrove's lists of characters and phrases, and is written by
tests/rigs/reading/word_rules.py. A text is first divided at whitespace. The rules divide each chunk
further. Most chunks of a text are common, so results are kept, in about 20 MB.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain
from pathlib import Path

import msgspec

from webcrawl.configuration.decoding import json_decoder

MAX_CACHED = 1 << 16
# Longer chunks are words as they are: dividing them could take time quadratic in their length.
_MAX_CHUNK_CHARS = 100


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
_SPECIAL = {words.replace(" ", ""): words.split() for words in RULES.special}
_prefix = re.compile(RULES.prefix).search
_suffix = re.compile(RULES.suffix).search
_split_infixes = re.compile(f"({RULES.infix})").split
_is_url = re.compile(RULES.url).match


def words_in(text: str) -> list[str]:
    """Return the words and punctuation marks of *text*."""
    return list(chain.from_iterable(map(_divide, text.split())))


@lru_cache(MAX_CACHED)
def _divide(chunk: str) -> list[str]:
    """Return the words and punctuation marks of *chunk*, a part of a text without whitespace."""
    if chunk in _SPECIAL:
        return _SPECIAL[chunk]
    if len(chunk) > _MAX_CHUNK_CHARS or (chunk.isascii() and chunk.isalpha()):
        return [chunk]

    # Move punctuation from the ends of *middle* to *before* and *after*, until none is left, or
    # *middle* is a special word such as "don't" or "e.g.", whose division is listed.
    before: list[str] = []
    after: list[str] = []  # from the end of the chunk backwards
    middle = chunk
    while middle and middle not in _SPECIAL:
        match = _prefix(middle)
        start = match.end() if match is not None else 0
        match = _suffix(middle[start:])
        end = start + match.start() if match is not None else len(middle)
        # Do not take a mark off one end if a special word is left when the other end is cut.
        if start and middle[start:] in _SPECIAL:
            end = len(middle)
        elif middle[:end] in _SPECIAL:
            start = 0
        if end - start == len(middle):  # neither a prefix nor a suffix
            break
        before.append(middle[:start])
        after.append(middle[end:])
        middle = middle[start:end]

    if middle in _SPECIAL:
        before += _SPECIAL[middle]
    elif _is_url(middle):
        before.append(middle)
    else:
        before += _split_infixes(middle)
    return [word for word in (*before, *reversed(after)) if word]
