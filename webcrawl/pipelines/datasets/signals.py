"""Quality signals of a text: the numbers behind the filters of Gopher, C4 and FineWeb.

Each number is the one that datatrove's filter of that name compares with its limit, so a query can
apply these filters, or others, without reading the text. docs/reference/formats.md lists the
limits. The words are those of ``words``, and the lists of words are English.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from webcrawl.pipelines.datasets.words import MAX_CACHED, RULES, words_in

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_CHARS = 200_000
_BULLETS = ("•", "-")
_ELLIPSES = ("...", "…")
_SHORT_LINE = 30
_CITATION = re.compile(r"\[\d*]|\[edit]|\[citation needed]")
_C4_ENDS = (".", "?", "!", '"', "'")
_C4_MIN_WORDS = 3
_C4_MAX_WORD = 1000
_SYMBOLS = frozenset(RULES.punctuation + RULES.terminal)
_LINE_ENDS = tuple(RULES.terminal)

_FACTOR = np.int64(0x1E3779B97F4A7C15)
# A new sentence, in the marks of words: a sentence end and other punctuation, then anything else.
_SENTENCE = re.compile(r"e[ep]*[^ep]")


class Signals(msgspec.Struct, frozen=True):
    """Quality signals of a text, 0 where there is nothing to count.

    ``words`` and the fields after it are those of the first 200,000 characters. A number whose name
    does not say otherwise is a share, 0 to 1.
    """

    characters: int
    words: int
    gopher_word_length: float
    gopher_hashes_per_word: float
    gopher_ellipses_per_word: float
    gopher_bullet_lines: float
    gopher_ellipsis_lines: float
    gopher_words_with_letters: float
    gopher_stop_words: int
    gopher_duplicate_lines: float
    gopher_duplicate_line_characters: float
    gopher_duplicate_paragraphs: float
    gopher_duplicate_paragraph_characters: float
    gopher_top_2_gram: float
    gopher_top_3_gram: float
    gopher_top_4_gram: float
    gopher_duplicate_5_grams: float
    gopher_duplicate_6_grams: float
    gopher_duplicate_7_grams: float
    gopher_duplicate_8_grams: float
    gopher_duplicate_9_grams: float
    gopher_duplicate_10_grams: float
    c4_lines: int
    c4_sentences: int
    c4_lorem_ipsum_lines: int
    c4_curly_bracket_lines: int
    fineweb_punctuated_lines: float
    fineweb_short_lines: float
    fineweb_duplicate_characters: float
    fineweb_line_breaks_per_word: float


def signals_of(text: str) -> Signals:
    """Return the signals of *text*. Takes 2 to 4 ms for 900 words."""
    characters = len(text)
    text = text[:_MAX_CHARS]
    lines = text.splitlines()
    line_words = [words_in(line) for line in lines]
    tokens = [*chain.from_iterable(line_words)]
    words = [word for word in tokens if not _is_symbol(word)]

    length = len(text) or 1
    total = len(tokens) or 1
    line_parts = re.split("\n+", text)
    paragraph_parts = re.split("\n{2,}", text.strip())
    duplicate_lines, duplicate_line_chars = _duplicates(line_parts)
    duplicate_paragraphs, duplicate_paragraph_chars = _duplicates(paragraph_parts)
    filled_lines = [line for line in text.split("\n") if line.strip()]
    filled_count = len(filled_lines) or 1
    line_breaks = text.count("\n")

    # In the order of the fields of ``Signals``. The mark of a word with letters is "a".
    numbers: tuple[Any, ...] = (
        characters,
        len(words),
        sum(map(len, words)) / (len(words) or 1),
        text.count("#") / total,
        sum(map(text.count, _ELLIPSES)) / total,
        sum(line.lstrip().startswith(_BULLETS) for line in lines) / (len(lines) or 1),
        sum(line.rstrip().endswith(_ELLIPSES) for line in lines) / (len(lines) or 1),
        "".join(map(_mark_of, tokens)).count("a") / total,
        len(set(RULES.stop_words).intersection(tokens)),
        duplicate_lines / len(line_parts),
        duplicate_line_chars / length,
        duplicate_paragraphs / len(paragraph_parts),
        duplicate_paragraph_chars / length,
        *(chars / length for chars in _repeated_characters(tokens)),
        *_c4_counts(lines, line_words),
        sum(line.endswith(_LINE_ENDS) for line in filled_lines) / filled_count,
        sum(len(line) <= _SHORT_LINE for line in filled_lines) / filled_count,
        _duplicates(filled_lines)[1] / (length - line_breaks or 1),
        line_breaks / total,
    )
    return Signals(*numbers)


@lru_cache(MAX_CACHED)
def _is_symbol(word: str) -> bool:
    """Return whether *word* consists of punctuation only."""
    return _SYMBOLS.issuperset(word)


@lru_cache(MAX_CACHED)
def _mark_of(word: str) -> str:
    """Return a for a *word* with letters, e for a sentence end, p for other punctuation, or x."""
    if any(map(str.isalpha, word)):
        return "a"
    if word in RULES.sentence_ends:
        return "e"
    return "p" if all(unicodedata.category(char)[0] == "P" for char in word) else "x"


def _duplicates(parts: Sequence[str]) -> tuple[int, int]:
    """Return how many of *parts* repeat an earlier one, and the number of their characters."""
    different = set(parts)
    count = len(parts) - len(different)
    return count, count and sum(map(len, parts)) - sum(map(len, different))


def _repeated_characters(words: Sequence[str]) -> list[int]:
    """Return how many characters are in repeated runs of 2 to 10 *words*.

    For runs of 2 to 4 words it is the most frequent run that counts, the first if there are
    several. For longer runs it is each one that repeats an earlier run and does not overlap with a
    run that was counted.
    """
    found = [0] * 9  # for the sizes 2 to 10
    hashes, lengths = (np.fromiter(map(each, words), np.int64) for each in (hash, len))
    # The hash of the run that begins at each position, and its length in characters. Each round
    # makes the runs longer by one word.
    runs = hashes
    sizes = lengths
    # The first run, and those whose beginning is repeated: no other can be counted.
    positions: Sequence[int] = range(len(words) - 1)
    for size in range(2, min(len(words), 10) + 1):
        runs = runs[:-1] * _FACTOR + hashes[size - 1 :]
        sizes = sizes[:-1] + lengths[size - 1 :]
        keys = runs[positions].tolist()
        counts = Counter(keys)
        seen: set[int] = set()
        end = 0  # where the last run that was counted ends
        repeated = [0]  # positions for the next round
        for position, key in zip(positions, keys, strict=True):
            if size > 4 and position >= end:
                if key in seen:
                    found[size - 2] += int(sizes[position])
                    end = position + size
                seen.add(key)
            # The first position is already there, and no longer run begins at the last one.
            if 0 < position < len(words) - size and counts[key] > 1:
                repeated.append(position)
        if size <= 4:
            top, count = counts.most_common(1)[0]
            # The run is counted with its spaces.
            found[size - 2] = (int(sizes[positions[keys.index(top)]]) + size - 1) * count
        positions = repeated
    return found


def _c4_counts(lines: Sequence[str], line_words: Sequence[list[str]]) -> tuple[int, int, int, int]:
    """Return the numbers of C4, in the order of the fields of ``Signals``.

    They are the lines kept, their sentences, and the lines with "lorem ipsum" and with curly
    brackets. *line_words* has the words of each line.
    """
    kept = []  # the words of each line that is kept
    lorem_ipsum = 0
    curly_brackets = 0
    for each, words in zip(lines, line_words, strict=True):
        stripped = each.strip()
        line = _CITATION.sub("", stripped)
        if not line.endswith(_C4_ENDS) or line.endswith(_ELLIPSES[0]):
            continue
        chunks = stripped.split()
        if len(chunks) < _C4_MIN_WORDS or max(map(len, chunks)) > _C4_MAX_WORD:
            continue
        lower = line.lower()
        if "lorem ipsum" in lower:
            lorem_ipsum += 1
        elif "javascript" in lower:
            pass  # the line is not kept, and no signal counts it
        elif "{" in line:
            curly_brackets += 1
        elif not any(policy in lower for policy in RULES.policies):
            kept.append(words if line == stripped else words_in(line))
    marks = ["".join(map(_mark_of, line)) for line in kept]
    # Each line is a sentence, and one more begins after each sentence end within it.
    sentences = len(kept) + sum(len(_SENTENCE.findall(line)) for line in marks)
    return len(kept), sentences, lorem_ipsum, curly_brackets
