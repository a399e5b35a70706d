"""Fingerprints: 64-bit hashes that identify URLs and documents.

Mercator (section 3.2) uses 8-byte Rabin fingerprints; xxh3 has the same size and is many times
faster. By the birthday bound, a crawl of a billion URLs expects 0.03 collisions, each of which
hides one URL. As each job has a seed (urls/hash_seed.py), nobody can choose URLs that collide. The
value 0 marks an empty slot in the buffer T, so no URL gets it.
"""

from __future__ import annotations

from collections.abc import Iterable

from xxhash import xxh3_64_intdigest

from webcrawl.urls.hash_seed import seed_in_use


def fingerprint(url: str) -> int:
    """Return the fingerprint of *url*, which the caller has normalized; it is never 0."""
    return document_fingerprint(url.encode())


def document_fingerprint(data: bytes) -> int:
    """Return the fingerprint of a document with the bytes *data*; it is never 0."""
    return xxh3_64_intdigest(data, seed_in_use()) or 1


def fingerprints(urls: Iterable[str]) -> list[int]:
    """Return the fingerprints of *urls*; faster than calling ``fingerprint`` for each."""
    digest = xxh3_64_intdigest
    seed = seed_in_use()
    return [digest(url.encode(), seed) or 1 for url in urls]


def own_key(fp: int) -> int:
    """Return the key of a URL with the fingerprint *fp* that its own domain has named."""
    return (fp | 3) ^ 2


def foreign_key(fp: int) -> int:
    """Return the key of a URL with the fingerprint *fp* that another domain has named."""
    return (fp | 3) ^ 3


def finished_key(fp: int) -> int:
    """Return the key of a foreign URL with the fingerprint *fp* that is finished."""
    return (fp | 3) ^ 1


def hexadecimal(fp: int) -> str:
    """Format *fp* as 16 hex digits, for people and scripts."""
    return fp.to_bytes(8).hex()
