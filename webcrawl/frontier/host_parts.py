"""Parts of a host: its URLs in up to eight queues with a clock each, where its owner allows that.

A part is a politeness key of its own, ``host#i``, for the URLs whose CRC-32 is i modulo the number
of parts. Entries name the host alone: the key is found when an entry enters the back end, and again
when it is handed out, as the number may change meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_PARTS = 8
_MARK = "#"  # no host name has it


def politeness_key(host: str, url: str, parts: int) -> str:
    """The key of *url*: that of one of the *parts* of *host*, or *host* if it is undivided."""
    return host if parts == 1 else f"{host}{_MARK}{crc32(url.encode()) % parts}"


def host_of_key(key: str) -> str:
    """The host of which *key* is, or is a part."""
    return key.partition(_MARK)[0]


def keys_but_for(host: str, parts: int) -> Iterator[str]:
    """The keys that *host* has when it is divided in another way than into *parts*."""
    if parts > 1:
        yield host
    for part in range(parts if parts > 1 else 0, MOST_PARTS):
        yield f"{host}{_MARK}{part}"
