"""Random numbers of the crawler: one generator for each part, seeded by the operating system.

A rehearsal seeds them instead, separately for each part, so that one part does not change what
another one draws. A test ensures that the package gets random numbers in no other way.
"""

from __future__ import annotations

import random
from collections import Counter

_seed: list[int] = []
_generator_counts: Counter[str] = Counter()


def generator(part: str) -> random.Random:
    """Return a new generator for *part*.

    A number takes 0.1 us to draw. Anyone who has seen hundreds of them can predict the next.
    """
    return _seeded_generator(part) or random.Random()


def secret_generator(part: str) -> random.Random:
    """Return a new generator for *part* whose numbers cannot be guessed.

    Each number takes a system call.
    """
    return _seeded_generator(part) or random.SystemRandom()


def _seeded_generator(part: str) -> random.Random | None:
    """Return a new generator for *part* that repeats in every rehearsal; None outside of one."""
    if not _seed:
        return None
    _generator_counts[part] += 1
    return random.Random(f"{_seed[0]} {part} {_generator_counts[part]}")


def random_hex(part: str, size: int = 8) -> str:
    """Return *size* random bytes for *part*, as hexadecimal digits."""
    return secret_generator(part).randbytes(size).hex()


def draw_from(seed: int) -> None:
    """Derive all random numbers from *seed* from now on, for a rehearsal."""
    _seed[:] = [seed]
    _generator_counts.clear()
