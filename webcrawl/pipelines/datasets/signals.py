"""Quality signals of a text: the numbers behind the filters of Gopher, C4 and FineWeb.

Each number is the one that datatrove's filter of that name compares with its limit, so a query can
apply these filters, or others, without reading the text. docs/reference/formats.md lists the
limits. The words are those of ``words``, and the lists of words are English.
"""

from __future__ import annotations

import re
import struct
import unicodedata
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import xxhash

from webcrawl.pipelines.datasets.words import RULES, WordCache, words_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

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

# What is counted of a word: a hash, its length, and bits of its kind.
_COUNTED = np.dtype([("hash", "u8"), ("length", "i8"), ("kind", "i8")])
_pack = struct.Struct("Qqq").pack
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_LETTERS, _WORD, _POINT, _END = 1, 2, 4, 8  # a letter, not only symbols, punctuation, sentence end
_BREAK = 16  # between two lines, marked by a character that is not in any text
_BREAK_MARK = "\0"
_FIRST_STOP_WORD = 5
_STOP_WORDS = {word: 1 << _FIRST_STOP_WORD + n for n, word in enumerate(RULES.stop_words)}
# A new sentence: an end and other punctuation, then anything else.
_SENTENCE = re.compile(rb"[\x08-\x0f][\x04-\x0f]*[\x00-\x03]")


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
    """Return the signals of *text*. Takes 0.5 ms for 700 words."""
    characters = len(text)
    text = text[:_MAX_CHARS]
    words = _counted(text)
    kinds = words["kind"]
    is_word = kinds & _WORD != 0
    word_count = int(np.count_nonzero(is_word))
    lines = text.splitlines()
    stop_words = int(np.bitwise_or.reduce(kinds, initial=0)) >> _FIRST_STOP_WORD

    length, total = len(text) or 1, len(words) or 1
    line_parts, paragraph_parts = re.split("\n+", text), re.split("\n{2,}", text.strip())
    duplicate_lines, duplicate_line_chars = _duplicates(line_parts)
    duplicate_paragraphs, duplicate_paragraph_chars = _duplicates(paragraph_parts)
    filled_lines = [line for line in text.split("\n") if line.strip()]
    filled_count, line_breaks = len(filled_lines) or 1, text.count("\n")

    numbers: tuple[Any, ...] = (
        characters,
        word_count,
        float(words["length"][is_word].sum() / (word_count or 1)),
        text.count("#") / total,
        sum(map(text.count, _ELLIPSES)) / total,
        sum(line.lstrip().startswith(_BULLETS) for line in lines) / (len(lines) or 1),
        sum(line.rstrip().endswith(_ELLIPSES) for line in lines) / (len(lines) or 1),
        float(np.count_nonzero(kinds & _LETTERS) / total),
        stop_words.bit_count(),
        duplicate_lines / len(line_parts),
        duplicate_line_chars / length,
        duplicate_paragraphs / len(paragraph_parts),
        duplicate_paragraph_chars / length,
        *(chars / length for chars in _repeated_characters(words)),
        *_c4_counts(lines),
        sum(line.endswith(_LINE_ENDS) for line in filled_lines) / filled_count,
        sum(len(line) <= _SHORT_LINE for line in filled_lines) / filled_count,
        _duplicates(filled_lines)[1] / (length - line_breaks or 1),
        line_breaks / total,
    )
    return Signals(*numbers)


def _record_of(chunk: str) -> bytes:
    """Return what is counted of the words of *chunk*, as bytes of _COUNTED."""
    if chunk == _BREAK_MARK:
        return _pack(0, 0, _BREAK)
    return b"".join(
        [
            _pack(xxhash.xxh3_64_intdigest(word.encode()), len(word), _kind_of(word))
            for word in words_of(chunk)
        ]
    )


