"""Random numbers of the crawler: a generator for each part, drawn from the operating system.

A rehearsal draws them from its seed instead, forked by part, so that one part does not change what
another one draws. A test keeps every other way to chance out of the package.
"""

from __future__ import annotations

import random
from collections import Counter

_seed: list[int] = []
_drawn: Counter[str] = Counter()


def generator(part: str) -> random.Random:
    """A generator for *part*; each call makes another one. 0.1 us a number, which may be guessed
    by who has seen hundreds."""
    return _repeated(part) or random.Random()


def secret_generator(part: str) -> random.Random:
    """A generator for *part* of what nobody may guess: a system call for each number."""
    return _repeated(part) or random.SystemRandom()


def _repeated(part: str) -> random.Random | None:
    if not _seed:
        return None
    _drawn[part] += 1
    return random.Random(f"{_seed[0]} {part} {_drawn[part]}")


def random_hex(part: str, size: int = 8) -> str:
    """*size* random bytes for *part*, in hexadecimal digits."""
    return secret_generator(part).randbytes(size).hex()


def draw_from(seed: int) -> None:
    """Draw from *seed* from now on: in a rehearsal."""
    _seed[:] = [seed]
    _drawn.clear()
