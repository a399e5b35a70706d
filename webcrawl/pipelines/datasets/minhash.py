"""MinHash of a text, with the hash, parameters and normalization of datatrove's default config.

The 112 values are those that ``MinhashDedupSignature`` writes: 14 buckets of 8 values of 64 bits.
Its later stages, and any other program, can thus find near-duplicates without the texts. Texts are
compared by their runs of five words. About 92 % of the pairs that have 80 % of their runs in common
also have an equal bucket. Neither rensa nor datasketch can compute these values, which they hash
and permute differently.
"""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import xxhash

from webcrawl.pipelines.datasets.words import RULES, words_in

HASHES = 112
_RUN = 5
_MAX_CHARS = 200_000
# How many runs are permuted at a time, to stay in the CPU's cache.
_STEP = 512
_PRIME = np.uint64((1 << 61) - 1)
_PRIME_BITS = np.uint64(61)
_random = np.random.RandomState(1)  # the parameters must be those of datatrove
_FACTORS = _random.randint(1, _PRIME, dtype=np.uint64, size=(HASHES, 1))
_ADDENDS = _random.randint(0, _PRIME, dtype=np.uint64, size=(HASHES, 1))
_NUMBER = re.compile(r"\d+(?:[.,،٫⎖⎗⎘]\d+)?")  # noqa: RUF001
_PUNCTUATION = dict.fromkeys(map(ord, RULES.punctuation), " ")


def minhash(text: str) -> list[int] | None:
    """Return the 112 values of *text*, or None if it has fewer than five words.

    Only the first 200,000 characters are read. Takes 2 ms for 800 words.
    """
    words = words_in(_simplified(text[:_MAX_CHARS]))
    if len(words) < _RUN:
        return None
    runs = [" ".join(words[start : start + _RUN]) for start in range(len(words) - _RUN + 1)]
    shingles = np.array([xxhash.xxh64_intdigest(run.encode()) for run in runs], np.uint64)
    smallest = np.full(HASHES, _PRIME)
    for start in range(0, shingles.size, _STEP):
        # The product is modulo 2**64, as in datatrove, and the sum modulo the prime.
        sums = shingles[start : start + _STEP] * _FACTORS
        sums += _ADDENDS
        remainders = sums & _PRIME
        sums >>= _PRIME_BITS
        remainders += sums
        np.subtract(remainders, _PRIME, out=sums)  # a huge number if that would be negative
        np.minimum(remainders, sums, out=remainders)
        np.minimum(smallest, remainders.min(axis=1), out=smallest)
    values: list[int] = smallest.tolist()
    return values


def _simplified(text: str) -> str:
    """Return *text* in lower case, with 0 for each number, without punctuation and accents."""
    text = _NUMBER.sub("0", text.lower()).translate(_PUNCTUATION)
    if text.isascii():
        return text
    text = unicodedata.normalize("NFD", text)
    marks = [ord(char) for char in set(text) if unicodedata.category(char) == "Mn"]
    return text.translate(dict.fromkeys(marks))