def _kind_of(word: str) -> int:
    """Return the bits of *word*."""
    if word.isalpha():
        return _LETTERS | _WORD | _STOP_WORDS.get(word, 0)
    return (
        _LETTERS * any(map(str.isalpha, word))
        | _WORD * (not _SYMBOLS.issuperset(word))
        | _POINT * all(unicodedata.category(char)[0] == "P" for char in word)
        | _END * (word in RULES.sentence_ends)
    )


_records = WordCache(_record_of)


def _counted(text: str) -> np.ndarray[Any, np.dtype[np.void]]:
    """Return what is counted of each word of *text*."""
    return np.frombuffer(b"".join(map(_records.__getitem__, text.split())), _COUNTED)


def _duplicates(parts: Sequence[str]) -> tuple[int, int]:
    """Return how many of *parts* repeat an earlier one, and the number of their characters."""
    different = set(parts)
    count = len(parts) - len(different)
    return count, count and sum(map(len, parts)) - sum(map(len, different))


def _repeated_characters(words: np.ndarray[Any, np.dtype[np.void]]) -> list[int]:
    """Return how many characters are in repeated runs of 2 to 10 *words*.

    For runs of 2 to 4 words it is the most frequent run that counts, for longer runs each one that
    repeats an earlier run and does not overlap with the run counted before.
    """
    found = []
    hashes, lengths = words["hash"], words["length"]
    runs, sizes = hashes, lengths
    for size in range(2, 11):
        runs = runs[:-1] * _FACTOR + hashes[size - 1 :]
        sizes = sizes[:-1] + lengths[size - 1 :]
        if size <= 4:
            found.append(_top_run(runs, sizes + (size - 1)))  # with the spaces between them
        else:
            found.append(_repeated_runs(runs, sizes, size))
            if not found[-1]:
                break
    return found + [0] * (9 - len(found))


def _top_run(runs: np.ndarray[Any, Any], sizes: np.ndarray[Any, Any]) -> int:
    """Return the characters of the most frequent of *runs*, which have these *sizes*.

    If several are equally frequent, the one that comes first counts.
    """
    if not runs.size:
        return 0
    _, firsts, counts = np.unique(runs, return_index=True, return_counts=True)
    most = counts.max()
    return int(sizes[firsts[counts == most].min()] * most)


def _repeated_runs(runs: np.ndarray[Any, Any], sizes: np.ndarray[Any, Any], size: int) -> int:
    """Return the characters of those *runs* of *size* words that repeat an earlier one."""
    order = np.argsort(runs, kind="stable")
    is_equal = np.equal(*(runs[order[part]] for part in (slice(1, None), slice(-1))))
    repeated = np.union1d(order[1:][is_equal], order[:-1][is_equal])
    seen: set[int] = set()
    end = chars = 0
    rows = zip(repeated.tolist(), runs[repeated].tolist(), sizes[repeated].tolist(), strict=True)
    for position, run, run_chars in rows:
        if position < end:
            continue
        if run in seen:
            chars += run_chars
            end = position + size
        seen.add(run)
    return chars


def _c4_counts(lines: Sequence[str]) -> tuple[int, int, int, int]:
    """Return the numbers of C4: lines kept, their sentences, and lines with forbidden text."""
    kept = []
    lorem_ipsum = curly_brackets = 0
    for each in lines:
        stripped = each.strip()
        line = _CITATION.sub("", stripped)
        if not line.endswith(_C4_ENDS) or line.endswith(_ELLIPSES[0]):
            continue
        words = stripped.split()
        if len(words) < _C4_MIN_WORDS or len(max(words, key=len)) > _C4_MAX_WORD:
            continue
        lower = line.lower()
        if "lorem ipsum" in lower:
            lorem_ipsum += 1
        elif "javascript" in lower:
            pass
        elif "{" in line:
            curly_brackets += 1
        elif not any(policy in lower for policy in RULES.policies):
            kept.append(line)
    kinds = _counted(f" {_BREAK_MARK} ".join(kept))["kind"].astype(np.uint8) & 0x1F
    sentences = len(kept) + len(_SENTENCE.findall(kinds.tobytes()))
    return len(kept), sentences, lorem_ipsum, curly_brackets
