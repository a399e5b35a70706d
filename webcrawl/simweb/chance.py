"""Pseudo-random numbers that are pure functions of a seed, a stream and one or two numbers.

Every property of the simulated web is derived from such draws. So the web needs no storage, and two
processes with the same seed see the same web. Each purpose has a *stream*, which makes its draws
independent of all others.
"""

from __future__ import annotations

import hashlib
import struct

from xxhash import xxh3_64_intdigest

# Streams, one number for each purpose. Changing a number changes the web of every seed.
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
REPORTED = 13
FALSE_REPORTS = 14

_PAIR = struct.Struct("<QQ")
_pack = _PAIR.pack


def draw(seed: int, stream: int, first: int, second: int = 0) -> int:
    """Return a uniform 64-bit integer; *first* must be below 2^56 and *second* below 2^64."""
    return xxh3_64_intdigest(_pack(first << 8 | stream, second), seed)


def draws(seed: int, stream: int, first: int, second: int, count: int) -> list[int]:
    """Return *count* independent 64-bit integers for one key; 40 of them take about 2 µs."""
    key = _pack(first << 8 | stream, second) + seed.to_bytes(8, "little")
    return memoryview(hashlib.shake_128(key).digest(8 * count)).cast("Q").tolist()


def noise(seed: int, index: int) -> bytes:
    """Return the bytes that host *index* sends if its fault is to send garbage."""
    return b"".join(value.to_bytes(8, "little") for value in draws(seed, FAULT, index, 1, 40))


def unit(value: int) -> float:
    """Convert the draw *value* to a number in [0, 1), using its upper 53 bits."""
    return (value >> 11) * (1.0 / (1 << 53))
