"""Pseudo-random draws: pure functions of (seed, stream, numbers).

Every fact about the simulated web is such a draw, so the web needs no storage, and two processes
with the same seed see the same web. A *stream* keeps the draws for different purposes independent.
"""

from __future__ import annotations

import hashlib
import struct

from xxhash import xxh3_64_intdigest

# One number for each purpose; changing one changes the web of every seed.
HOST = 1
PAGE = 2
SIZE = 3
LINKS = 4
TEXT = 5
REDIRECT = 6
CONTENT = 7
FAULT = 8
ENDLESS = 9
FARM = 10
RATE = 11
CHANGES = 12
TOLD = 13
UNTRUE = 14

_PAIR = struct.Struct("<QQ")
_pack = _PAIR.pack


def draw(seed: int, stream: int, first: int, second: int = 0) -> int:
    """Draw a uniform 64-bit integer; *first* and *second* are below 2^56 and 2^64."""
    return xxh3_64_intdigest(_pack(first << 8 | stream, second), seed)


def draws(seed: int, stream: int, first: int, second: int, count: int) -> list[int]:
    """Draw *count* independent 64-bit integers from one key; 40 take about 2 µs."""
    key = _pack(first << 8 | stream, second) + seed.to_bytes(8, "little")
    return memoryview(hashlib.shake_128(key).digest(8 * count)).cast("Q").tolist()


def noise(seed: int, index: int) -> bytes:
    """Return the bytes that host *index* sends if it sends garbage."""
    return b"".join(value.to_bytes(8, "little") for value in draws(seed, FAULT, index, 1, 40))


def unit(value: int) -> float:
    """Convert a draw to a number in [0, 1), from its upper 53 bits."""
    return (value >> 11) * (1.0 / (1 << 53))
