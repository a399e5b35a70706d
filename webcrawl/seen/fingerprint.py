"""Fingerprint: the 64-bit name of a URL in the eliminator. Made once per extracted link.

Mercator (section 3.2) uses 8-byte Rabin fingerprints; xxh3 has the same size and is many times
faster. By the birthday bound a crawl of a billion URLs expects 0.03 collisions, each of which
hides one URL. The value 0 marks an empty slot in the buffer T, so no URL gets it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xxhash import xxh3_64_intdigest

if TYPE_CHECKING:
    from collections.abc import Iterable


def fingerprint(url: str) -> int:
    """The fingerprint of *url* as it stands: normalizing is the caller's part. Never 0."""
    return xxh3_64_intdigest(url.encode()) or 1


def fingerprints(urls: Iterable[str]) -> list[int]:
    """``fingerprint`` of each of *urls*: a page's links at once, without a call for each."""
    digest = xxh3_64_intdigest
    return [digest(url.encode()) or 1 for url in urls]


def hexadecimal(fp: int) -> str:
    """*fp* for people and scripts: 16 hex digits."""
    return f"{fp:016x}"
